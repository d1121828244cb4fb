//! `jobhall job edit`, `hold`, `release` and `run-now`: changes of waiting jobs.

use clap::Args;
use jobhall_client::{Client, ClientError};
use jobhall_protocol::{EditJob, EditTimeouts, Job, Retry, Span, Timestamp};

use crate::commands::job::submit::{later, moment, params};
use crate::commands::job::{Tally, about};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human;

const EXAMPLES: &str = "\
Examples:
  jobhall job edit 17 --priority 5
  jobhall job edit 17 --params '{\"file\":\"b.png\"}' --needs 'gpu>=1'
  jobhall job edit 17 --run-at 2026-11-15T09:00:00Z --tag nightly --tag eu
  jobhall job edit 17 --owner '' --no-tags";

/// Arguments of `job edit`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EditArgs {
    /// The job
    #[arg(value_name = "ID")]
    pub id: u64,
    /// Parameters for the worker: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON")]
    pub params: Option<String>,
    /// Which workers match, such as 'os=linux, gpu>=1'
    #[arg(long, value_name = "SELECTOR")]
    pub needs: Option<String>,
    /// Amounts that it uses of its worker while it runs, such as 'gpu=1, mem_gb=8'
    #[arg(long, value_name = "AMOUNTS")]
    pub uses: Option<String>,
    /// Times of day at which it may start; empty for any time
    #[arg(long, value_name = "WINDOWS")]
    pub windows: Option<String>,
    /// Priority; lower runs first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Earliest start time, such as 2026-11-15T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub run_at: Option<Timestamp>,
    /// Earliest start as a delay from now, such as 10m
    #[arg(long = "in", value_name = "SPAN", conflicts_with = "run_at")]
    pub delay: Option<Span>,
    /// Maximum attempts
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<u16>,
    /// Weight against limits; 0 exempts it from them
    #[arg(long, value_name = "N")]
    pub throttle_factor: Option<u32>,
    /// Maximum duration of an attempt, such as 2h
    #[arg(long, value_name = "SPAN")]
    pub timeout: Option<Span>,
    /// Maximum silence of an attempt, such as 10m
    #[arg(long, value_name = "SPAN")]
    pub silence_timeout: Option<Span>,
    /// Owner; empty for none
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// Tag for filtering (repeatable); replaces all present tags
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Remove all tags
    #[arg(long, conflicts_with = "tags")]
    pub no_tags: bool,
}

impl EditArgs {
    fn edit(&self, now_ms: i64) -> Outcome<EditJob> {
        let timeouts = EditTimeouts {
            total_ms: self.timeout.map(|span| span.0),
            silence_ms: self.silence_timeout.map(|span| span.0),
        };
        let owner = self.owner.clone().map(|owner| (!owner.is_empty()).then_some(owner));
        Ok(EditJob {
            params: self.params.as_deref().map(params).transpose()?,
            needs: self.needs.clone(),
            uses: self.uses.clone(),
            avoid: None,
            windows: self.windows.clone(),
            priority: self.priority,
            run_at: self.run_at.or(self.delay.map(|delay| later(now_ms, delay)).transpose()?),
            retry: self.max_attempts.map(|most| Retry { max_attempts: Some(most), ..Retry::default() }),
            throttle_factor: self.throttle_factor,
            timeouts: (timeouts != EditTimeouts::default()).then_some(timeouts),
            owner,
            tags: (self.no_tags || !self.tags.is_empty()).then(|| self.tags.clone()),
        })
    }
}

/// Changes a job that is not assigned to a worker.
pub async fn edit(context: &Context, args: &EditArgs) -> Outcome {
    let edit = args.edit(human::now_ms())?;
    if edit.is_empty() {
        return Err(Failure::usage("nothing to change").fix("see `jobhall help job edit`"));
    }
    let checked = edit.checked_needs().map(drop);
    let checked = checked.and_then(|()| edit.checked_uses().map(drop));
    let checked = checked.and_then(|()| edit.checked_windows().map(drop));
    checked.map_err(|error| Failure::usage(error.to_string()))?;
    let job = context.client()?.edit(args.id, &edit).await.map_err(|error| about(args.id, error))?;
    context.output.one(&job, || human::job(&job, human::now_ms()))?;
    Ok(Exit::Ok)
}

/// Arguments of `job hold`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jobhall job hold 17 18")]
pub struct HoldArgs {
    /// The jobs
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<u64>,
}

/// Arguments of `job release`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jobhall job release 17 18")]
pub struct ReleaseArgs {
    /// The jobs
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<u64>,
}

/// Arguments of `job run-now`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jobhall job run-now 17")]
pub struct RunNowArgs {
    /// The jobs
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<u64>,
}

pub async fn hold(context: &Context, args: &HoldArgs) -> Outcome {
    each(context, &args.ids, async |client, id| client.hold(id).await).await
}

pub async fn release(context: &Context, args: &ReleaseArgs) -> Outcome {
    each(context, &args.ids, async |client, id| client.release(id).await).await
}

pub async fn run_now(context: &Context, args: &RunNowArgs) -> Outcome {
    each(context, &args.ids, async |client, id| client.run_now(id).await).await
}

/// Each job is tried even if another one could not be changed.
async fn each(
    context: &Context,
    ids: &[u64],
    change: impl AsyncFn(&Client, u64) -> Result<Job, ClientError>,
) -> Outcome {
    let client = context.client()?;
    let (mut tally, mut changed) = (Tally::default(), Vec::new());
    for &id in ids {
        changed.extend(tally.take(id, change(&client, id).await));
    }
    context.output.list(&changed, || human::jobs(&changed, human::now_ms()))?;
    Ok(tally.exit())
}
