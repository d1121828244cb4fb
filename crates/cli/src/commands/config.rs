//! `jobhall config`: the settings in effect and their origins.

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::context::Context;
use crate::database::masked;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::output::table::Table;
use crate::settings::Setting;

const EXAMPLES: &str = "\
Example:
  jobhall config show --origin

Settings come from flags, then JOBHALL_* variables, then [client] of .jobhall.toml, then
$XDG_CONFIG_HOME/jobhall/config.toml, then /etc/jobhall/config.toml.";

/// The commands of `config`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum ConfigCommand {
    /// Show the settings in effect
    Show(ShowArgs),
}

/// Arguments of `config show`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowArgs {
    /// Show where each value comes from
    #[arg(long)]
    pub origin: bool,
}

#[derive(Debug, Serialize)]
struct Line {
    key: &'static str,
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
}

/// Shows the settings. Neither a token nor the password of a database is shown.
pub fn run(context: &Context, command: &ConfigCommand) -> Outcome {
    let ConfigCommand::Show(args) = command;
    let settings = &context.settings;
    let line = |key, value: Option<String>, origin: String| Line {
        key,
        value,
        origin: args.origin.then_some(origin),
    };
    let token = settings.token.as_ref();
    let optional = |key, setting: &Option<Setting>| {
        let origin = setting.as_ref().map_or_else(|| "not set".to_owned(), |found| found.origin.to_string());
        line(key, setting.as_ref().map(|found| found.value.clone()), origin)
    };
    let hosts = settings.hosts.as_ref();
    let hosts = hosts.map(|named| Setting { value: named.value.join(", "), origin: named.origin.clone() });
    let server = match settings.server() {
        Ok(server) => line("server", Some(server.value.clone()), server.origin.to_string()),
        Err(failure) => line("server", None, failure.what),
    };
    let lines = [
        server,
        line(
            "token",
            token.map(|_| "(set)".to_owned()),
            token.map_or_else(|| "not set".to_owned(), |token| token.origin.to_string()),
        ),
        line("data", Some(settings.data.value.display().to_string()), settings.data.origin.to_string()),
        line("color", Some(settings.color.value.clone()), settings.color.origin.to_string()),
        line("log", Some(settings.log.value.clone()), settings.log.origin.to_string()),
        line("log_format", Some(settings.log_format.value.clone()), settings.log_format.origin.to_string()),
        optional("ca", &settings.ca),
        optional("pin", &settings.pin),
        optional("tls_cert", &settings.tls_cert),
        optional("tls_key", &settings.tls_key),
        optional("hosts", &hosts),
        optional("database", &shown(settings.database.as_ref())),
        optional("database_direct", &shown(settings.database_direct.as_ref())),
        optional("database_pooled", &settings.database_pooled),
        optional("advertise", &settings.advertise),
        optional("key_file", &settings.key_file),
        optional("cache_size", &settings.cache_size),
        optional("cache_values", &settings.cache_values),
    ];
    context.output.list(&lines, || table(&lines, args.origin))?;
    Ok(Exit::Ok)
}

/// A URL without its password.
fn shown(database: Option<&Setting>) -> Option<Setting> {
    let database = database?;
    Some(Setting { value: masked(&database.value), origin: database.origin.clone() })
}

fn table(lines: &[Line], origin: bool) -> Table {
    let mut table =
        if origin { Table::new(&["KEY", "VALUE", "ORIGIN"]) } else { Table::new(&["KEY", "VALUE"]) };
    for line in lines {
        let value = line.value.as_deref().unwrap_or("(none)");
        let cells = [Some(line.key), Some(value), line.origin.as_deref()];
        table.row(cells.into_iter().flatten().map(Into::into));
    }
    table
}
