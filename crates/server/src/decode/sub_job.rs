//! Sub-jobs: an attempt creates jobs and waits for them, by a request or in its worker's session.

use jobhall_core::{JobId, Scope, Time};
use jobhall_engine::{AttemptRef, Rejected};
use jobhall_protocol::{self as wire, Called, SubJob, SubJobState};

use super::submit;
use crate::app::{App, now};
use crate::error::ApiError;
use crate::to_wire;
use crate::tokens::Identity;

/// Maximum size of the results and errors in one response, in bytes; further ones are read separately.
const RESULT_BYTES: usize = 16 << 20;
/// Jobs that are shown at once.
const AT_ONCE: usize = 64;

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

/// The states of these jobs, in order. Results and errors beyond the budget are left out.
pub(crate) async fn states(app: &App, ids: &[JobId]) -> Result<Vec<SubJobState>, ApiError> {
    let (now, mut left) = (now(), RESULT_BYTES);
    let mut states = Vec::with_capacity(ids.len());
    for ids in ids.chunks(AT_ONCE) {
        for (id, shown) in ids.iter().zip(app.engine.show_each(ids).await?) {
            let state = match shown {
                Ok(shown) => state_of(&shown.job, now)?,
                // It was deleted after it ended.
                Err(Rejected::NoSuchJob(_)) => removed(*id),
                Err(refused) => return Err(refused.into()),
            };
            let bytes = size(&state);
            states.push(if bytes > left && !states.is_empty() { without_data(state) } else { state });
            left = left.saturating_sub(bytes);
        }
    }
    Ok(states)
}

fn state_of(job: &jobhall_core::Job, now: Time) -> Result<SubJobState, ApiError> {
    let wire::Job { id, state, result, error, .. } = to_wire::job(job, now)?;
    let outcome = job.status.state.outcome().map(|outcome| outcome.to_string());
    Ok(SubJobState { id, state, outcome, result, left_out: false, error })
}

fn removed(id: JobId) -> SubJobState {
    let (outcome, result, error) = (None, None, None);
    SubJobState { id: id.get(), state: "removed".to_owned(), outcome, result, left_out: false, error }
}

/// The bytes of the result and of the error.
fn size(state: &SubJobState) -> usize {
    let result = state.result.as_ref().map_or(0, |result| result.get().len());
    let error = state.error.as_ref().map_or(0, |error| {
        let data = error.data.as_ref().map_or(0, |data| data.get().len());
        error.reason.len() + error.explanation.len() + data
    });
    result + error
}

fn without_data(state: SubJobState) -> SubJobState {
    SubJobState { result: None, error: None, left_out: true, ..state }
}

pub(crate) fn job_ids(given: Option<Vec<u64>>) -> Result<Option<Vec<JobId>>, ApiError> {
    let ids = given.map(|ids| ids.into_iter().map(JobId::new).collect::<Result<_, _>>());
    ids.transpose().map_err(|error| ApiError::bad(format!("jobs: {error}")))
}
