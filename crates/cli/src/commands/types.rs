//! `jobhall type`: showing and configuring job types.

use clap::{Args, Subcommand};
use jobhall_client::{Client, Versioned};
use jobhall_protocol::{BackoffKind, Code, Retry, SetTimeouts, SetType, Span, TypeSettings};
use serde::Serialize;

use crate::commands::keep::{self, Kept};
use crate::commands::limit;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::output::table::Table;
use crate::suggest;

const EXAMPLES: &str = "\
Examples:
  jobhall type list
  jobhall type show thumbnail
  jobhall type set thumbnail --max-attempts 3 --backoff exponential --delay 10s --keep 7d
  jobhall type reset thumbnail";

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
    /// Configure a type; omitted options keep their values
    Set(Box<SetArgs>),
    /// Reset a type to its defaults
    #[command(after_help = "Example:\n  jobhall type reset thumbnail")]
    Reset {
        /// The type
        name: String,
    },
}

const SET_EXAMPLES: &str = r#"Examples:
  jobhall type set thumbnail --max-attempts 3
  jobhall type set report --backoff linear --delay 1m --max-delay 1h
  jobhall type set report --keep 30d --keep-count 1000 --reuse-window 2h
  jobhall type set report --keep forever --keep-count all
  jobhall type set report --limit concurrency=4 --limit 'rate=10/1m, by=owner'
  jobhall type set report --timeout 2h --silence 5m --expected 20m
  jobhall type set transcode --external                            see `jobhall help job complete`
  jobhall type set report --keep 30d --if-match '"3-0a1b2c3d"'      only if it is still that version"#;

/// Arguments of `type set`.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub struct SetArgs {
    /// The type
    pub name: String,
    /// Maximum attempts
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<u16>,
    /// How the delays between attempts grow
    #[arg(long, value_name = "KIND", value_parser = ["constant", "linear", "exponential"])]
    pub backoff: Option<String>,
    /// First delay, such as 10s
    #[arg(long, value_name = "SPAN")]
    pub delay: Option<Span>,
    /// Longest delay
    #[arg(long, value_name = "SPAN")]
    pub max_delay: Option<Span>,
    /// Remove completed jobs older than this, such as 7d; or `forever`, or `default` (the rule of the queue or server)
    #[arg(long, value_name = "SPAN", value_parser = keep::own_span)]
    pub keep: Option<Kept>,
    /// Keep only this many completed jobs; or `all`, or `default` (the rule of the queue or server)
    #[arg(long, value_name = "N", value_parser = keep::own_count)]
    pub keep_count: Option<Kept>,
    /// Maximum age of a success that is reused
    #[arg(long, value_name = "SPAN")]
    pub reuse_window: Option<Span>,
    /// Whether the type is paused
    #[arg(long, value_name = "BOOL")]
    pub paused: Option<bool>,
    /// Limit of concurrency or rate, such as 'concurrency=5', 'rate=100/1m' or 'concurrency=2, by=owner'; may be
    /// repeated, replaces all limits; or `none`
    #[arg(long = "limit", value_name = "LIMIT", value_parser = limit::parse_or_none)]
    pub limits: Vec<Option<jobhall_protocol::Limit>>,
    /// Stop attempts that take longer, such as 10m; or `default` (one day)
    #[arg(long, value_name = "SPAN", value_parser = or_default)]
    pub timeout: Option<Limit>,
    /// Stop attempts that are silent for longer; or `never`
    #[arg(long, value_name = "SPAN", value_parser = or_never)]
    pub silence: Option<Limit>,
    /// Mark attempts that take longer than this; or `never`
    #[arg(long, value_name = "SPAN", value_parser = or_never)]
    pub expected: Option<Limit>,
    /// Whether workers only start its jobs, and the outcome is reported from outside
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub external: Option<bool>,
    /// Change only this version, as shown by `type show`
    #[arg(long, value_name = "VERSION")]
    pub if_match: Option<String>,
}

/// A value, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(Option<u64>);

fn time_span(text: &str) -> Result<Limit, String> {
    text.parse::<Span>().map(|span| Limit(Some(span.0))).map_err(|error| error.to_string())
}

fn or_default(text: &str) -> Result<Limit, String> {
    if text == "default" { Ok(Limit(None)) } else { time_span(text) }
}

fn or_never(text: &str) -> Result<Limit, String> {
    if text == "never" { Ok(Limit(None)) } else { time_span(text) }
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
            keep_ms: self.keep.map(|limit| limit.0),
            keep_count: self.keep_count.map(|limit| limit.0),
            reuse_window_ms: self.reuse_window.map(|span| span.0),
            paused: self.paused,
            limits: limit::given(&self.limits),
            timeouts: (self.timeout.is_some() || self.silence.is_some()).then(|| SetTimeouts {
                total: self.timeout.map(|limit| limit.0.map(Span)),
                silence: self.silence.map(|limit| limit.0.map(Span)),
            }),
            expected_ms: self.expected.map(|limit| limit.0),
            external: self.external,
        }
    }
}

pub async fn run(context: &Context, command: &TypeCommand) -> Outcome {
    let client = context.client()?;
    match command {
        TypeCommand::List => {
            let types = client.types().await?;
            context.output.list(&types, || table(&types))?;
        }
        TypeCommand::Show { name } => {
            show(
                context,
                match client.type_settings(name).await {
                    Err(error) if error.code() == Some(Code::NotFound) => {
                        return Err(unknown(&client, name).await);
                    }
                    found => found?,
                },
            )?;
        }
        TypeCommand::Set(args) => {
            let settings = args.settings();
            if settings == SetType::default() {
                return Err(Failure::usage("nothing to set").fix("see `jobhall help type set`"));
            }
            show(context, client.set_type(&args.name, &settings, args.if_match.as_deref()).await?)?;
        }
        TypeCommand::Reset { name } => match client.reset_type(name).await {
            Err(error) if error.code() == Some(Code::NotFound) => return Err(unknown(&client, name).await),
            reset => {
                reset?;
                context.output.say(&format!("type {name} reset to its defaults"));
            }
        },
    }
    Ok(Exit::Ok)
}

/// A type with its version.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    settings: TypeSettings,
    version: Option<String>,
}

fn show(context: &Context, found: Versioned<TypeSettings>) -> Outcome<()> {
    let shown = Shown { settings: found.value, version: found.version };
    context.output.one(&shown, || told(&shown))
}

/// The error for an unknown type; it suggests a similar one.
async fn unknown(client: &Client, name: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("there is no type {name:?}{}", hint(client, name).await))
        .why("a type is known once a job of it was submitted, or it was configured")
}

/// A suggestion of a similar type; empty if the types cannot be listed.
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

fn table(types: &[TypeSettings]) -> Table {
    let mut table = Table::new(&["TYPE", "ATTEMPTS", "~BACKOFF", "KEEP", "COUNT", "REUSE"]);
    for found in types {
        table.row([
            (&found.name).into(),
            attempts(found).into(),
            backoff(&found.retry).into(),
            keep::span(found.keep_ms, "default").into(),
            keep::count(found.keep_count, "default").into(),
            span(Some(found.reuse_window_ms)).into(),
        ]);
    }
    table
}

fn told(shown: &Shown) -> String {
    let found = &shown.settings;
    let facts = [
        ("type", found.name.clone()),
        ("attempts", attempts(found)),
        ("backoff", backoff(&found.retry)),
        ("keep", keep::span(found.keep_ms, "default")),
        ("keep count", keep::count(found.keep_count, "default")),
        ("reuse", span(Some(found.reuse_window_ms))),
        ("paused", if found.paused { "yes" } else { "no" }.to_owned()),
        ("limits", limit::list(&found.limits)),
        ("timeout", found.timeouts.total.map_or_else(|| "1d".to_owned(), |total| total.to_string())),
        ("silence", span(found.timeouts.silence.map(|silence| silence.0))),
        ("expected", found.expected_ms.map_or_else(|| "unknown".to_owned(), |ms| Span(ms).to_string())),
        ("external", found.external.to_string()),
        ("version", shown.version.clone().unwrap_or_default()),
    ];
    facts.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}
