//! Submits jobs: one object, or an array that is accepted as a whole or refused as a whole.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::Request;
use jobhall_core::{After, Disposition, JobId, NewJob, OnDuplicate, RetryPolicy, TypeName};
use jobhall_engine::{IdempotencyKey, Rejected, Submit};
use jobhall_protocol as wire;

use super::jobs::address;
use super::types::Types;
use crate::app::{App, now};
use crate::error::{self, Answer, ApiError};
use crate::tokens::Identity;
use crate::{body, to_wire};

pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

pub(super) async fn submit(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    app.takes_work()?;
    let key = request.headers().get(IDEMPOTENCY_KEY).cloned();
    let bytes = body::bytes(request).await?;
    let name = key.map(|key| idempotency_key(&who, key.as_bytes(), &bytes)).transpose()?;
    if body::is_array(&bytes) {
        many(&app, &who, body::parse_many(&bytes)?, name).await
    } else {
        one(&app, &who, body::parse(&bytes)?, name).await
    }
}

async fn one(app: &App, who: &Identity, job: wire::SubmitJob, name: Option<IdempotencyKey>) -> Answer {
    let jobs = checked(app, who, &[job]).await?;
    let (made, shown) = app.engine.submit_shown(Submit { jobs, name }).await?;
    let new = made.disposition == Disposition::Created;
    Ok(error::made(new, &address(made.id), &to_wire::shown(&shown, now())?))
}

async fn many(app: &App, who: &Identity, jobs: Vec<wire::SubmitJob>, name: Option<IdempotencyKey>) -> Answer {
    let jobs = checked(app, who, &jobs).await?;
    let submitted = app.engine.submit(Submit { jobs, name }).await?;
    Ok(error::ok(&submitted.iter().map(to_wire::submitted).collect::<Vec<_>>()))
}

/// The idempotency key applies to exactly this body.
pub(super) fn idempotency_key(who: &Identity, key: &[u8], body: &[u8]) -> Result<IdempotencyKey, ApiError> {
    let wrong = || ApiError::bad(format!("{IDEMPOTENCY_KEY} must be printable text"));
    let key = std::str::from_utf8(key).ok().filter(|key| !key.is_empty()).ok_or_else(wrong)?;
    Ok(named(&who.name, key, body))
}

/// An idempotency key of this scope for exactly this body.
pub(crate) fn named(scope: &str, key: &str, body: &[u8]) -> IdempotencyKey {
    let mut digest = [0; 16];
    digest.copy_from_slice(&blake3::hash(body).as_bytes()[..16]);
    IdempotencyKey { scope: scope.to_owned(), key: key.to_owned(), body: u128::from_le_bytes(digest) }
}

/// Validates jobs for the caller and converts them for the engine.
pub(crate) async fn checked(
    app: &App,
    who: &Identity,
    jobs: &[wire::SubmitJob],
) -> Result<Vec<NewJob>, ApiError> {
    // The settings of the types are read only if a job gives a partial retry policy.
    let types =
        if jobs.iter().any(|job| job.retry.is_some()) { Types::read(app).await? } else { Types::default() };
    let place = |at: usize, trouble: String| match jobs.len() {
        1 => ApiError::bad(trouble),
        _ => ApiError::bad(format!("job {at}: {trouble}")),
    };
    let checked = jobs.iter().enumerate().map(|(at, job)| {
        let job = check(job, &types).map_err(|error| place(at, error.to_string()))?;
        within(who, job)
    });
    checked.collect()
}

/// The job of a schedule. It is checked as if it were submitted now.
pub(super) async fn template(app: &App, who: &Identity, job: &wire::SubmitJob) -> Result<NewJob, ApiError> {
    let mut jobs = checked(app, who, std::slice::from_ref(job)).await?;
    jobs.pop().ok_or_else(|| ApiError::internal("a checked job is missing"))
}

/// Restricts a job to the queues of the token. A job in another queue is never returned for an existing key.
fn within(who: &Identity, job: NewJob) -> Result<NewJob, ApiError> {
    if !who.scope.reaches(job.queue.as_str()) {
        let detail = format!("queue {} is outside the scope of this token: {}", job.queue, who.scope);
        return Err(ApiError::new(wire::Code::Forbidden, detail));
    }
    // A group contains jobs of all queues, so it does not exist for a token that is limited to some queues.
    if let Some(group) = job.group.filter(|_| !who.sees_all()) {
        return Err(Rejected::NoSuchGroup(group).into());
    }
    Ok(NewJob { scope: who.scope.clone(), ..job })
}

fn check(job: &wire::SubmitJob, types: &Types) -> Result<NewJob, wire::FieldError> {
    let job_type = job.checked_type()?;
    let retry = job.retry.as_ref().map(|retry| policy(retry, &job_type, types));
    Ok(NewJob {
        key: job.checked_key()?,
        queue: job.checked_queue()?,
        params: job.checked_params()?,
        needs: job.checked_needs()?,
        uses: job.checked_uses()?,
        avoid: job.avoid,
        windows: job.checked_windows()?,
        priority: job.priority.unwrap_or(100),
        run_at: job.run_at.map(|at| at.0),
        retry,
        throttle_factor: job.throttle_factor.unwrap_or(1),
        timeouts: job.checked_timeouts()?,
        on_duplicate: on_duplicate(job.on_duplicate),
        reuse_max_age_ms: job.reuse.map(|reuse| reuse.max_age.0),
        after: job.after.iter().map(after).collect::<Result<_, _>>()?,
        after_any: job.after_any,
        group: job.checked_group()?,
        attached: job.attached,
        copy_of: job.checked_copy_of()?,
        owner: job.checked_owner()?,
        tags: job.checked_tags()?,
        ..NewJob::new(job_type)
    })
}

fn after(given: &wire::After) -> Result<After, wire::FieldError> {
    match given {
        wire::After::Job(id) => {
            JobId::new(*id).map(After::Job).map_err(|error| wire::FieldError(format!("after: {error}")))
        }
        wire::After::Position(at) => Ok(After::Position(*at)),
    }
}

fn policy(retry: &wire::Retry, job_type: &TypeName, types: &Types) -> RetryPolicy {
    retry.over(types.config(job_type).retry)
}

fn on_duplicate(given: wire::OnDuplicate) -> OnDuplicate {
    match given {
        wire::OnDuplicate::Join => OnDuplicate::Join,
        wire::OnDuplicate::Reject => OnDuplicate::Reject,
        wire::OnDuplicate::Supersede => OnDuplicate::Supersede,
        wire::OnDuplicate::RunAgain => OnDuplicate::RunAgain,
    }
}
