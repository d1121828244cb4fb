//! `jobhall queue`: showing and configuring queues.

use clap::{Args, Subcommand};
use jobhall_protocol::{Limit, Queue, QueueSettings, SetQueue};
use serde::Serialize;

use crate::commands::keep::{self, Kept};
use crate::commands::limit;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human::length;
use crate::output::table::Table;

const EXAMPLES: &str = "\
Examples:
  jobhall queue list
  jobhall queue show mail --json
  jobhall queue set mail --limit concurrency=10
  jobhall queue pause mail";

/// The commands of `queue`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum QueueCommand {
    /// List the queues that have open jobs, had some recently, or are configured
    #[command(after_help = "Example:\n  jobhall queue list --fields name,ready")]
    List,
    /// Show a queue
    #[command(after_help = "Example:\n  jobhall queue show mail")]
    Show {
        /// The queue
        name: String,
    },
    /// Configure a queue; omitted options keep their values
    Set(SetArgs),
    /// Stop assigning the jobs of a queue; running jobs continue
    #[command(after_help = "Example:\n  jobhall queue pause mail")]
    Pause {
        /// The queue
        name: String,
    },
    /// Resume assigning the jobs of a queue
    #[command(after_help = "Example:\n  jobhall queue resume mail")]
    Resume {
        /// The queue
        name: String,
    },
    /// Reset a queue to its defaults
    #[command(after_help = "Example:\n  jobhall queue reset mail")]
    Reset {
        /// The queue
        name: String,
    },
}

const SET_EXAMPLES: &str = r#"Examples:
  jobhall queue set mail --limit concurrency=10
  jobhall queue set mail --limit 'concurrency=2, by=params.customer.id' --limit rate=100/1m
  jobhall queue set mail --limit none
  jobhall queue set mail --keep 7d --keep-count 10000
  jobhall queue set mail --limit concurrency=5 --if-match '"3-0a1b2c3d"'      only if it is still that version"#;

/// Arguments of `queue set`.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub struct SetArgs {
    /// The queue
    pub name: String,
    /// Limit of concurrency or rate, such as 'concurrency=5', 'rate=100/1m' or 'concurrency=2, by=owner'; may be
    /// repeated, replaces all limits; or `none`
    #[arg(long = "limit", value_name = "LIMIT", value_parser = limit::parse_or_none)]
    pub limits: Vec<Option<Limit>>,
    /// Remove completed jobs older than this, such as 7d; or `forever`, or `default` (the server's rule)
    #[arg(long, value_name = "SPAN", value_parser = keep::own_span)]
    pub keep: Option<Kept>,
    /// Keep only this many completed jobs of each type; or `all`, or `default` (the server's rule)
    #[arg(long, value_name = "N", value_parser = keep::own_count)]
    pub keep_count: Option<Kept>,
    /// Change only this version, as shown by `queue show`
    #[arg(long, value_name = "VERSION")]
    pub if_match: Option<String>,
}

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
            let found = client.queue_settings(name).await?;
            let shown = Shown { queue: found.value, version: found.version };
            context.output.one(&shown, || told(&shown))?;
        }
        QueueCommand::Set(args) => {
            let settings = SetQueue {
                paused: None,
                limits: limit::given(&args.limits),
                keep_ms: args.keep.map(|kept| kept.0),
                keep_count: args.keep_count.map(|kept| kept.0),
            };
            if settings == SetQueue::default() {
                return Err(Failure::usage("nothing to set").fix("see `jobhall help queue set`"));
            }
            set(context, &args.name, &settings, args.if_match.as_deref()).await?;
        }
        QueueCommand::Pause { name } => {
            set(context, name, &SetQueue { paused: Some(true), ..SetQueue::default() }, None).await?;
        }
        QueueCommand::Resume { name } => {
            set(context, name, &SetQueue { paused: Some(false), ..SetQueue::default() }, None).await?;
        }
        QueueCommand::Reset { name } => {
            client.reset_queue(name).await?;
            context.output.say(&format!("queue {name} reset to its defaults"));
        }
    }
    Ok(Exit::Ok)
}

/// A queue with the version of its settings.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    queue: Queue,
    version: Option<String>,
}

/// The settings of a queue with their version.
#[derive(Serialize)]
struct Settings {
    #[serde(flatten)]
    settings: QueueSettings,
    version: Option<String>,
}

async fn set(context: &Context, name: &str, settings: &SetQueue, version: Option<&str>) -> Outcome<()> {
    let found = context.client()?.set_queue(name, settings, version).await?;
    let set = Settings { settings: found.value, version: found.version };
    context.output.one(&set, || {
        let QueueSettings { name, paused, limits, keep_ms, keep_count } = &set.settings;
        let kept = kept(*keep_ms, *keep_count).map(|kept| format!("; {kept}")).unwrap_or_default();
        let paused = if *paused { "paused" } else { "not paused" };
        let version = set.version.as_deref().unwrap_or("");
        format!("queue {name} is {paused}; limits: {}{kept}; version {version}\n", limit::list(limits))
    })
}

fn in_states(queue: &Queue, states: &[&str]) -> u64 {
    states.iter().filter_map(|&state| queue.jobs.get(state)).sum()
}

fn oldest(queue: &Queue) -> String {
    let ms = queue.oldest_ready_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
    ms.map(length).unwrap_or_default()
}

fn table(queues: &[Queue]) -> Table {
    let mut table =
        Table::new(&["~QUEUE", "OPEN", "READY", "OLDEST", "IN WORK", "LATER", "BLOCKED", "~NOTE"]);
    for queue in queues {
        table.row([
            (&queue.name).into(),
            queue.jobs.values().sum::<u64>().to_string().into(),
            queue.ready.to_string().into(),
            oldest(queue).into(),
            in_states(queue, &["assigned", "accepted", "running"]).to_string().into(),
            in_states(queue, &["scheduled", "retrying"]).to_string().into(),
            in_states(queue, &["blocked"]).to_string().into(),
            note(queue).into(),
        ]);
    }
    table
}

/// The rule for completed jobs as text; none if it has none.
fn kept(keep_ms: Option<u64>, keep_count: Option<u64>) -> Option<String> {
    let (span, count) = (keep::span(keep_ms, "default"), keep::count(keep_count, "default"));
    (keep_ms.is_some() || keep_count.is_some()).then(|| format!("keep {span}, count {count}"))
}

/// The settings as text.
fn note(queue: &Queue) -> String {
    let paused = queue.paused.then(|| "paused".to_owned());
    let limits = (!queue.limits.is_empty()).then(|| limit::list(&queue.limits));
    [paused, limits, kept(queue.keep_ms, queue.keep_count)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
}

fn told(shown: &Shown) -> String {
    let queue = &shown.queue;
    let mut facts =
        vec![("queue".to_owned(), queue.name.clone()), ("ready".to_owned(), queue.ready.to_string())];
    facts.extend(queue.oldest_ready_ms.map(|_| ("oldest".to_owned(), oldest(queue))));
    facts.extend(queue.paused.then(|| ("paused".to_owned(), "yes".to_owned())));
    facts.extend((!queue.limits.is_empty()).then(|| ("limits".to_owned(), limit::list(&queue.limits))));
    facts.extend(queue.keep_ms.map(|_| ("keep".to_owned(), keep::span(queue.keep_ms, ""))));
    facts.extend(queue.keep_count.map(|_| ("keep count".to_owned(), keep::count(queue.keep_count, ""))));
    facts.extend(shown.version.clone().map(|version| ("version".to_owned(), version)));
    facts.extend(queue.workers.map(|workers| ("workers".to_owned(), workers.to_string())));
    facts.extend(queue.free_slots.map(|slots| ("free slots".to_owned(), slots.to_string())));
    facts.extend(queue.jobs.iter().filter(|(_, n)| **n > 0).map(|(state, n)| (state.clone(), n.to_string())));
    facts.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}
