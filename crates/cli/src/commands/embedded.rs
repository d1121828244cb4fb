//! A server of this process, for a user who has none running: queries are answered from the user's own data directory, so
//! what they compute is found by later ones, and by a later `jobhall up`.
//!
//! Of two processes at once, the second uses the server of the first. It starts one of its own if that ends meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use jobhall_client::{Client, ClientError};
use jobhall_server::Role;

use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::listen::ListenArgs;
use crate::local_worker::LocalWorker;
use crate::running::{self, Record, Registration};
use crate::server::{OpenServer, is_locked};
use crate::settings::{Origin, Setting};
use crate::worker_file;

/// How long the worker may take to declare its commands, and another server to become reachable.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pauses between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Whether no server was named and none of this user is running, except an embedded one. One of another user at the
/// default address counts only if there is a token for it.
pub async fn is_alone(context: &Context) -> Outcome<bool> {
    let settings = &context.settings;
    match settings.server() {
        Err(failure) => Ok(failure.exit == Exit::Unreachable && settings.running.is_empty()),
        Ok(Setting { origin: Origin::Running(data), .. }) => {
            Ok(running::in_data(data).is_some_and(|record| record.is_embedded))
        }
        Ok(server) if server.origin != Origin::Default => Ok(false),
        Ok(_) if settings.token.is_none() => Ok(true),
        Ok(_) => Ok(matches!(context.client()?.livez().await, Err(ClientError::Unreachable { .. }))),
    }
}

/// The error of an embedded server that cannot start.
pub fn failed(why: impl Into<String>) -> Failure {
    Failure::new(Exit::Unexpected, "failed to start an embedded server").why(why.into())
}

/// Does this on the server that was named or is running, or else on an embedded one. Data in a shared database is left
/// to the servers there.
pub async fn on_any(context: &Context, work: impl AsyncFn(&Context) -> Outcome) -> Outcome {
    if context.settings.database.is_none() && is_alone(context).await? {
        return on_data(context, work).await;
    }
    work(context).await
}

/// Does this on an embedded server on the user's data directory, whose worker serves the file of the repository; on that
/// of another process, if it has the directory open. It is done again if that one ends meanwhile.
async fn on_data(context: &Context, work: impl AsyncFn(&Context) -> Outcome) -> Outcome {
    let data = &context.settings.data.value;
    let begun = Instant::now();
    loop {
        let failure = match OpenServer::open(data, &ListenArgs::anywhere()).await {
            Ok(hall) => return own(context, hall, &work).await,
            Err(failure) if !is_locked(&failure) => return Err(failure),
            Err(failure) => failure,
        };
        if let Some(other) = of_another(context, data)? {
            match work(&other).await {
                Err(lost) if lost.exit == Exit::Unreachable => {}
                ended => return ended,
            }
        } else if begun.elapsed() > PATIENCE {
            return Err(failure);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The context with the server of another process on this directory; none if it cannot be reached yet, or has ended.
fn of_another(context: &Context, data: &Path) -> Outcome<Option<Context>> {
    let Some(record) = running::in_data(data) else { return Ok(None) };
    let token = crate::settings::read_token(&data.join("admin.token"))?;
    Ok(Some(context.at(&record.url, &token, data)))
}

async fn own(context: &Context, hall: OpenServer, work: &impl AsyncFn(&Context) -> Outcome) -> Outcome {
    let settings = &context.settings;
    let data = &settings.data.value;
    // Beside the data only: commands for a server of this user must not find one that ends at once.
    let record = Record { is_embedded: true, ..Record::new(&hall.url, data, None) };
    let _registration = Registration::write(&record, &[]);
    let here = std::env::current_dir().ok();
    let config = here.and_then(|here| worker_file::project::find(&here));
    let file = config.as_deref().map(worker_file::read).transpose()?;
    let commands: Vec<String> =
        file.iter().flat_map(|file| file.commands.keys()).map(ToString::to_string).collect();
    context.output.say(&match &config {
        Some(path) => format!("no server of yours is running: {} is served here", path.display()),
        None => "no server of yours is running, and no .jobhall.toml is in this directory".to_owned(),
    });
    let token = hall.tokens.mint("local", Role::Worker);
    let mut worker = LocalWorker::new((&hall.url, None), Box::new(move || token.clone()), settings)
        .exec(false)
        .config(config)
        .hide(vec![data.clone()]);
    let inner = context.at(&hall.url, &hall.tokens.mint("embedded", Role::Admin), data);
    let answer = async {
        wait_until_declared(&inner.client()?, &commands).await?;
        work(&inner).await
    };
    let ended = tokio::select! {
        ended = answer => ended,
        never = worker_of(&mut worker, &commands) => never,
        why = hall.failed() => Err(failed(why)),
    };
    match ended {
        // What runs is not waited for: nobody wants it any more.
        Ok(Exit::Interrupted) => worker.kill().await,
        _ => worker.drain().await,
    }
    hall.close().await;
    ended
}

/// Keeps the worker running, if there is anything to serve.
async fn worker_of(worker: &mut LocalWorker, commands: &[String]) -> Outcome {
    if commands.is_empty() {
        return std::future::pending().await;
    }
    worker.keep().await;
    Err(failed("its worker ended"))
}

/// Waits until the commands of the file are declared: a query that names an unknown one is refused.
async fn wait_until_declared(client: &Client, commands: &[String]) -> Outcome<()> {
    let begun = Instant::now();
    loop {
        let known = client.commands().await?;
        let is_known = |name: &String| known.iter().any(|command| command.name == *name);
        let Some(missing) = commands.iter().find(|name| !is_known(name)) else { return Ok(()) };
        if begun.elapsed() > PATIENCE {
            return Err(failed(format!("its worker has not declared the command {missing}"))
                .fix("see the message of the worker above"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
