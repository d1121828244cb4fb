//! One job: show, cancel, retry, explain, result.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Method, Request};
use jobhall_core::{AttemptId, Failure, Job, JobId, State as JobState};
use jobhall_protocol::{Cancel, Code};

use super::submit::key_without_body;
use super::{artifacts, history};
use crate::auth::tokens::Identity;
use crate::auth::visibility;
use crate::blobs::artifacts::told;
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::response::explain;
use crate::server::app::{App, now};

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
    let attempt = AttemptId { job: shown.job.id, claim: shown.job.status.claim };
    let artifact = app.artifacts.large_result(&shown.job).await?;
    job.result_artifact = artifact.map(|artifact| told(attempt, &artifact));
    Ok(error::ok(&job))
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
    headers: HeaderMap,
) -> Answer {
    app.takes_work()?;
    let id = params::job_id(&id)?;
    visibility::check(&app, &who, id).await?;
    let name = key_without_body(&who, &headers, &format!("retry of job {id}"))?;
    let (made, shown) = app.engine.retry(id, name).await?;
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
    if let Some(artifact) = app.artifacts.large_result(job).await? {
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
