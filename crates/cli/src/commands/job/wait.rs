//! `jobhall job wait`: waits until jobs have ended.
//!
//! It follows the event stream, which resumes after lost connections and restarts of the server.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jobhall_client::{Client, ClientError, Ends};
use jobhall_protocol::{Code, Job, Span};

use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human;

const EXAMPLES: &str = "\
Examples:
  jobhall job wait 17
  jobhall job wait 17 18 19 --timeout 10m
  jobhall job wait 17 && echo it succeeded";

/// Arguments of `job wait`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WaitArgs {
    /// The jobs
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<u64>,
    /// Stop waiting after this time, such as 10m; the jobs continue
    #[arg(long, value_name = "SPAN")]
    pub timeout: Option<Span>,
}

/// Waits and shows how the jobs ended.
pub async fn run(context: &Context, args: &WaitArgs) -> Outcome {
    let client = context.client()?;
    until_ended(context, &client, args.ids.clone(), args.timeout).await
}

/// Waits for jobs and prints them; returns the most severe exit code among them.
pub async fn until_ended(
    context: &Context,
    client: &Client,
    ids: Vec<u64>,
    timeout: Option<Span>,
) -> Outcome {
    let jobs = until_interrupted(ended(context, client, ids, timeout)).await?;
    context.output.list(&jobs, || human::jobs(&jobs, human::now_ms()))?;
    Ok(Exit::gravest(jobs.iter().filter_map(Exit::of_job)))
}

async fn ended(
    context: &Context,
    client: &Client,
    ids: Vec<u64>,
    timeout: Option<Span>,
) -> Outcome<Vec<Job>> {
    let mut ends = client.ends(ids.iter().copied());
    let mut progress = context.output.progress(ends.pending().len() as u64, "waiting");
    let mut found = BTreeMap::new();
    let all = async {
        while let Some(job) = ends.next().await.map_err(unseen)? {
            found.insert(job.id, job);
            progress.set(found.len() as u64, "");
        }
        Ok::<_, Failure>(())
    };
    let ended = match timeout {
        Some(span) => tokio::time::timeout(Duration::from_millis(span.0), all).await,
        None => Ok(all.await),
    };
    progress.finish();
    match ended {
        Ok(all) => all?,
        Err(_) => return Err(late(client, &ends).await),
    }
    Ok(ids.iter().filter_map(|id| found.get(id).cloned()).collect())
}

pub async fn one(client: &Client, id: u64) -> Outcome<Job> {
    let ended = client.ends([id]).next().await.map_err(unseen)?;
    ended.ok_or_else(|| Failure::new(Exit::Unexpected, format!("the event stream ended before job {id} did")))
}

fn unseen(error: ClientError) -> Failure {
    let unknown = error.code() == Some(Code::NotFound);
    let failure = Failure::from(error);
    if unknown { failure.fix("list the jobs with `jobhall job list --all`") } else { failure }
}

async fn late(client: &Client, ends: &Ends) -> Failure {
    let id = ends.pending().first().copied().unwrap_or_default();
    let failure = Failure::new(Exit::TimedOut, format!("job {id} has not ended within the timeout"));
    let failure = match client.job(id).await {
        Ok(job) => failure.why(format!("it is {}", job.state)),
        Err(_) => failure,
    };
    failure.fix(format!("see `jobhall job explain {id}`"))
}
