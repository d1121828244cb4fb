//! `jobhall job complete`: reports the outcome of a job whose type is external.

use clap::Args;
use jobhall_protocol::{Failure, Outcome as Kind, OutcomeReport, RetryVerdict};

use crate::commands::job::params;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::human;

const EXAMPLES: &str = "\
Examples:
  jobhall job complete transcode film-17 --succeeded '{\"minutes\": 92}'
  jobhall job complete transcode film-17 --failed 'no such codec' --attempt 2
  jobhall job complete transcode film-17 --failed refused --never-again";

/// Arguments of `job complete`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompleteArgs {
    /// The type, which must be external: see `jobhall help type set`
    #[arg(value_name = "TYPE")]
    pub job_type: String,
    /// Job key
    pub key: String,
    /// Succeeded, with this result: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", num_args = 0..=1, default_missing_value = "null")]
    #[arg(required_unless_present = "failed", conflicts_with = "failed")]
    pub succeeded: Option<String>,
    /// Failed, for this reason
    #[arg(long, value_name = "REASON")]
    pub failed: Option<String>,
    /// Explanation of the failure
    #[arg(long, value_name = "TEXT", requires = "failed")]
    pub explanation: Option<String>,
    /// Do not retry it, regardless of its retry policy
    #[arg(long, requires = "failed")]
    pub never_again: bool,
    /// Only if this is its current attempt
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
}

impl CompleteArgs {
    fn report(&self) -> Outcome<OutcomeReport> {
        let retry = self.never_again.then_some(RetryVerdict::Never);
        let plain = OutcomeReport { outcome: Kind::Succeeded, value: None, error: None, retry, params: None };
        Ok(match (&self.succeeded, &self.failed) {
            (_, Some(reason)) => {
                let explanation = self.explanation.clone().unwrap_or_default();
                let error = Some(Failure { reason: reason.clone(), explanation, data: None });
                OutcomeReport { outcome: Kind::Failed, error, ..plain }
            }
            (value, None) => {
                let value = value.as_deref().map(params).transpose()?;
                OutcomeReport { value, ..plain }
            }
        })
    }
}

/// Reports the outcome and prints the job.
pub async fn run(context: &Context, args: &CompleteArgs) -> Outcome {
    let report = args.report()?;
    let job = context.client()?.complete(&args.job_type, &args.key, args.attempt, &report).await?;
    let told = std::slice::from_ref(&job);
    context.output.list(told, || human::jobs(told, human::now_ms()))?;
    Ok(Exit::Ok)
}
