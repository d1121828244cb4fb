//! Messages about an attempt: its progress and its outcome.

use jobhall_core::{Failure, Indicator, Json, Report, Verdict, When};
use jobhall_engine::{AttemptRef, Request};
use jobhall_protocol::{self as wire, INDICATOR_BYTES, OutcomeReport, REPORTED_INDICATORS, RetryVerdict};
use jobhall_queries::Error;

use crate::error::ApiError;
use crate::server::app::App;

/// How an attempt ends for its worker.
pub(crate) enum Ending {
    /// The work continues outside.
    Started,
    Report(Report),
}

impl Ending {
    /// The request to the engine.
    pub(crate) fn request(self, of: AttemptRef) -> Request {
        match self {
            Ending::Started => Request::Started { of },
            Ending::Report(report) => Request::Report { of, report, records: Vec::new() },
        }
    }
}

/// The request to the engine, with what a step of a query has asked for.
pub(crate) async fn completed(app: &App, request: Request) -> Result<Request, ApiError> {
    let Request::Report { of, report, records } = request else { return Ok(request) };
    let report = app.queries.complete(&of, report).await.map_err(not_completed)?;
    Ok(Request::Report { of, report, records })
}

pub(crate) fn not_completed(error: Error) -> ApiError {
    match error {
        Error::Rejected(refused) => refused.into(),
        Error::Store(error) => error.into(),
        error => ApiError::internal(error),
    }
}

/// Validates indicators of progress.
pub(crate) fn indicators(given: Vec<Indicator>) -> Result<Vec<Indicator>, ApiError> {
    if given.len() > REPORTED_INDICATORS {
        return Err(ApiError::bad(format!("more than {REPORTED_INDICATORS} indicators at once")));
    }
    if given.iter().any(|one| one.name.len() > INDICATOR_BYTES || one.message.len() > INDICATOR_BYTES) {
        return Err(ApiError::bad(format!(
            "name and message of an indicator may have at most {INDICATOR_BYTES} bytes"
        )));
    }
    Ok(given)
}

/// Validates the end of an attempt.
pub(crate) fn ending(given: &OutcomeReport) -> Result<Ending, ApiError> {
    if given.outcome != wire::Outcome::Started {
        return report(given).map(Ending::Report);
    }
    let OutcomeReport { value, error, retry, params, .. } = given;
    if value.is_some() || error.is_some() || retry.is_some() || params.is_some() {
        return Err(ApiError::bad("the outcome started must not have value, error, retry or params"));
    }
    Ok(Ending::Started)
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
