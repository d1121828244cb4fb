//! `jobhall progress`: reports progress from inside a job.

use clap::Args;
use jobhall_protocol::{Indicator, Progress};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples, in the script of a job:
  jobhall progress 3/10
  jobhall progress --name upload 120 'files sent'";

/// Arguments of `progress`. Variables set by the worker identify the job and authorize the request.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProgressArgs {
    /// Current step, and the total if it is known
    #[arg(value_name = "STEP[/TOTAL]", value_parser = measure)]
    pub step: (u64, Option<u64>),
    /// Message to show
    pub message: Option<String>,
    /// Name of the measure
    #[arg(long, default_value = "progress")]
    pub name: String,
}

fn measure(text: &str) -> Result<(u64, Option<u64>), String> {
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
    match text.split_once('/') {
        Some((step, total)) => Ok((number(step)?, Some(number(total)?))),
        None => Ok((number(text)?, None)),
    }
}

pub async fn run(context: &Context, args: &ProgressArgs) -> Outcome {
    let attempt = own_attempt()?;
    let (step, total) = args.step;
    let message = args.message.clone().unwrap_or_default();
    let indicator = Indicator { name: args.name.clone(), step, total, message };
    let progress = Progress { indicators: vec![indicator] };
    let moved = context.client()?.own_progress(&attempt, &progress).await?;
    if moved.cancel {
        context.output.say("cancellation was requested: stop");
    }
    Ok(Exit::Ok)
}

/// The attempt of this process.
pub fn own_attempt() -> Outcome<String> {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match (var("JOBHALL_JOB"), var("JOBHALL_CLAIM")) {
        (Some(job), Some(claim)) => Ok(format!("{job}-{claim}")),
        _ => Err(Failure::usage("this is not the process of a job")
            .why("JOBHALL_JOB and JOBHALL_CLAIM are not set")
            .fix("run it from a command that a worker runs")),
    }
}

#[cfg(test)]
mod tests {
    use super::measure;

    #[test]
    fn a_measure_is_a_step_or_a_step_of_a_total() {
        assert_eq!(measure("3"), Ok((3, None)));
        assert_eq!(measure("3/10"), Ok((3, Some(10))));
        for bad in ["", "/", "3/", "/10", "-1", "a/b", "1/2/3"] {
            assert!(measure(bad).is_err(), "{bad:?}");
        }
    }
}
