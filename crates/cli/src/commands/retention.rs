//! `jobhall retention`: the server's rule for completed jobs.

use clap::{Args, Subcommand};
use jobhall_client::Versioned;
use jobhall_protocol::{Retention, SetRetention};
use serde::Serialize;

use crate::commands::keep::{self, Kept};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  jobhall retention show
  jobhall retention set --keep 30d --keep-count 1000000

For each number the first that is set counts: of the type (`jobhall type set`), the queue (`jobhall queue set`), the
server. Types of an application (build., q., taskset.) have only their own rule.";

/// The commands of `retention`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum RetentionCommand {
    /// Show the server's rule
    #[command(after_help = "Example:\n  jobhall retention show --json")]
    Show,
    /// Change the server's rule; omitted options keep their values
    Set(SetArgs),
}

const SET_EXAMPLES: &str = r#"Examples:
  jobhall retention set --keep 90d
  jobhall retention set --keep-count 10000
  jobhall retention set --keep forever --keep-count all
  jobhall retention set --keep 90d --if-match '"3-0a1b2c3d"'      only if it is still that version"#;

/// Arguments of `retention set`.
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub struct SetArgs {
    /// Remove completed jobs older than this, such as 30d; or `forever`
    #[arg(long, value_name = "SPAN", value_parser = keep::server_span)]
    pub keep: Option<Kept>,
    /// Keep only this many completed jobs of each type; or `all`
    #[arg(long, value_name = "N", value_parser = keep::server_count)]
    pub keep_count: Option<Kept>,
    /// Change only this version, as shown by `retention show`
    #[arg(long, value_name = "VERSION")]
    pub if_match: Option<String>,
}

pub async fn run(context: &Context, command: &RetentionCommand) -> Outcome {
    let client = context.client()?;
    let found = match command {
        RetentionCommand::Show => client.retention().await?,
        RetentionCommand::Set(args) => {
            let rule = SetRetention {
                keep_ms: args.keep.map(|kept| kept.0),
                keep_count: args.keep_count.map(|kept| kept.0),
            };
            if rule == SetRetention::default() {
                return Err(Failure::usage("nothing to set").fix("see `jobhall help retention set`"));
            }
            client.set_retention(&rule, args.if_match.as_deref()).await?
        }
    };
    show(context, found)?;
    Ok(Exit::Ok)
}

/// The rule with its version.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    rule: Retention,
    version: Option<String>,
}

fn show(context: &Context, found: Versioned<Retention>) -> Outcome<()> {
    let shown = Shown { rule: found.value, version: found.version };
    context.output.one(&shown, || {
        let facts = [
            ("keep", keep::span(shown.rule.keep_ms, "forever")),
            ("keep count", keep::count(shown.rule.keep_count, "all")),
            ("set", if shown.rule.is_set { "yes" } else { "no" }.to_owned()),
            ("version", shown.version.clone().unwrap_or_default()),
        ];
        facts.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
    })
}
