//! `jobhall job wait`: until jobs have ended.
//!
//! It asks again and again, at growing pauses: that works through any proxy and over any restart of the hall, and
//! costs one small read per job and second.

use std::time::{Duration, Instant};

use clap::Args;
use jobhall_client::Client;
use jobhall_protocol::{Job, Span};

use crate::commands::job::about;
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

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Arguments of `job wait`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WaitArgs {
    /// The jobs
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<u64>,
    /// Give up after this span, such as 10m; the jobs go on
    #[arg(long, value_name = "SPAN")]
    pub timeout: Option<Span>,
}

/// Waits and shows how the jobs ended.
pub async fn run(context: &Context, args: &WaitArgs) -> Outcome {
    let client = context.client()?;
    until_ended(context, &client, args.ids.clone(), args.timeout).await
}

/// Waits for jobs and prints them; the verdict is the gravest of theirs.
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
    let deadline = timeout.and_then(|span| Instant::now().checked_add(Duration::from_millis(span.0)));
    let mut progress = context.output.progress(ids.len() as u64, "waiting");
    let mut jobs = Vec::with_capacity(ids.len());
    for id in ids {
        progress.set(jobs.len() as u64, &format!("job {id}"));
        jobs.push(one(client, id, deadline).await?);
    }
    progress.finish();
    Ok(jobs)
}

/// Waits for one job.
pub async fn one(client: &Client, id: u64, deadline: Option<Instant>) -> Outcome<Job> {
    let mut pause = FIRST_PAUSE;
    loop {
        let job = client.job(id).await.map_err(|error| about(id, error))?;
        if Exit::of_job(&job).is_some() {
            return Ok(job);
        }
        if deadline.is_some_and(|deadline| Instant::now() + pause > deadline) {
            return Err(Failure::new(Exit::TimedOut, format!("job {id} has not ended in time"))
                .why(format!("it is {}", job.state))
                .fix(format!("see `jobhall job explain {id}`")));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}
