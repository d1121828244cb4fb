//! Jobs to submit.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{NewJob, RetryPolicy, TypeName};
use jobhall_engine::{IdempotencyKey, Rejected};
use jobhall_protocol as wire;

use crate::auth::tokens::Identity;
use crate::error::ApiError;
use crate::server::app::App;

/// An idempotency key of this scope for exactly this body.
pub(crate) fn named(scope: &str, key: &str, body: &[u8]) -> IdempotencyKey {
    let mut digest = [0; 16];
    digest.copy_from_slice(&blake3::hash(body).as_bytes()[..16]);
    IdempotencyKey { scope: scope.to_owned(), key: key.to_owned(), body: u128::from_le_bytes(digest) }
}

/// Validates jobs for the caller and converts them for the engine.
pub(crate) async fn jobs(
    app: &App,
    who: &Identity,
    jobs: &[wire::SubmitJob],
) -> Result<Vec<NewJob>, ApiError> {
    let policies = policies(app, jobs).await?;
    let wrong = |at: usize, error: wire::FieldError| match jobs.len() {
        1 => ApiError::bad(error),
        _ => ApiError::bad(format!("job {at}: {error}")),
    };
    let checked = jobs.iter().enumerate().map(|(at, job)| {
        let mut new = NewJob::try_from(job).map_err(|error| wrong(at, error))?;
        if let (Some(retry), Some(policy)) = (&job.retry, policies.get(&new.job_type)) {
            new.retry = Some(retry.over(*policy));
        }
        within(who, new)
    });
    checked.collect()
}

/// Validates one job.
pub(crate) async fn job(app: &App, who: &Identity, job: &wire::SubmitJob) -> Result<NewJob, ApiError> {
    let mut jobs = jobs(app, who, std::slice::from_ref(job)).await?;
    jobs.pop().ok_or_else(|| ApiError::internal("a checked job is missing"))
}

/// The retry policies of the known types among those whose jobs give a policy, which may be partial.
async fn policies(app: &App, jobs: &[wire::SubmitJob]) -> Result<BTreeMap<TypeName, RetryPolicy>, ApiError> {
    let retried = jobs.iter().filter(|job| job.retry.is_some());
    // An invalid name is reported by the conversion of its job.
    let names: BTreeSet<_> = retried.filter_map(|job| TypeName::new(&job.job_type).ok()).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let types = app.engine.types_by_name(names.into_iter().collect()).await?;
    Ok(types.into_iter().map(|(name, _, config)| (name, config.retry)).collect())
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
