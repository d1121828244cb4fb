//! Messages of a worker about its attempts. The engine decides whether they are valid, by worker, claim and lease.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{Request, Uri};
use jobhall_blobs::Stream;
use jobhall_core::{AttemptId, Indicator};
use jobhall_engine::{Answer as Told, Request as Ask};
use jobhall_protocol::{self as wire, Code, LogPosition, Moved, OutcomeReport};
use schemars::JsonSchema;
use serde::Deserialize;

use super::log_form::stream_of;
use crate::app::App;
use crate::decode::attempt::{Word, ending, indicators};
use crate::error::{self, Answer, ApiError};
use crate::tokens::{Bound, Identity};
use crate::{body, params};

/// A worker sends the lease. The process of a job has a job token instead and acts for its worker.
pub(super) fn word(who: &Identity, id: &str, request: &Request<Body>) -> Result<Word, ApiError> {
    if let Some(Bound { attempt, lease, worker }) = &who.bound {
        let own = params::attempt_id(id)? == *attempt;
        let word = Word { worker: worker.clone(), attempt: *attempt, lease: *lease };
        let foreign = || ApiError::new(Code::NotFound, format!("there is no attempt {id}"));
        return own.then_some(word).ok_or_else(foreign);
    }
    Ok(Word {
        worker: params::worker(who)?,
        attempt: params::attempt_id(id)?,
        lease: params::lease_header(request.headers())?,
    })
}

fn moved(app: &App, attempt: AttemptId, told: &Told) -> Answer {
    let state = match told {
        Told::State(state) => state.to_string(),
        other => return Err(ApiError::internal(format!("unexpected answer: {other:?}"))),
    };
    Ok(error::ok(&Moved { state, cancel: app.poll_sessions.is_cancelled(attempt) }))
}

pub(super) async fn accept(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let Word { worker, attempt, lease } = word(&who, &id, &request)?;
    let told = app.engine.ask(Ask::Accept { worker, attempt, lease }).await?;
    moved(&app, attempt, &told)
}

pub(super) async fn progress(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let word = word(&who, &id, &request)?;
    let progress: wire::Progress = body::json_or_default(request).await?;
    let indicators = indicators(progress.indicators)?;
    let (told, attempt) = (note(&app, &word, indicators).await?, word.attempt);
    moved(&app, attempt, &told)
}

/// Reports progress. An empty report checks the lease.
pub(super) async fn note(app: &App, word: &Word, indicators: Vec<Indicator>) -> Result<Told, ApiError> {
    let Word { worker, attempt, lease } = word;
    let ask = Ask::Progress { worker: worker.clone(), attempt: *attempt, lease: *lease, indicators };
    Ok(app.engine.ask(ask).await?)
}

/// The position of a log chunk.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogPlace {
    /// Byte offset in the log at which the chunk starts; default: the end of the log.
    offset: Option<u64>,
    /// `stdout` or `stderr`; default `stdout`.
    stream: Option<String>,
}

/// The lease is checked before the first byte is stored, so a stale worker writes nothing.
pub(super) async fn log(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    uri: Uri,
    request: Request<Body>,
) -> Answer {
    let word = word(&who, &id, &request)?;
    let place: LogPlace = params::query(&uri)?;
    let stream = place.stream.as_deref().map_or(Ok(Stream::Stdout), stream_of)?;
    let bytes = body::bytes(request).await?;
    note(&app, &word, Vec::new()).await?;
    let added = bytes.len() as u64;
    let appended = app.logs.append(word.attempt, place.offset, stream, bytes).await?;
    app.metrics.log_bytes.inc_by(added);
    app.sessions.log_came(word.attempt);
    Ok(error::ok(&LogPosition { len: appended.len, truncated: appended.truncated }))
}

/// The log is complete and durable before the outcome, so a client that sees the end of a job can read all of its log.
pub(super) async fn outcome(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let word = word(&who, &id, &request)?;
    let given: OutcomeReport = body::json(request).await?;
    let Word { worker, attempt, lease } = &word;
    let ending = ending(worker, *attempt, *lease, &given)?;
    let own =
        app.poll_sessions.knows(*attempt, *lease, worker) || note(&app, &word, Vec::new()).await.is_ok();
    if own {
        app.logs.finish(word.attempt).await?;
    }
    let attempt = word.attempt;
    let told = app.engine.ask(ending).await?;
    let answer = moved(&app, attempt, &told);
    app.poll_sessions.forget(attempt);
    app.sessions.forget(attempt);
    answer
}
