//! `jobhall queue`: where jobs stand in line.

use clap::Subcommand;
use jobhall_protocol::Queue;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::human::length;
use crate::output::table::Table;

const EXAMPLES: &str = "\
Examples:
  jobhall queue list
  jobhall queue show mail --json";

/// The commands of `queue`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum QueueCommand {
    /// List the queues that have open jobs, or had lately
    #[command(after_help = "Example:\n  jobhall queue list --fields name,ready")]
    List,
    /// Show a queue
    #[command(after_help = "Example:\n  jobhall queue show mail")]
    Show {
        /// The queue
        name: String,
    },
}

/// Runs a command of `queue`.
pub async fn run(context: &Context, command: &QueueCommand) -> Outcome {
    let client = context.client()?;
    match command {
        QueueCommand::List => {
            let queues = client.queues().await?;
            if queues.is_empty() {
                context.output.say("no queue has open jobs");
            }
            context.output.list(&queues, || table(&queues))?;
        }
        QueueCommand::Show { name } => {
            let queue = client.queue(name).await?;
            context.output.one(&queue, || told(&queue))?;
        }
    }
    Ok(Exit::Ok)
}

fn in_states(queue: &Queue, states: &[&str]) -> u64 {
    states.iter().filter_map(|&state| queue.jobs.get(state)).sum()
}

fn oldest(queue: &Queue) -> String {
    let ms = queue.oldest_ready_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
    ms.map(length).unwrap_or_default()
}

fn table(queues: &[Queue]) -> Table {
    let mut table = Table::new(&["~QUEUE", "OPEN", "READY", "OLDEST", "IN WORK", "LATER", "BLOCKED"]);
    for queue in queues {
        table.row([
            (&queue.name).into(),
            queue.jobs.values().sum::<u64>().to_string().into(),
            queue.ready.to_string().into(),
            oldest(queue).into(),
            in_states(queue, &["assigned", "accepted", "running"]).to_string().into(),
            in_states(queue, &["scheduled", "retrying"]).to_string().into(),
            in_states(queue, &["blocked"]).to_string().into(),
        ]);
    }
    table
}

fn told(queue: &Queue) -> String {
    let mut facts =
        vec![("queue".to_owned(), queue.name.clone()), ("ready".to_owned(), queue.ready.to_string())];
    facts.extend(queue.oldest_ready_ms.map(|_| ("oldest".to_owned(), oldest(queue))));
    facts.extend(queue.workers.map(|workers| ("workers".to_owned(), workers.to_string())));
    facts.extend(queue.free_slots.map(|slots| ("free slots".to_owned(), slots.to_string())));
    facts.extend(queue.jobs.iter().filter(|(_, n)| **n > 0).map(|(state, n)| (state.clone(), n.to_string())));
    facts.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}
