//! Pausing, resuming and draining workers.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use jobhall_core::WorkerName;
use jobhall_engine::WorkerChange;
use jobhall_protocol::{Code, TokenKind, TokenRole, Worker};

use super::workers;
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::server::app::App;

/// Maximum number of workers that an error names.
const NAMED: usize = 10;

/// The worker takes no new jobs until it is resumed. It need not be connected.
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    let worker = find(&app, &name).await?.0;
    app.engine.change_worker(worker.clone(), WorkerChange::Pause).await?;
    changed(&app, &who, &worker, "worker_paused").await
}

pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    let (worker, shown) = find(&app, &name).await?;
    if shown.draining && shown.connected {
        let detail = format!(
            "worker {worker} is draining: its process exits when its jobs have ended, and cannot be resumed; start it again"
        );
        return Err(ApiError::new(Code::Conflict, detail));
    }
    app.engine.change_worker(worker.clone(), WorkerChange::Resume).await?;
    changed(&app, &who, &worker, "worker_resumed").await
}

/// The process of the worker finishes its jobs and exits.
pub(super) async fn drain(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    let (worker, shown) = find(&app, &name).await?;
    if !shown.connected {
        let detail = format!(
            "worker {worker} is not connected: there is no process to drain; \
             pause it, so that it takes no jobs when it connects"
        );
        return Err(ApiError::new(Code::Conflict, detail));
    }
    let Some(process) = app.sessions.process(&worker) else {
        let detail = format!(
            "worker {worker} cannot be drained: it is the worker of `jobhall up`, uses long polls, \
             or has an earlier version; pause it instead"
        );
        return Err(ApiError::new(Code::Conflict, detail));
    };
    // In a task, because the process must learn what was stored even if the caller disconnects meanwhile.
    let drained = tokio::spawn({
        let (app, worker) = (app.clone(), worker.clone());
        async move {
            app.engine.change_worker(worker.clone(), WorkerChange::Drain(process.clone())).await?;
            app.sessions.finish(&worker, &process);
            Ok::<_, ApiError>(())
        }
    });
    drained.await.map_err(ApiError::internal)??;
    changed(&app, &who, &worker, "worker_drained").await
}

async fn changed(app: &App, who: &Identity, worker: &WorkerName, act: &str) -> Answer {
    app.acted(who, act, worker, "").await;
    let shown = workers::list(app).await?.into_iter().find(|one| one.name == worker.as_str());
    // A worker that is not connected is no longer in the list once it is resumed.
    Ok(error::ok(&shown.unwrap_or_else(|| Worker::named(worker.to_string()))))
}

/// A worker: one of the list, or one that is not connected and has a token.
async fn find(app: &App, name: &str) -> Result<(WorkerName, Worker), ApiError> {
    let name = WorkerName::new(name).map_err(ApiError::bad)?;
    let all = workers::list(app).await?;
    if let Some(found) = all.iter().find(|worker| worker.name == name.as_str()) {
        return Ok((name, found.clone()));
    }
    let tokens = app.tokens.list();
    let is_worker = |kind, role| kind == TokenKind::Plain && role == TokenRole::Worker;
    if tokens.iter().any(|token| token.name == name.as_str() && is_worker(token.kind, token.role)) {
        let absent = Worker::named(name.to_string());
        return Ok((name, absent));
    }
    let known: Vec<_> = all.iter().take(NAMED).map(|worker| worker.name.as_str()).collect();
    let more = if all.len() > NAMED { ", …" } else { "" };
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(ApiError::new(Code::NotFound, format!("there is no worker {name}; known workers: {known}{more}")))
}
