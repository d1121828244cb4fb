//! `jobhall job log`: the bytes a job wrote, as it wrote them.

use clap::Args;
use jobhall_client::{Client, LogRange};
use jobhall_protocol::{Code, Job};

use crate::commands::job::about;
use crate::commands::until_interrupted;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  jobhall job log 17
  jobhall job log -f 17                follow it until the job has ended
  jobhall job log 17 --attempt 1 --tail 4096";

/// Arguments of `job log`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LogArgs {
    /// The job
    pub id: u64,
    /// Print what comes until the job has ended
    #[arg(short, long, conflicts_with = "tail")]
    pub follow: bool,
    /// Of this attempt, by its number or id, such as 17-2 [default: the last]
    #[arg(long, value_name = "N")]
    pub attempt: Option<String>,
    /// Only so many bytes of the end
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub tail: Option<u64>,
}

/// Prints the log.
pub async fn run(context: &Context, args: &LogArgs) -> Outcome {
    until_interrupted(print(context, args)).await?;
    Ok(Exit::Ok)
}

async fn print(context: &Context, args: &LogArgs) -> Outcome<()> {
    let client = context.client()?;
    let attempt = args.attempt.as_deref();
    if args.follow {
        return follow(context, &client, args).await;
    }
    let range = args.tail.map_or(LogRange::All, LogRange::Last);
    print_range(context, &client, args.id, attempt, range).await
}

async fn print_range(
    context: &Context,
    client: &Client,
    id: u64,
    attempt: Option<&str>,
    range: LogRange,
) -> Outcome<()> {
    let mut log = client.read_log(id, attempt, range);
    while let Some(bytes) = log.next().await.map_err(|error| about(id, error))? {
        context.output.raw(&bytes)?;
    }
    Ok(())
}

/// Follows the attempt that is named, or else all there will be.
async fn follow(context: &Context, client: &Client, args: &LogArgs) -> Outcome<()> {
    let Some(attempt) = &args.attempt else {
        let last = client.job(args.id).await.map_err(|error| about(args.id, error))?;
        let before = last.attempts.iter().rev().nth(1).map(|attempt| attempt.id.clone());
        return follow_job(context, client, args.id, before).await.map(drop);
    };
    let mut log = client.follow_log(args.id, Some(attempt), 0);
    while let Some(bytes) = log.next().await.map_err(|error| about(args.id, error))? {
        context.output.raw(&bytes)?;
    }
    Ok(())
}

/// Prints the logs of the attempts behind one, one after the other, until the job has ended.
pub async fn follow_job(context: &Context, client: &Client, id: u64, behind: Option<String>) -> Outcome<Job> {
    let mut printed = behind.as_deref().map_or(0, claim);
    let (mut here, mut offset) = (0, 0);
    // Opened before the first look, so that no attempt can begin unseen between two of them.
    let mut events = client.events(Some(id), None);
    events.open().await.map_err(|error| about(id, error))?;
    loop {
        let job = client.job(id).await.map_err(|error| about(id, error))?;
        let Some(attempt) = job.attempts.iter().find(|attempt| claim(&attempt.id) > printed) else {
            if Exit::of_job(&job).is_some() {
                return Ok(job);
            }
            events.next().await.map_err(|error| about(id, error))?;
            continue;
        };
        if here != claim(&attempt.id) {
            (here, offset) = (claim(&attempt.id), 0);
            context.output.detail(&format!("attempt {} on {}", attempt.id, attempt.worker));
        }
        // A hall that stops ends the stream too: only the log of an attempt that has ended is complete.
        if attempt.ended_at.is_some() {
            print_range(context, client, id, Some(&attempt.id), LogRange::From(offset)).await?;
            printed = here;
        } else {
            offset = print_from(context, client, &attempt.id, id, offset).await?;
        }
    }
}

/// The claim in an attempt's id; it rises from attempt to attempt.
fn claim(id: &str) -> u64 {
    id.rsplit('-').next().and_then(|claim| claim.parse().ok()).unwrap_or(0)
}

async fn print_from(context: &Context, client: &Client, attempt: &str, id: u64, offset: u64) -> Outcome<u64> {
    let mut log = client.follow_log(id, Some(attempt), offset);
    loop {
        match log.next().await {
            Ok(Some(bytes)) => context.output.raw(&bytes)?,
            // Taken back before anyone accepted it.
            Err(error) if error.code() == Some(Code::NotFound) => return Ok(log.offset()),
            Ok(None) => return Ok(log.offset()),
            Err(error) => return Err(about(id, error)),
        }
    }
}
