//! Messages of a worker about its attempts. The engine decides whether they are valid, by worker, claim and lease.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{Request, Uri};
use jobhall_blobs::Stream;
use jobhall_core::{AttemptId, Failure, Indicator, Json, LeaseId, Report, Verdict, When, WorkerName};
use jobhall_engine::{Answer as Told, Request as Ask};
use jobhall_protocol::{self as wire, Code, LogPosition, Moved, OutcomeReport, RetryVerdict};
use schemars::JsonSchema;
use serde::Deserialize;

use super::log_form::stream_of;
use crate::app::App;
use crate::error::{self, Answer, ApiError};
use crate::tokens::{Bound, Identity};
use crate::{body, params};

/// Maximum number of indicators in one progress report.
const INDICATORS: usize = 32;
/// Maximum size of the name or message of an indicator.
const INDICATOR_BYTES: usize = 1_024;

/// The sender of a message and its attempt.
pub(crate) struct Word {
    pub worker: WorkerName,
    pub attempt: AttemptId,
    pub lease: LeaseId,
}

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

/// Validates indicators of progress.
pub(crate) fn indicators(given: Vec<wire::Indicator>) -> Result<Vec<Indicator>, ApiError> {
    if given.len() > INDICATORS {
        return Err(ApiError::bad(format!("more than {INDICATORS} indicators at once")));
    }
    given.into_iter().map(indicator).collect()
}

fn indicator(indicator: wire::Indicator) -> Result<Indicator, ApiError> {
    let wire::Indicator { name, step, total, message } = indicator;
    if name.len() > INDICATOR_BYTES || message.len() > INDICATOR_BYTES {
        return Err(ApiError::bad(format!(
            "name and message of an indicator may have at most {INDICATOR_BYTES} bytes"
        )));
    }
    Ok(Indicator { name, step, total, message })
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

/// The engine request for the end of an attempt.
pub(crate) fn ending(
    worker: &WorkerName,
    attempt: AttemptId,
    lease: LeaseId,
    given: &OutcomeReport,
) -> Result<Ask, ApiError> {
    let worker = worker.clone();
    if given.outcome != wire::Outcome::Started {
        return Ok(Ask::Report { worker, attempt, lease, report: report(given)? });
    }
    let OutcomeReport { value, error, retry, params, .. } = given;
    if value.is_some() || error.is_some() || retry.is_some() || params.is_some() {
        return Err(ApiError::bad("the outcome started must not have value, error, retry or params"));
    }
    Ok(Ask::Started { worker, attempt, lease })
}

/// Validates an outcome: a success has a value and no error, any other outcome has an error and no value.
pub(crate) fn report(given: &OutcomeReport) -> Result<Report, ApiError> {
    let success = matches!(given.outcome, wire::Outcome::Succeeded | wire::Outcome::Skipped);
    if success && (given.error.is_some() || given.retry.is_some() || given.params.is_some()) {
        return Err(ApiError::bad("a success must not have error, retry or params"));
    }
    if !success && given.value.is_some() {
        return Err(ApiError::bad("only a success may have a value"));
    }
    let value = || match &given.value {
        Some(value) => Json::value(value.get()).map_err(ApiError::bad),
        None => Ok(Json::null()),
    };
    Ok(match given.outcome {
        wire::Outcome::Succeeded => Report::Succeeded(value()?),
        wire::Outcome::Skipped => Report::Skipped(value()?),
        wire::Outcome::Failed => Report::Failed(failure(given, "failed")?, verdict(given)?),
        wire::Outcome::Crashed => Report::Crashed(failure(given, "crashed")?, verdict(given)?),
        wire::Outcome::TimedOut => Report::TimedOut(failure(given, "timed_out")?, verdict(given)?),
        wire::Outcome::Cancelled => Report::Cancelled,
        wire::Outcome::Started => return Err(ApiError::bad("started is not a final outcome")),
    })
}

fn failure(given: &OutcomeReport, word: &str) -> Result<Failure, ApiError> {
    let Some(error) = &given.error else { return Ok(Failure::new(word, "")) };
    let data = error.data.as_ref().map(|data| data.get());
    Failure::checked(&error.reason, &error.explanation, data).map_err(ApiError::bad)
}

fn verdict(given: &OutcomeReport) -> Result<Option<Verdict>, ApiError> {
    let params = given.params.as_ref().map(|params| Json::params(params.get())).transpose();
    let params = params.map_err(ApiError::bad)?;
    let when = match given.retry {
        Some(RetryVerdict::Never) => When::Never,
        Some(RetryVerdict::Now) => When::Now,
        Some(RetryVerdict::In(span)) => When::In(span.0),
        Some(RetryVerdict::Snooze(span)) => When::Snooze(span.0),
        None if params.is_none() => return Ok(None),
        None => return Err(ApiError::bad("params for the next attempt require a retry verdict")),
    };
    Ok(Some(Verdict { when, params }))
}
