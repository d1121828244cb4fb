//! `jobhall job`: submitting, watching and managing jobs.

mod artifacts;
pub mod batches;
mod bulk;
mod change;
mod complete;
pub mod duplicate;
mod edit;
mod filter;
mod list;
mod log;
mod show;
pub mod submit;
pub mod wait;

pub use artifacts::{Transfer, save};
pub use duplicate::Duplicate;
pub use list::ListArgs;
pub use log::LogArgs;
pub use submit::SubmitArgs;

pub use log::{Printer, follow_job};
pub use submit::{check, params, random_key};

use clap::Subcommand;
use jobhall_client::ClientError;
use jobhall_protocol::Code;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  jobhall job submit thumbnail --params '{\"file\":\"a.png\"}' --wait
  jobhall job list
  jobhall job log -f 17
  jobhall job explain 17";

/// The commands of `job`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum JobCommand {
    /// Submit one job, or many from a file
    Submit(Box<SubmitArgs>),
    /// List jobs: pending ones first, then the newest completed
    List(ListArgs),
    /// Show a job and its attempts
    Show(show::ShowArgs),
    /// Print the log of a job
    Log(LogArgs),
    /// List the artifacts of a job
    Artifacts(artifacts::ArtifactsArgs),
    /// Get an artifact of a job
    Artifact(artifacts::ArtifactArgs),
    /// Wait until jobs have ended; the exit code reports their outcome
    Wait(wait::WaitArgs),
    /// Cancel jobs
    Cancel(change::CancelArgs),
    /// Run ended jobs again, as new jobs
    Retry(change::RetryArgs),
    /// Change a job that is not assigned to a worker
    Edit(Box<edit::EditArgs>),
    /// Put jobs on hold: they are not assigned to workers
    Hold(edit::HoldArgs),
    /// Release jobs that are on hold
    Release(edit::ReleaseArgs),
    /// Run jobs now, regardless of start time, backoff and windows
    RunNow(edit::RunNowArgs),
    /// Report the outcome of a job of an external type
    #[command(alias = "finish")]
    Complete(complete::CompleteArgs),
    /// Explain why a job is not running
    Explain(show::ExplainArgs),
    /// Cancel, retry or delete all jobs that match
    #[command(subcommand)]
    Bulk(bulk::BulkCommand),
}

pub async fn run(context: &Context, command: &JobCommand) -> Outcome {
    match command {
        JobCommand::Submit(args) => submit::run(context, args).await,
        JobCommand::List(args) => list::run(context, args).await,
        JobCommand::Show(args) => show::run(context, args).await,
        JobCommand::Log(args) => log::run(context, args).await,
        JobCommand::Artifacts(args) => artifacts::list(context, args).await,
        JobCommand::Artifact(args) => artifacts::get(context, args).await,
        JobCommand::Wait(args) => wait::run(context, args).await,
        JobCommand::Cancel(args) => change::cancel(context, args).await,
        JobCommand::Retry(args) => change::retry(context, args).await,
        JobCommand::Edit(args) => edit::edit(context, args).await,
        JobCommand::Hold(args) => edit::hold(context, args).await,
        JobCommand::Release(args) => edit::release(context, args).await,
        JobCommand::RunNow(args) => edit::run_now(context, args).await,
        JobCommand::Complete(args) => complete::run(context, args).await,
        JobCommand::Explain(args) => show::explain(context, args).await,
        JobCommand::Bulk(command) => bulk::run(context, command).await,
    }
}

/// An error about one job, with its id and a hint how to list jobs.
fn about(id: u64, error: ClientError) -> Failure {
    let unknown = error.code() == Some(Code::NotFound);
    let of_the_hall = error.code().is_none();
    let failure = Failure::from(error);
    let named = failure.what.contains(&format!("job {id}"));
    let failure = if !of_the_hall && !named { failure.while_doing(&format!("job {id}")) } else { failure };
    if unknown { failure.fix("list the jobs with `jobhall job list --all`") } else { failure }
}

/// Prints the failures of several jobs as they occur and keeps the first exit code.
#[derive(Debug, Default)]
struct Tally(Option<Exit>);

impl Tally {
    fn take<T>(&mut self, id: u64, answer: Result<T, ClientError>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                let failure = about(id, error);
                crate::output::complain(&failure);
                self.0.get_or_insert(failure.exit);
                None
            }
        }
    }

    fn exit(self) -> Exit {
        self.0.unwrap_or(Exit::Ok)
    }
}
