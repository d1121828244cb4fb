//! `jobhall type`: what is configured for types of jobs.

use clap::{Args, Subcommand};
use jobhall_client::Client;
use jobhall_protocol::{BackoffKind, Retry, SetType, Span, TypeSettings};

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::table::Table;
use crate::suggest;

const EXAMPLES: &str = "\
Examples:
  jobhall type list
  jobhall type show thumbnail
  jobhall type set thumbnail --max-attempts 3 --backoff exponential --delay 10s --keep 7d";

/// The commands of `type`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum TypeCommand {
    /// List the types
    #[command(after_help = "Example:\n  jobhall type list --json")]
    List,
    /// Show a type
    #[command(after_help = "Example:\n  jobhall type show thumbnail")]
    Show {
        /// The type
        name: String,
    },
    /// Configure a type; what is not given stays as it is
    Set(SetArgs),
}

const SET_EXAMPLES: &str = "\
Examples:
  jobhall type set thumbnail --max-attempts 3
  jobhall type set report --backoff linear --delay 1m --max-delay 1h
  jobhall type set report --keep 30d --keep-count 1000 --reuse-window 2h";

/// Arguments of `type set`.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub struct SetArgs {
    /// The type
    pub name: String,
    /// Attempts that may count
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<u16>,
    /// How pauses grow
    #[arg(long, value_name = "KIND", value_parser = ["constant", "linear", "exponential"])]
    pub backoff: Option<String>,
    /// The first pause, such as 10s
    #[arg(long, value_name = "SPAN")]
    pub delay: Option<Span>,
    /// The longest pause
    #[arg(long, value_name = "SPAN")]
    pub max_delay: Option<Span>,
    /// Remove completed jobs older than this, such as 7d
    #[arg(long, value_name = "SPAN")]
    pub keep: Option<Span>,
    /// Keep only so many completed jobs
    #[arg(long, value_name = "N")]
    pub keep_count: Option<u64>,
    /// How old a success may be to be reused
    #[arg(long, value_name = "SPAN")]
    pub reuse_window: Option<Span>,
}

impl SetArgs {
    fn settings(&self) -> SetType {
        let backoff = self.backoff.as_deref().map(|kind| match kind {
            "constant" => BackoffKind::Constant,
            "linear" => BackoffKind::Linear,
            _ => BackoffKind::Exponential,
        });
        let SetArgs { max_attempts, delay, max_delay, .. } = *self;
        let retry = Retry { max_attempts, backoff, delay, max_delay, on: None };
        SetType {
            retry: (retry != Retry::default()).then_some(retry),
            keep_ms: self.keep.map(|span| span.0),
            keep_count: self.keep_count,
            reuse_window_ms: self.reuse_window.map(|span| span.0),
        }
    }
}

/// Runs a command of `type`.
pub async fn run(context: &Context, command: &TypeCommand) -> Outcome {
    let client = context.client()?;
    match command {
        TypeCommand::List => {
            let types = client.types().await?;
            context.output.list(&types, || table(&types))?;
        }
        TypeCommand::Show { name } => {
            let types = client.types().await?;
            let found = known(&types, name)?;
            context.output.one(found, || told(found))?;
        }
        TypeCommand::Set(args) => {
            let settings = args.settings();
            if settings == SetType::default() {
                return Err(Failure::usage("nothing to set").fix("see `jobhall help type set`"));
            }
            let set = client.set_type(&args.name, &settings).await?;
            context.output.one(&set, || told(&set))?;
        }
    }
    Ok(Exit::Ok)
}

/// The type of this name; an unknown one gets a suggestion.
fn known<'a>(types: &'a [TypeSettings], name: &str) -> Outcome<&'a TypeSettings> {
    let hint = suggest::hint(name, types.iter().map(|known| known.name.as_str()));
    let unknown = || {
        Failure::new(Exit::NotFound, format!("there is no type {name:?}{hint}"))
            .why("a type is known once a job of it was submitted, or it was configured")
    };
    types.iter().find(|known| known.name == name).ok_or_else(unknown)
}

/// The type that was meant, if one is near; nothing if the hall does not tell.
pub async fn hint(client: &Client, name: &str) -> String {
    let types = client.types().await.unwrap_or_default();
    suggest::hint(name, types.iter().map(|known| known.name.as_str()))
}

fn span(ms: Option<u64>) -> String {
    ms.map_or_else(|| "for ever".to_owned(), |ms| Span(ms).to_string())
}

fn backoff(retry: &Retry) -> String {
    let kind = match retry.backoff {
        Some(BackoffKind::Constant) => "constant",
        Some(BackoffKind::Linear) => "linear",
        Some(BackoffKind::Exponential) => "exponential",
        None => "",
    };
    let from = retry.delay.map(|delay| format!(" from {delay}"));
    let to = retry.max_delay.map(|most| format!(" to {most}"));
    format!("{kind}{}{}", from.unwrap_or_default(), to.unwrap_or_default())
}

fn attempts(found: &TypeSettings) -> String {
    found.retry.max_attempts.map_or_else(String::new, |most| most.to_string())
}

fn count(found: &TypeSettings) -> String {
    found.keep_count.map_or_else(|| "all".to_owned(), |count| count.to_string())
}

fn table(types: &[TypeSettings]) -> Table {
    let mut table = Table::new(&["TYPE", "ATTEMPTS", "~BACKOFF", "KEEP", "COUNT", "REUSE"]);
    for found in types {
        table.row([
            (&found.name).into(),
            attempts(found).into(),
            backoff(&found.retry).into(),
            span(found.keep_ms).into(),
            count(found).into(),
            span(Some(found.reuse_window_ms)).into(),
        ]);
    }
    table
}

fn told(found: &TypeSettings) -> String {
    let facts = [
        ("type", found.name.clone()),
        ("attempts", attempts(found)),
        ("backoff", backoff(&found.retry)),
        ("keep", span(found.keep_ms)),
        ("keep count", count(found)),
        ("reuse", span(Some(found.reuse_window_ms))),
    ];
    facts.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}
