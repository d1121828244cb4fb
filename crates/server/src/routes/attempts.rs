//! Messages of a worker about its attempts. The engine decides whether they are valid, by worker, claim and lease.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{Request, Uri};
use jobhall_blobs::Stream;
use jobhall_core::{AttemptId, StateName};
use jobhall_engine::AttemptRef;
use jobhall_protocol::{self as wire, Code, LogPosition, Moved, OutcomeReport};
use schemars::JsonSchema;
use serde::Deserialize;

use super::log_form::stream_of;
use crate::auth::tokens::{Bound, Identity};
use crate::decode::attempt::{Ending, ending, indicators, not_completed};
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::server::app::App;

/// A worker sends the lease. The process of a job has a job token instead and acts for its worker.
pub(super) fn attempt_ref(who: &Identity, id: &str, request: &Request<Body>) -> Result<AttemptRef, ApiError> {
    if let Some(Bound { attempt, lease, worker }) = &who.bound {
        let own = params::attempt_id(id)? == *attempt;
        let of = AttemptRef { worker: worker.clone(), attempt: *attempt, lease: *lease };
        let foreign = || ApiError::new(Code::NotFound, format!("there is no attempt {id}"));
        return own.then_some(of).ok_or_else(foreign);
    }
    Ok(AttemptRef {
        worker: params::worker(who)?,
        attempt: params::attempt_id(id)?,
        lease: params::lease_header(request.headers())?,
    })
}

fn moved(app: &App, attempt: AttemptId, state: StateName) -> Answer {
    Ok(error::ok(&Moved { state: state.to_string(), cancel: app.poll_sessions.is_cancelled(attempt) }))
}

pub(super) async fn accept(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let attempt = of.attempt;
    moved(&app, attempt, app.engine.accept(of).await?)
}

pub(super) async fn progress(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let progress: wire::Progress = body::json_or_default(request).await?;
    let indicators = indicators(progress.indicators)?;
    let attempt = of.attempt;
    moved(&app, attempt, app.engine.progress(of, indicators).await?)
}

/// Checks the lease, with an empty progress report.
pub(super) async fn check(app: &App, of: &AttemptRef) -> Result<(), ApiError> {
    app.engine.progress(of.clone(), Vec::new()).await?;
    Ok(())
}

/// The position of a log chunk.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LogPlace {
    /// Byte offset in the log at which the chunk starts; default: the end of the log. Notes have offsets of their own.
    offset: Option<u64>,
    /// `stdout`, `stderr` or `note`; default `stdout`. A note is one line of JSON of at most 16 KiB that ends with a line
    /// feed; the notes of an attempt have at most 4 MiB.
    #[schemars(with = "Option<wire::LogStream>")]
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
    let of = attempt_ref(&who, &id, &request)?;
    let place: LogPlace = params::query(&uri)?;
    let stream = place.stream.as_deref().map_or(Ok(Stream::Stdout), stream_of)?;
    let bytes = body::bytes(request).await?;
    check(&app, &of).await?;
    let added = bytes.len() as u64;
    let appended = app.logs.append(of.attempt, place.offset, stream, bytes).await?;
    app.metrics.log_bytes.inc_by(added);
    app.sessions.log_came(of.attempt, stream);
    Ok(error::ok(&LogPosition { len: appended.len, truncated: appended.truncated }))
}

/// The log is complete and durable before the outcome, so a client that sees the end of a job can read all of its log.
pub(super) async fn outcome(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let given: OutcomeReport = body::json(request).await?;
    let (ending, attempt) = (ending(&given)?, of.attempt);
    let own = app.poll_sessions.knows(attempt, of.lease, &of.worker) || check(&app, &of).await.is_ok();
    if own {
        app.logs.finish(attempt).await?;
    }
    let state = match ending {
        Ending::Started => app.engine.started(of).await?,
        Ending::Report(report) => {
            let report = app.queries.complete(&of, report).await.map_err(not_completed)?;
            app.engine.report(of, report).await?
        }
    };
    let answer = moved(&app, attempt, state);
    app.poll_sessions.forget(attempt);
    app.sessions.forget(attempt);
    answer
}
