//! `jobhall worker list` and `worker show`: the workers of the hall.

use clap::{Args, Subcommand};
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

/// The subcommands of `worker`.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// List the workers
    List(ListArgs),
    /// Show one worker
    Show(ShowArgs),
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
    let rows = [
        ("name", name.clone()),
        ("abilities", abilities.clone()),
        ("free slots", slots.to_string()),
        ("in use", used(worker)),
        ("jobs", jobs(attempts)),
    ];
    rows.map(|(label, value)| format!("{label:<10}  {value}")).join("\n")
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
            if worker.attempts.is_empty() { "idle" } else { "busy" }.into(),
            worker.attempts.len().to_string().into(),
            worker.slots.to_string().into(),
            used(worker).into(),
            jobs(&worker.attempts).into(),
            (&worker.abilities).into(),
        ]);
    }
    table
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
    fn what_is_in_use_stands_before_what_there_is() {
        let worker = |uses: &str, reserved_for| Worker {
            name: "w".to_owned(),
            abilities: "gpu=2, mem_gb=64, os=linux".to_owned(),
            slots: 1,
            attempts: Vec::new(),
            uses: uses.to_owned(),
            reserved_for,
        };
        assert_eq!(used(&worker("", None)), "");
        assert_eq!(used(&worker("gpu=1, mem_gb=0.5", None)), "gpu 1/2, mem_gb 0.5/64");
        assert_eq!(used(&worker("gpu=2, gone=1", Some(7))), "gpu 2/2, gone 1/? (reserved for job 7)");
    }
}
