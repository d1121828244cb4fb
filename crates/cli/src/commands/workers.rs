//! `jobhall workers`: who works here.

use clap::Args;
use jobhall_protocol::Worker;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::table::Table;

const EXAMPLES: &str = "\
Examples:
  jobhall workers
  jobhall workers --json --fields name,slots";

/// Arguments of `workers`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WorkersArgs {}

/// Lists the workers.
pub async fn run(context: &Context) -> Outcome {
    let workers = context.client()?.workers().await?;
    if workers.is_empty() {
        context
            .output
            .say("no workers are known; start one with `jobhall worker`, or all in one with `jobhall up`");
    }
    context.output.list(&workers, || table(&workers))?;
    Ok(Exit::Ok)
}

fn table(workers: &[Worker]) -> Table {
    let mut table = Table::new(&["NAME", "STATE", "BUSY", "FREE", "~JOBS", "~ABILITIES"]);
    for worker in workers {
        table.row([
            (&worker.name).into(),
            if worker.attempts.is_empty() { "idle" } else { "busy" }.into(),
            worker.attempts.len().to_string().into(),
            worker.slots.to_string().into(),
            jobs(&worker.attempts).into(),
            (&worker.abilities).into(),
        ]);
    }
    table
}

/// The jobs that these attempts are at.
fn jobs(attempts: &[String]) -> String {
    let jobs =
        attempts.iter().map(|attempt| attempt.split_once('-').map_or(attempt.as_str(), |(job, _)| job));
    jobs.collect::<Vec<_>>().join(" ")
}
