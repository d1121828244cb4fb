//! `jobhall job list`.

use clap::Args;
use jobhall_client::{Client, JobFilter};
use jobhall_core::StateName;
use jobhall_protocol::Job;

use crate::commands::types;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::{Format, human};
use crate::suggest;

const EXAMPLES: &str = "\
Examples:
  jobhall job list
  jobhall job list --state running,queued --type thumbnail
  jobhall job list --all --jsonl --fields id,state";

/// The most jobs on one page that is asked for.
const PAGE: usize = 500;

/// Arguments of `job list`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ListArgs {
    /// Only in these states; also `pending` and `completed`
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<String>,
    /// Only of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub job_type: Option<String>,
    /// Only with this key
    #[arg(long)]
    pub key: Option<String>,
    /// Only in this queue
    #[arg(long)]
    pub queue: Option<String>,
    /// So many at most
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
}

/// Lists jobs.
pub async fn run(context: &Context, args: &ListArgs) -> Outcome {
    let client = context.client()?;
    let most = if args.all { usize::MAX } else { usize::try_from(args.limit).unwrap_or(usize::MAX) };
    let mut found = Found { context, jobs: Vec::new(), seen: 0, most };
    for states in args.passes()? {
        let limit = u32::try_from(most.min(PAGE)).ok();
        let (job_type, key, queue) = (args.job_type.clone(), args.key.clone(), args.queue.clone());
        found.take(&client, JobFilter { states, job_type, key, queue, limit }).await?;
    }
    if found.seen == 0 {
        context.output.say(&nothing(&client, args).await);
    }
    if context.output.format != Format::Jsonl {
        context.output.list(&found.jobs, || human::jobs(&found.jobs, human::now_ms()))?;
    }
    Ok(Exit::Ok)
}

/// What was found so far. Lines of JSON are printed as they come and not kept.
struct Found<'a> {
    context: &'a Context,
    jobs: Vec<Job>,
    seen: usize,
    most: usize,
}

impl Found<'_> {
    async fn take(&mut self, client: &Client, filter: JobFilter) -> Outcome<()> {
        let mut jobs = client.all_jobs(filter);
        while self.seen < self.most {
            let Some(job) = jobs.next().await? else { return Ok(()) };
            self.seen += 1;
            if self.context.output.format == Format::Jsonl {
                self.context.output.each(&job)?;
            } else {
                self.jobs.push(job);
            }
        }
        Ok(())
    }
}

async fn nothing(client: &Client, args: &ListArgs) -> String {
    let filtered = !args.state.is_empty() || args.key.is_some() || args.queue.is_some();
    match &args.job_type {
        Some(name) => format!("no such jobs of type {name:?}{}", types::hint(client, name).await),
        None if filtered => "no jobs match; see all with `jobhall job list --all`".to_owned(),
        None => "no jobs yet; try `jobhall run -- echo hello`".to_owned(),
    }
}

impl ListArgs {
    /// The lists to make, one after the other: without a wish for states, pending jobs come before completed ones.
    fn passes(&self) -> Outcome<Vec<Vec<String>>> {
        if self.state.is_empty() {
            return Ok(vec![named(|name| !name.is_terminal()), named(StateName::is_terminal)]);
        }
        let mut states = Vec::new();
        for word in &self.state {
            states.extend(states_of(word)?);
        }
        Ok(vec![states])
    }
}

fn named(wanted: impl Fn(StateName) -> bool) -> Vec<String> {
    StateName::ALL.into_iter().filter(|name| wanted(*name)).map(|name| name.to_string()).collect()
}

fn states_of(word: &str) -> Outcome<Vec<String>> {
    match word {
        "pending" => return Ok(named(|name| !name.is_terminal())),
        "completed" => return Ok(named(StateName::is_terminal)),
        _ => {}
    }
    let names = StateName::ALL.map(StateName::as_str);
    if names.contains(&word) {
        return Ok(vec![word.to_owned()]);
    }
    let hint = suggest::hint(word, names.into_iter().chain(["pending", "completed"]));
    Err(Failure::usage(format!("there is no state {word:?}{hint}"))
        .fix(format!("states: {}, pending, completed", names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_checked_with_a_suggestion() {
        assert_eq!(states_of("running").unwrap(), ["running"]);
        assert_eq!(states_of("completed").unwrap(), ["succeeded", "failed", "crashed", "cancelled"]);
        assert_eq!(states_of("pending").unwrap().len(), 7);
        let failure = states_of("runing").unwrap_err();
        assert_eq!(failure.what, "there is no state \"runing\"; did you mean \"running\"?");
    }
}
