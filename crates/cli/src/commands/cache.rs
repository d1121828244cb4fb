//! `jobhall cache`: the stored values of queries.

use clap::{Args, Subcommand};
use jobhall_client::{Client, DropValues};
use jobhall_protocol::{CacheDropped, CacheStats, CacheVerified, CachedValue};

use crate::commands::{confirm, query};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::human::{age, bytes, now_ms};
use crate::output::table::Table;

/// Maximum number of values per request.
const PAGE: usize = 100;

const EXAMPLES: &str = "\
Examples:
  jobhall cache stats                          how much is stored, and how often it was used
  jobhall cache list --command clean
  jobhall cache show 'numbers 100 | head 3'
  jobhall cache drop numbers-100/head-3
  jobhall cache drop --command clean --yes     what clean has made, and what was made from it
  jobhall cache pin numbers-100/head-3         never evict it";

/// The commands of `cache`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum CacheCommand {
    /// List stored values, newest first
    List(ListArgs),
    /// Show what is stored for a query
    #[command(after_help = "Example:\n  jobhall cache show numbers-100/head-3")]
    Show {
        /// The query: the text of a URL, or a pipe of commands
        #[arg(value_name = "QUERY", allow_hyphen_values = true)]
        query: String,
    },
    /// Remove stored values; they are computed again when they are asked for
    Drop(DropArgs),
    /// Keep a value, whether it is stored yet or not: it is never evicted
    Pin(PinArgs),
    /// Read all stored values again; those that are damaged are computed again when they are asked for
    #[command(after_help = "Example:\n  jobhall cache verify")]
    Verify,
    /// Show how much is stored, how often it was used, and why values were computed
    #[command(after_help = "Example:\n  jobhall cache stats --json")]
    Stats,
}

/// Arguments of `cache list`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jobhall cache list --command clean --limit 500")]
pub struct ListArgs {
    /// Values that this command has made
    #[arg(long, value_name = "NAME")]
    pub command: Option<String>,
    /// Maximum number of values
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
}

const DROP_EXAMPLES: &str = "\
Examples:
  jobhall cache drop numbers-100/head-3
  jobhall cache drop -- -R/sales.csv/-/clean
  jobhall cache drop --command clean            what clean has made, and what was made from it
  jobhall cache drop --source sales.csv --yes   what was made from a source
  jobhall cache drop --all                      everything that is not pinned";

/// Arguments of `cache drop`.
#[derive(Debug, Args)]
#[command(after_help = DROP_EXAMPLES)]
pub struct DropArgs {
    /// The queries whose values are removed, also if they are pinned
    #[arg(value_name = "QUERY", required_unless_present_any = ["command", "source", "all"])]
    pub queries: Vec<String>,
    /// What was made by this command, and what was made from that
    #[arg(long, value_name = "NAME", conflicts_with_all = ["queries", "source", "all"])]
    pub command: Option<String>,
    /// What was made from the data of this source
    #[arg(long, value_name = "KEY", conflicts_with_all = ["queries", "all"])]
    pub source: Option<String>,
    /// All values that are not pinned
    #[arg(long, conflicts_with = "queries")]
    pub all: bool,
    /// Only count the values
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
}

/// Arguments of `cache pin`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  jobhall cache pin numbers-100/head-3\n  jobhall cache pin --remove numbers-100/head-3"
)]
pub struct PinArgs {
    /// The query, or with --remove also the identity of its value
    #[arg(value_name = "QUERY", allow_hyphen_values = true)]
    pub query: String,
    /// Remove the pin
    #[arg(long)]
    pub remove: bool,
}

pub async fn run(context: &Context, command: &CacheCommand) -> Outcome {
    let client = context.client()?;
    match command {
        CacheCommand::List(args) => list(context, &client, args).await,
        CacheCommand::Show { query } => show(context, &client, query).await,
        CacheCommand::Drop(args) => drop_values(context, &client, args).await,
        CacheCommand::Pin(args) => pin(context, &client, args).await,
        CacheCommand::Verify => verify(context, &client).await,
        CacheCommand::Stats => {
            let stats = client.cache_stats().await?;
            context.output.one(&stats, || figures(&stats))?;
            Ok(Exit::Ok)
        }
    }
}

async fn list(context: &Context, client: &Client, args: &ListArgs) -> Outcome {
    let wanted = args.limit as usize;
    let (mut values, mut cursor) = (Vec::new(), None::<String>);
    while values.len() < wanted {
        let most = PAGE.min(wanted - values.len());
        let page = client.cached_values(args.command.as_deref(), most, cursor.as_deref()).await?;
        values.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    context.output.list(&values, || table(&values))?;
    Ok(Exit::Ok)
}

fn table(values: &[CachedValue]) -> Table {
    let now = now_ms();
    let mut table = Table::new(&["~QUERY", "SIZE", "~TYPE", "MADE", "JOB", "PINNED"]);
    for value in values {
        table.row([
            value.query.as_str().into(),
            value.size.map_or_else(|| "damaged".to_owned(), bytes).into(),
            value.media_type.clone().unwrap_or_default().into(),
            age(value.made_at, now).into(),
            value.job.to_string().into(),
            if value.pinned { "yes" } else { "" }.into(),
        ]);
    }
    table
}

async fn show(context: &Context, client: &Client, text: &str) -> Outcome {
    let canonical = query::canonical(text)?;
    match client.cached_value(&canonical).await.map_err(query::failed)? {
        Some(value) => {
            context.output.one(&value, || details(&value))?;
            Ok(Exit::Ok)
        }
        None => Err(Failure::new(Exit::NotFound, format!("nothing is stored for {canonical}"))),
    }
}

fn details(value: &CachedValue) -> String {
    let facts = [
        ("query", value.query.clone()),
        ("identity", value.identity.clone()),
        ("size", value.size.map_or_else(|| "damaged".to_owned(), bytes)),
        ("type", value.media_type.clone().unwrap_or_default()),
        ("made", value.made_at.to_string()),
        ("by", value.commands.join(", ")),
        ("job", value.job.to_string()),
        ("pinned", if value.pinned { "yes" } else { "no" }.to_owned()),
    ];
    lines(&facts)
}

fn lines(facts: &[(&str, String)]) -> String {
    facts.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}

/// Counts first and asks for confirmation.
async fn drop_values(context: &Context, client: &Client, args: &DropArgs) -> Outcome {
    let meant = meant(args)?;
    let mut counted = CacheDropped::default();
    for which in &meant {
        add(&mut counted, &all_of(client, &DropValues { dry_run: true, ..which.clone() }).await?);
    }
    if args.dry_run || counted.values == 0 {
        context.output.one(&counted, || format!("{} would be removed{}", count(&counted), kept(&counted)))?;
        return Ok(if counted.values == 0 { Exit::Nothing } else { Exit::Ok });
    }
    if !args.yes {
        confirm(&format!("remove {}", count(&counted)))?;
    }
    let mut dropped = CacheDropped::default();
    for which in &meant {
        add(&mut dropped, &all_of(client, which).await?);
    }
    context.output.one(&dropped, || format!("{} removed{}", count(&dropped), kept(&dropped)))?;
    Ok(Exit::Ok)
}

fn meant(args: &DropArgs) -> Outcome<Vec<DropValues>> {
    if args.queries.is_empty() {
        let (command, source) = (args.command.clone(), args.source.clone());
        return Ok(vec![DropValues { command, source, all: args.all, ..DropValues::default() }]);
    }
    let one =
        |text: &String| Ok(DropValues { query: Some(query::canonical(text)?), ..DropValues::default() });
    args.queries.iter().map(one).collect()
}

async fn all_of(client: &Client, which: &DropValues) -> Outcome<CacheDropped> {
    let (mut all, mut cursor) = (CacheDropped::default(), None::<String>);
    loop {
        let part = client.drop_values(which, cursor.as_deref()).await.map_err(query::failed)?;
        cursor.clone_from(&part.next_cursor);
        add(&mut all, &part);
        if cursor.is_none() {
            return Ok(all);
        }
    }
}

fn add(all: &mut CacheDropped, part: &CacheDropped) {
    all.values += part.values;
    all.bytes += part.bytes;
    all.kept += part.kept;
}

fn count(dropped: &CacheDropped) -> String {
    let values = if dropped.values == 1 { "value" } else { "values" };
    format!("{} {values} of {}", dropped.values, bytes(dropped.bytes))
}

fn kept(dropped: &CacheDropped) -> String {
    match dropped.kept {
        0 => String::new(),
        kept => format!("; {kept} stay, because they are pinned or an open job needs them"),
    }
}

async fn pin(context: &Context, client: &Client, args: &PinArgs) -> Outcome {
    if args.remove {
        let text = if args.query.parse::<jobhall_core::query::Identity>().is_ok() {
            args.query.clone()
        } else {
            query::canonical(&args.query)?
        };
        client.unpin_value(&text).await.map_err(query::failed)?;
        context.output.say(&format!("{text} is not pinned any more"));
        return Ok(Exit::Ok);
    }
    let pin = client.pin_value(&query::canonical(&args.query)?).await.map_err(query::failed)?;
    context.output.one(&pin, || format!("{} {}", pin.identity, pin.query))?;
    Ok(Exit::Ok)
}

async fn verify(context: &Context, client: &Client) -> Outcome {
    let (mut all, mut cursor) = (CacheVerified::default(), None::<String>);
    loop {
        let part = client.verify_cache(cursor.as_deref()).await?;
        all.checked += part.checked;
        all.damaged.extend(part.damaged);
        cursor = part.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    context.output.one(&all, || {
        let damaged: String =
            all.damaged.iter().map(|one| format!("\njob {}: {}", one.job, one.why)).collect();
        format!("{} values read, {} damaged{damaged}", all.checked, all.damaged.len())
    })?;
    Ok(if all.damaged.is_empty() { Exit::Ok } else { Exit::Unexpected })
}

fn figures(stats: &CacheStats) -> String {
    let misses = &stats.misses;
    let reasons = [
        ("new", misses.new),
        ("version", misses.version),
        ("evicted", misses.evicted),
        ("dropped", misses.dropped),
        ("damaged", misses.damaged),
        ("expired", misses.expired),
    ];
    let reasons: Vec<String> =
        reasons.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{n} {name}")).collect();
    let facts = [
        ("values", format!("{} of at most {}", stats.values, stats.max_values)),
        ("size", format!("{} of at most {}", bytes(stats.bytes), bytes(stats.max_bytes))),
        ("in memory", bytes(stats.memory_bytes)),
        ("pins", stats.pins.to_string()),
        ("evicted", stats.evictions.to_string()),
        ("misses", if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") }),
    ];
    let mut table = Table::new(&["COMMAND", "HITS", "JOINED", "COMPUTED", "SKIPPED", "FAILED", "HIT RATE"]);
    for command in &stats.commands {
        let found = command.hit + command.joined + command.skipped;
        let all = found + command.computed + command.failed;
        let rate = (found * 100).checked_div(all).map_or_else(String::new, |rate| format!("{rate} %"));
        let counts = [command.hit, command.joined, command.computed, command.skipped, command.failed];
        let cells = counts.iter().map(|n| n.to_string().into());
        table.row(std::iter::once(command.command.as_str().into()).chain(cells).chain([rate.into()]));
    }
    let commands =
        if stats.commands.is_empty() { String::new() } else { format!("\n{}", table.render(None)) };
    format!("{}{commands}", lines(&facts))
}
