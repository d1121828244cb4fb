//! One job: show, cancel, retry, explain, result.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Method, Request};
use jobhall_blobs::Artifact;
use jobhall_core::{AttemptId, Failure, Job, JobId, State as JobState};
use jobhall_protocol::{Cancel, Code};

use super::{artifacts, history};
use crate::app::{App, now};
use crate::error::{self, Answer, ApiError};
use crate::tokens::Identity;
use crate::{body, explain, params, visibility};

pub(super) fn address(id: JobId) -> String {
    format!("{}/jobs/{id}", jobhall_protocol::API)
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    let shown = visibility::shown(&app, &who, params::job_id(&id)?).await?;
    let mut job = history::job(&app, &shown).await?;
    if let Some(attempt) = may_have_large_result(&shown.job) {
        job.result_artifact = artifacts::result_of(&app, attempt).await?;
    }
    Ok(error::ok(&job))
}

/// The attempt whose artifact may be the result: one that succeeded without a value.
fn may_have_large_result(job: &Job) -> Option<AttemptId> {
    match &job.status.state {
        JobState::Succeeded(success) if success.value.as_str() == "null" => {
            Some(AttemptId { job: job.id, claim: job.status.claim })
        }
        _ => None,
    }
}

pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let id = params::job_id(&id)?;
    visibility::check(&app, &who, id).await?;
    let failure = why(&body::json_or_default(request).await?)?;
    let reason = failure.reason.clone();
    let shown = app.engine.cancel(id, failure).await?;
    app.acted(&who, "job_cancelled", id, &reason).await;
    Ok(error::ok(&history::job(&app, &shown).await?))
}

/// The reason of a cancel, as the error of the job.
pub(super) fn why(cancel: &Cancel) -> Result<Failure, ApiError> {
    match &cancel.error {
        Some(error) => {
            let data = error.data.as_ref().map(|data| data.get());
            Failure::checked(&error.reason, &error.explanation, data).map_err(ApiError::bad)
        }
        None => Ok(Failure::new("cancelled", "cancelled on request")),
    }
}

pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    app.takes_work()?;
    let id = params::job_id(&id)?;
    visibility::check(&app, &who, id).await?;
    let (made, shown) = app.engine.retry(id).await?;
    app.acted(&who, "job_retried", id, &format!("as job {}", made.id)).await;
    let new = made.disposition == jobhall_core::Disposition::Created;
    Ok(error::made(new, &address(made.id), &history::job(&app, &shown).await?))
}

pub(super) async fn explain(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    let id = params::job_id(&id)?;
    visibility::check(&app, &who, id).await?;
    let explanation = app.engine.explain(id).await?;
    let causes = explain::causes(&app, &who, &explanation).await?;
    if who.sees_all() {
        return Ok(error::ok(&explain::explanation(&explanation, &causes)));
    }
    let seen = visibility::seen(&app, &who, explain::named(&explanation)).await?;
    Ok(error::ok(&explain::scoped(&explanation, &seen, &causes)))
}

/// The value itself, or the content of the result artifact, so that it can be piped to a program.
pub(super) async fn result(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Answer {
    let shown = visibility::shown(&app, &who, params::job_id(&id)?).await?;
    result_of(&app, &shown.job, &method, &headers).await
}

pub(super) async fn result_of(app: &App, job: &Job, method: &Method, headers: &HeaderMap) -> Answer {
    if let Some(artifact) = large_result(app, job).await? {
        return artifacts::content(app, &artifact, method, headers).await;
    }
    match &job.status.state {
        JobState::Succeeded(success) => {
            Ok(error::body("application/json", success.value.as_str().to_owned()))
        }
        _ => {
            let (id, state) = (job.id, job.status.name(now()));
            Err(ApiError::new(Code::Conflict, format!("job {id} is {state} and has no result")))
        }
    }
}

/// The result of a job that was too large for a value.
pub(super) async fn large_result(app: &App, job: &Job) -> Result<Option<Artifact>, ApiError> {
    match may_have_large_result(job) {
        Some(attempt) => app.artifacts.result(attempt).await,
        None => Ok(None),
    }
}
