//! `jobhall job list`.

use clap::Args;
use jobhall_client::{Client, JobFilter};
use jobhall_core::StateName;
use jobhall_protocol::Job;

use crate::commands::job::filter::{FilterArgs, named};
use crate::commands::types;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::{Format, human};

const EXAMPLES: &str = "\
Examples:
  jobhall job list
  jobhall job list --state running,queued --type thumbnail
  jobhall job list --q timeout --state failed
  jobhall job list --all --jsonl --fields id,state";

/// The maximum number of jobs per requested page.
const PAGE: usize = 500;

/// Arguments of `job list`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ListArgs {
    #[command(flatten)]
    pub which: FilterArgs,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// List all jobs
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
}

impl ListArgs {
    /// Restricts the list to jobs that a worker has, unless states were given.
    pub fn with_workers(mut self) -> ListArgs {
        if self.which.state.is_empty() {
            let leased = [StateName::Assigned, StateName::Accepted, StateName::Running, StateName::Waiting];
            self.which.state = leased.map(|state| state.as_str().to_owned()).to_vec();
        }
        self
    }
}

pub async fn run(context: &Context, args: &ListArgs) -> Outcome {
    let client = context.client()?;
    let most = if args.all { usize::MAX } else { usize::try_from(args.limit).unwrap_or(usize::MAX) };
    let mut found = Found { context, jobs: Vec::new(), seen: 0, most };
    for states in args.passes()? {
        let limit = u32::try_from(most.min(PAGE)).ok();
        found.take(&client, args.which.filter(states, limit)).await?;
    }
    if found.seen == 0 {
        context.output.say(&nothing(&client, args).await);
    }
    if context.output.format != Format::Jsonl {
        context.output.list(&found.jobs, || human::jobs(&found.jobs, human::now_ms()))?;
    }
    Ok(Exit::Ok)
}

/// The jobs found so far. JSON lines are printed immediately and not collected.
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
    match &args.which.job_type {
        Some(name) => format!("no matching jobs of type {name:?}{}", types::hint(client, name).await),
        None if args.which.narrows() => "no jobs match; list all with `jobhall job list --all`".to_owned(),
        None => "no jobs yet; try `jobhall run -- echo hello`".to_owned(),
    }
}

impl ListArgs {
    /// The filters to list in order: without `--state`, pending jobs precede completed ones.
    fn passes(&self) -> Outcome<Vec<Vec<String>>> {
        if self.which.state.is_empty() {
            return Ok(vec![named(|name| !name.is_terminal()), named(StateName::is_terminal)]);
        }
        Ok(vec![self.which.states()?])
    }
}
