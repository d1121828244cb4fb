//! An edit counts at once: before a query is asked on the machine of a worker, the files of its commands are compared with
//! what that worker has declared, and a declaration that is under way is waited for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jobhall_client::{Client, ClientError};
use jobhall_core::query::{CommandName, Given, Query};
use jobhall_protocol::{CommandFile, SOURCE_BY_DIGEST};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// How long a declaration is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pauses between two looks.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(200);

/// Waits until the files of the commands of a query are as a worker of this machine has declared them; those of all
/// commands if the query begins with a key, which may have a recipe.
pub async fn wait_until_declared(client: &Client, query: &Query) -> Outcome<()> {
    let Some(names) = names(query) else { return wait_until_all_declared(client).await };
    wait(client, &names.iter().map(ToString::to_string).collect::<Vec<_>>()).await
}

/// The same for all commands.
pub async fn wait_until_all_declared(client: &Client) -> Outcome<()> {
    wait(client, &[]).await
}

async fn wait(client: &Client, names: &[String]) -> Outcome<()> {
    let Some(machine) = jobhall_worker::machine() else { return Ok(()) };
    let (begun, mut pause) = (Instant::now(), SHORTEST);
    loop {
        let known = match client.commands_on(names, &machine).await {
            Ok(known) => known,
            // The request for the query says why, if that is not answered either.
            Err(ClientError::Problem(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let files = known.into_iter().flat_map(|command| command.files).collect::<BTreeSet<_>>();
        let files: Vec<CommandFile> = files.into_iter().collect();
        let Some(other) = jobhall_worker::differing(&files) else { return Ok(()) };
        if begun.elapsed() > PATIENCE {
            let what = format!("the worker on this machine has not declared the change of {}", other.path);
            return Err(Failure::new(Exit::Conflict, what)
                .why(format!("it had {} s for that, or it cannot read the file", PATIENCE.as_secs()))
                .fix("see its log, or ask for the value over HTTP to get the one of the old version"));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// The commands of a query, with those of its links; none if it begins with a key that may have a recipe.
fn names(query: &Query) -> Option<BTreeSet<&CommandName>> {
    let mut names = BTreeSet::new();
    let mut open = vec![query];
    while let Some(query) = open.pop() {
        if query.source.as_ref().is_some_and(|source| !source.key.as_str().starts_with(SOURCE_BY_DIGEST)) {
            return None;
        }
        for step in &query.steps {
            names.insert(&step.command);
            open.extend(step.arguments.iter().filter_map(|argument| match &argument.given {
                Given::Link(link) => Some(&link.query),
                Given::Text(_) => None,
            }));
        }
    }
    Some(names)
}
