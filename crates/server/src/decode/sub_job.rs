//! Sub-jobs: an attempt creates jobs and waits for them, by a request or in its worker's session.

use jobhall_core::{JobId, Scope};
use jobhall_engine::AttemptRef;
use jobhall_protocol::{self as wire, Called, SubJob, SubJobState};

use super::submit;
use crate::app::{App, now};
use crate::error::ApiError;
use crate::to_wire;
use crate::tokens::Identity;

/// Maximum size of the results in one response, in bytes; further results are read separately.
const RESULT_BYTES: usize = 16 << 20;

/// Creates the sub-job that an attempt requests, or finds the existing job that the request refers to.
pub(crate) async fn call(
    app: &App,
    who: &Identity,
    of: AttemptRef,
    sub_job: &SubJob,
) -> Result<Called, ApiError> {
    let call = sub_job.name().map_err(ApiError::bad)?;
    let queue = app.engine.show(of.attempt.job).await?.job.spec.queue.clone();
    let mut job = sub_job.job.clone();
    job.queue.get_or_insert_with(|| queue.to_string());
    // The submitter of the parent is unknown here, so the process can access only the queue of the parent.
    let who = match &who.bound {
        Some(_) => {
            &Identity { scope: Scope::new(&[queue.as_str()]).map_err(ApiError::internal)?, ..who.clone() }
        }
        None => who,
    };
    let job = submit::job(app, who, &job).await?;
    let made = app.engine.call(of, call, job).await?;
    let job = states(app, &[made.id]).await?.pop();
    let job = job.ok_or_else(|| ApiError::internal("a called job does not exist"))?;
    let SubJobState { id, state, result, .. } = job;
    Ok(Called { id, disposition: made.disposition.to_string(), state, result })
}

/// The states of these jobs, in order.
pub(crate) async fn states(app: &App, ids: &[JobId]) -> Result<Vec<SubJobState>, ApiError> {
    let (now, mut left) = (now(), RESULT_BYTES);
    let mut told = Vec::with_capacity(ids.len());
    for shown in app.engine.show_each(ids).await? {
        let shown = shown?;
        let wire::Job { id, state, result, error, .. } = to_wire::job(&shown.job, now)?;
        let bytes = result.as_ref().map_or(0, |result| result.get().len());
        let left_out = bytes > left && !told.is_empty();
        let result = result.filter(|_| !left_out);
        left = left.saturating_sub(bytes);
        let outcome = shown.job.life.state.outcome().map(|outcome| outcome.to_string());
        told.push(SubJobState { id, state, outcome, result, left_out, error });
    }
    Ok(told)
}

pub(crate) fn job_ids(given: Option<Vec<u64>>) -> Result<Option<Vec<JobId>>, ApiError> {
    let ids = given.map(|ids| ids.into_iter().map(JobId::new).collect::<Result<_, _>>());
    ids.transpose().map_err(|error| ApiError::bad(format!("jobs: {error}")))
}
