//! The commands that queries can use: what workers declare, and who has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Request, Uri};
use jobhall_core::needs::{Abilities, Needs};
use jobhall_core::query::{CommandName, Declared};
use jobhall_protocol::{
    COMMAND_FILES_MAX, Command, CommandFile, CommandsDeclared, DeclareCommands, DeclaredCommand,
    FILE_WORD_BYTES_MAX, KnownCommand, Page, schema,
};
use jobhall_queries::{DeclaredFile, Declaring, Origin};
use schemars::JsonSchema;
use serde::Deserialize;

use super::queries::{check_scope, refused};
use super::workers;
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::body;
use crate::request::params;
use crate::server::app::App;

/// Maximum length of the names that are asked for: those of a query with as many steps as it may have; as in the schema.
const NAMES_BYTES_MAX: usize = 16 << 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandsQuery {
    /// Only the commands with these names, separated by commas.
    #[schemars(with = "Option<schema::CommandNames>")]
    name: Option<String>,
    /// Also the files of commands that a connected worker of this machine has declared.
    #[schemars(length(max = FILE_WORD_BYTES_MAX))]
    machine: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    check_scope(&who)?;
    let asked: CommandsQuery = params::query(&uri)?;
    bounded("name", asked.name.as_deref(), NAMES_BYTES_MAX)?;
    bounded("machine", asked.machine.as_deref(), FILE_WORD_BYTES_MAX)?;
    let known = app.queries.commands().await.map_err(|error| refused(error, ""))?;
    let workers = connected(&app).await?;
    let names = |names: &str| names.split(',').map(CommandName::new).collect::<Result<BTreeSet<_>, _>>();
    let names = asked.name.as_deref().map(names).transpose();
    let names = names.map_err(|error| ApiError::bad(format!("name: {error}")))?;
    let wanted = |name: &CommandName| names.as_ref().is_none_or(|names| names.contains(name));
    let items = known.commands.iter().filter(|(name, _)| wanted(name)).map(|(name, command)| KnownCommand {
        files: files(known.origin(name), asked.machine.as_deref(), &workers),
        ..shown(command, &workers)
    });
    let items = items.collect();
    Ok(error::ok(&Page { items, next_cursor: None }))
}

/// The connected workers with their abilities.
pub(super) async fn connected(app: &App) -> Result<Vec<(String, Abilities)>, ApiError> {
    let all = workers::list(app).await?.into_iter().filter(|worker| worker.connected);
    Ok(all.filter_map(|worker| Some((worker.name, Abilities::parse(&worker.abilities).ok()?))).collect())
}

/// Those of them that have a command in this version.
pub(super) fn having(name: &str, version: &str, workers: &[(String, Abilities)]) -> Vec<String> {
    let needs = Needs::parse(&format!("commands={name}@{version}")).ok();
    let has = |abilities: &Abilities| needs.as_ref().is_some_and(|needs| needs.satisfied_by(abilities));
    workers.iter().filter(|(_, abilities)| has(abilities)).map(|(worker, _)| worker.clone()).collect()
}

fn shown(declared: &Declared, workers: &[(String, Abilities)]) -> KnownCommand {
    let (name, version) = (declared.declaration.name.to_string(), declared.version.to_string());
    let (workers, command) = (having(&name, &version, workers), Command::from(&declared.declaration));
    KnownCommand { workers, command, name, version, files: Vec::new() }
}

fn bounded(field: &str, text: Option<&str>, most: usize) -> Result<(), ApiError> {
    match text {
        Some(text) if text.len() > most || text.contains('\0') => {
            Err(ApiError::bad(format!("{field}: a text has up to {most} bytes and no NUL")))
        }
        _ => Ok(()),
    }
}

/// The files of a declaration, if it was made on this machine by a worker that is connected.
fn files(
    origin: Option<&Origin>,
    machine: Option<&str>,
    workers: &[(String, Abilities)],
) -> Vec<CommandFile> {
    let here = |origin: &&Origin| machine == Some(origin.machine.as_str());
    let connected = |origin: &&Origin| workers.iter().any(|(worker, _)| *worker == origin.worker);
    let found = origin.filter(here).filter(connected).map_or(&[][..], |origin| &origin.files);
    let file =
        |DeclaredFile { path, place, stat, digest }: DeclaredFile| CommandFile { path, place, stat, digest };
    found.iter().cloned().map(file).collect()
}

/// Where a declaration was made; none if its worker does not say so.
fn origin(
    worker: &str,
    machine: Option<&str>,
    name: &str,
    files: &[CommandFile],
) -> Result<Option<Origin>, ApiError> {
    let wrong = |why: String| ApiError::bad(format!("commands.{name}.files{why}"));
    let (given, most) = (files.len(), COMMAND_FILES_MAX);
    if given > most {
        return Err(wrong(format!(": has {given} entries, the limit is {most}")));
    }
    for (at, file) in files.iter().enumerate() {
        file.check().map_err(|why| wrong(format!("[{at}].{why}")))?;
    }
    let file =
        |CommandFile { path, place, stat, digest }: CommandFile| DeclaredFile { path, place, stat, digest };
    Ok(machine.map(|machine| Origin {
        worker: worker.to_owned(),
        machine: machine.to_owned(),
        files: files.iter().cloned().map(file).collect(),
    }))
}

pub(super) async fn declare(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    app.takes_work()?;
    check_scope(&who)?;
    let given: DeclareCommands = body::json(request).await?;
    let machine = given.machine.as_deref();
    bounded("machine", machine, FILE_WORD_BYTES_MAX)?;
    let worker = params::worker(&who).map_or_else(|_| who.name.to_string(), |worker| worker.to_string());
    let declaring = |(name, command): (&String, &DeclaredCommand)| {
        let origin = origin(&worker, machine, name, &command.files)?;
        Ok(Declaring { declared: command.declared(name).map_err(ApiError::bad)?, origin })
    };
    let declaring = given.commands.iter().map(declaring).collect::<Result<Vec<_>, ApiError>>()?;
    let changed = app.queries.declare_from(declaring).await.map_err(|error| refused(error, ""))?;
    if changed > 0 {
        app.acted(&who, "commands_declared", "commands", &format!("{changed} changed")).await;
    }
    Ok(error::ok(&CommandsDeclared { changed }))
}
