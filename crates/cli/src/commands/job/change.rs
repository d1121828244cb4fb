//! `jobhall job cancel` and `jobhall job retry`.

use clap::Args;
use jobhall_protocol::{Cancel, Failure, Job};

use crate::commands::job::{Tally, random_key, wait};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::human;

/// Arguments of `job cancel`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  jobhall job cancel 17\n  jobhall job cancel 17 18 --reason 'wrong input'"
)]
pub struct CancelArgs {
    /// The jobs
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<u64>,
    /// Reason, shown in the errors of the jobs
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Cancels jobs; each is tried even if another one could not be cancelled.
pub async fn cancel(context: &Context, args: &CancelArgs) -> Outcome {
    let client = context.client()?;
    let error = |reason: &String| Failure { reason: reason.clone(), explanation: String::new(), data: None };
    let why = Cancel { error: args.reason.as_ref().map(error) };
    let (mut tally, mut ended) = (Tally::default(), Vec::new());
    for &id in &args.ids {
        ended.extend(tally.take(id, client.cancel(id, &why).await));
    }
    context.output.list(&ended, || human::jobs(&ended, human::now_ms()))?;
    Ok(tally.exit())
}

/// Arguments of `job retry`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  jobhall job retry 17\n  jobhall job retry 17 18 --wait")]
pub struct RetryArgs {
    /// The jobs
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<u64>,
    /// Wait until the new jobs have ended; the exit code reports their outcome
    #[arg(long)]
    pub wait: bool,
}

/// Submits new jobs like ended ones.
pub async fn retry(context: &Context, args: &RetryArgs) -> Outcome {
    let client = context.client()?;
    let (mut tally, mut made) = (Tally::default(), Vec::new());
    for &id in &args.ids {
        made.extend(tally.take(id, client.retry(id, Some(&random_key())).await));
    }
    match tally.exit() {
        Exit::Ok if args.wait => {
            made.iter().for_each(|job: &Job| context.output.say(&format!("job {} created", job.id)));
            wait::until_ended(context, &client, made.iter().map(|job| job.id).collect(), None).await
        }
        exit => {
            context.output.list(&made, || human::jobs(&made, human::now_ms()))?;
            Ok(exit)
        }
    }
}
