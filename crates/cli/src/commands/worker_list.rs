//! `jobhall worker list`, `show`, `pause`, `resume` and `drain`: the workers of the hall.

use clap::{Args, Subcommand};
use jobhall_client::ClientError;
use jobhall_core::needs::{Abilities, Value};
use jobhall_protocol::Worker;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::table::Table;
use crate::suggest;

const EXAMPLES: &str = "\
Examples:
  jobhall worker list
  jobhall worker list --json --fields name,slots";
const SHOW_EXAMPLES: &str = "\
Examples:
  jobhall worker show gpu-1
  jobhall worker show gpu-1 --json";

const PAUSE_EXAMPLES: &str = "\
Examples:
  jobhall worker pause gpu-1       it takes no new jobs until it is resumed
  jobhall worker resume gpu-1";
const DRAIN_EXAMPLES: &str = "\
Examples:
  jobhall worker drain gpu-1       its process exits with 0 after its jobs

The worker of `jobhall up` ends with its server: it can be paused, but not drained. A worker that is not
connected has no process to drain: pause it, so that it takes no jobs when it connects.";

/// The subcommands of `worker`.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// List the workers
    List(ListArgs),
    /// Show one worker
    Show(ShowArgs),
    /// Pause a worker: it takes no new jobs, also after it was restarted; running jobs continue
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(NameArgs),
    /// Resume a worker: cancel its pause; a process that has begun to drain still exits
    #[command(after_help = PAUSE_EXAMPLES)]
    Resume(NameArgs),
    /// Drain a worker: it takes no new jobs, finishes those it has, and its process exits
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(NameArgs),
}

/// The worker that is changed.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// The worker's name
    pub name: String,
}

/// Arguments of `worker list`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ListArgs {}

/// Arguments of `worker show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// The worker's name
    pub name: String,
}

/// Runs a command about workers.
pub async fn run(context: &Context, command: &WorkerCommand) -> Outcome {
    match command {
        WorkerCommand::List(_) => list(context).await,
        WorkerCommand::Show(args) => show(context, &args.name).await,
        WorkerCommand::Pause(args) => {
            let changed = context.client()?.pause_worker(&args.name).await;
            changed_to(context, changed, |worker| {
                let Worker { name, .. } = worker;
                format!(
                    "worker {name} is paused, with {}; resume it: jobhall worker resume {name}",
                    left(worker)
                )
            })
        }
        WorkerCommand::Resume(args) => {
            let changed = context.client()?.resume_worker(&args.name).await;
            changed_to(context, changed, |worker| format!("worker {} takes jobs", worker.name))
        }
        WorkerCommand::Drain(args) => {
            let changed = context.client()?.drain_worker(&args.name).await;
            changed_to(context, changed, |worker| {
                format!(
                    "worker {} drains: its process exits after its jobs ({} left)",
                    worker.name,
                    left(worker)
                )
            })
        }
    }
}

fn changed_to(
    context: &Context,
    changed: Result<Worker, ClientError>,
    text: impl Fn(&Worker) -> String,
) -> Outcome {
    let worker = changed?;
    context.output.one(&worker, || text(&worker))?;
    Ok(Exit::Ok)
}

/// The number of jobs that it still has.
fn left(worker: &Worker) -> String {
    match worker.attempts.len() {
        1 => "1 running job".to_owned(),
        n => format!("{n} running jobs"),
    }
}

async fn show(context: &Context, name: &str) -> Outcome {
    let workers = context.client()?.workers().await?;
    let Some(worker) = workers.iter().find(|worker| worker.name == name) else {
        let hint = suggest::hint(name, workers.iter().map(|worker| worker.name.as_str()));
        let failure = Failure::new(Exit::NotFound, format!("there is no worker {name:?}{hint}"));
        return Err(failure.fix("list the workers with `jobhall worker list`"));
    };
    context.output.one(worker, || human(worker))?;
    Ok(Exit::Ok)
}

fn human(worker: &Worker) -> String {
    let Worker { name, abilities, slots, attempts, .. } = worker;
    let heartbeat = heartbeat(worker).map(|text| ("heartbeat", text));
    let rows = [
        ("name", name.clone()),
        ("state", state(worker)),
        ("abilities", abilities.clone()),
        ("free slots", slots.to_string()),
        ("in use", used(worker)),
        ("jobs", jobs(attempts)),
    ];
    let rows = rows.into_iter().chain(heartbeat);
    rows.map(|(label, value)| format!("{label:<10}  {value}")).collect::<Vec<_>>().join("\n")
}

pub async fn list(context: &Context) -> Outcome {
    let workers = context.client()?.workers().await?;
    if workers.is_empty() {
        context.output.say(
            "no workers are known; start one with `jobhall worker`, or server and worker with `jobhall up`",
        );
    }
    context.output.list(&workers, || table(&workers))?;
    Ok(Exit::Ok)
}

fn table(workers: &[Worker]) -> Table {
    let mut table = Table::new(&["NAME", "STATE", "BUSY", "FREE", "~USED", "~JOBS", "~ABILITIES"]);
    for worker in workers {
        table.row([
            (&worker.name).into(),
            state(worker).into(),
            worker.attempts.len().to_string().into(),
            worker.slots.to_string().into(),
            used(worker).into(),
            jobs(&worker.attempts).into(),
            (&worker.abilities).into(),
        ]);
    }
    table
}

/// What an operator has ordered comes before what the worker does.
fn state(worker: &Worker) -> String {
    let state = match worker {
        Worker { draining: true, .. } => "draining",
        Worker { paused: true, .. } => "paused",
        Worker { silent_ms: Some(_), .. } => return "silent".to_owned(),
        Worker { attempts, .. } if attempts.is_empty() => "idle",
        _ => "busy",
    };
    match (worker.silent_ms, worker.connected) {
        (Some(_), _) => format!("{state}, silent"),
        (None, false) => format!("{state}, not connected"),
        (None, true) => state.to_owned(),
    }
}

/// How long a silent worker has sent no heartbeat, and what follows.
fn heartbeat(worker: &Worker) -> Option<String> {
    let (silent_ms, lost_at) = (worker.silent_ms?, worker.lost_at?);
    Some(format!("none for {} s; its jobs are taken back at {lost_at} unless it returns", silent_ms / 1_000))
}

/// Used and available resources: `gpu 1/2, mem_gb 8/64`. The job with a reservation comes last.
fn used(worker: &Worker) -> String {
    let abilities = Abilities::parse(&worker.abilities).ok();
    let total = |name: &str| match abilities.as_ref().and_then(|abilities| abilities.get(name)) {
        Some(Value::Number(total)) => total.to_string(),
        _ => "?".to_owned(),
    };
    let amounts = worker.uses.split(", ").filter_map(|used| used.split_once('='));
    let used: Vec<_> = amounts.map(|(name, used)| format!("{name} {used}/{}", total(name))).collect();
    match worker.reserved_for {
        Some(job) => format!("{} (reserved for job {job})", used.join(", ")),
        None => used.join(", "),
    }
}

fn jobs(attempts: &[String]) -> String {
    let jobs =
        attempts.iter().map(|attempt| attempt.split_once('-').map_or(attempt.as_str(), |(job, _)| job));
    jobs.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_what_was_ordered_then_what_is_done() {
        let worker = |connected, paused, draining, attempts: &[&str]| {
            let attempts = attempts.iter().map(ToString::to_string).collect();
            state(&Worker { connected, paused, draining, attempts, ..Worker::named("w".to_owned()) })
        };
        assert_eq!(worker(true, false, false, &[]), "idle");
        assert_eq!(worker(true, false, false, &["1-1"]), "busy");
        assert_eq!(worker(true, true, false, &["1-1"]), "paused");
        assert_eq!(worker(true, true, true, &[]), "draining");
        assert_eq!(worker(false, true, false, &[]), "paused, not connected");
    }

    #[test]
    fn what_is_in_use_stands_before_what_there_is() {
        let worker = |uses: &str, reserved_for| Worker {
            abilities: "gpu=2, mem_gb=64, os=linux".to_owned(),
            uses: uses.to_owned(),
            reserved_for,
            ..Worker::default()
        };
        assert_eq!(used(&worker("", None)), "");
        assert_eq!(used(&worker("gpu=1, mem_gb=0.5", None)), "gpu 1/2, mem_gb 0.5/64");
        assert_eq!(used(&worker("gpu=2, gone=1", Some(7))), "gpu 2/2, gone 1/? (reserved for job 7)");
    }
}
