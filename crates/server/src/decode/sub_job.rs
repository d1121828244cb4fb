//! Sub-jobs: an attempt creates jobs and waits for them, by a request or in its worker's session.

use jobhall_core::{Job, JobId, Scope, Time};
use jobhall_engine::{AttemptRef, Rejected};
use jobhall_protocol::{self as wire, Called, FRAME_BYTES, SubJob, SubJobState};

use super::submit;
use crate::auth::tokens::Identity;
use crate::error::ApiError;
use crate::request::params::shown;
use crate::response::to_wire;
use crate::server::app::{App, now};

/// Maximum size of the states in one message, as JSON; results and errors beyond it are read separately. A message fits
/// one frame, with room for its envelope.
const STATES_BYTES: usize = FRAME_BYTES - 4_096;
/// Maximum size of a state without result and error.
const STATE_BYTES: usize = 100;
/// Jobs that are shown at once.
const AT_ONCE: usize = 64;

/// Creates the sub-jobs that an attempt requests, all or nothing, or finds the existing jobs that the names refer to.
pub(crate) async fn call(
    app: &App,
    who: &Identity,
    of: AttemptRef,
    sub_jobs: &[SubJob],
) -> Result<Vec<Called>, ApiError> {
    let queue = held(app, &of).await?.spec.queue.clone();
    let mut names = Vec::with_capacity(sub_jobs.len());
    let mut jobs = Vec::with_capacity(sub_jobs.len());
    for sub_job in sub_jobs {
        names.push(sub_job.name().map_err(ApiError::bad)?);
        let mut job = sub_job.job.clone();
        let given = job.queue.get_or_insert_with(|| queue.to_string());
        if given.as_str() != queue.as_str() {
            let detail =
                format!("queue {}: a sub-job is in the queue of its parent, which is {queue}", shown(given));
            return Err(ApiError::new(wire::Code::Forbidden, detail));
        }
        jobs.push(job);
    }
    // The lease of an attempt authorizes jobs in the queue of the attempt only, for every role.
    let scope = Scope::new(&[queue.as_str()]).map_err(ApiError::internal)?;
    let jobs = submit::jobs(app, &who.clone().within(scope), &jobs).await?;
    let made = app.engine.call(of, names.into_iter().zip(jobs).collect(), None).await?;
    let ids: Vec<_> = made.iter().map(|made| made.id).collect();
    let states = states(app, &ids).await?;
    let called = made.iter().zip(states).map(|(made, SubJobState { id, state, result, left_out, .. })| {
        let params_differ = made.disposition.params_differ();
        Called { id, disposition: made.disposition.to_string(), params_differ, state, result, left_out }
    });
    Ok(called.collect())
}

/// Creates one sub-job.
pub(crate) async fn call_one(
    app: &App,
    who: &Identity,
    of: AttemptRef,
    sub_job: &SubJob,
) -> Result<Called, ApiError> {
    let called = call(app, who, of, std::slice::from_ref(sub_job)).await?.pop();
    called.ok_or_else(|| ApiError::internal("a called job does not exist"))
}

/// The job of an attempt, for the holder of its lease only.
pub(crate) async fn held(app: &App, of: &AttemptRef) -> Result<Job, ApiError> {
    let job = app.engine.show(of.attempt.job).await?.job;
    let held = job.status.state.leased().map(|leased| &leased.lease);
    let is_holder = held.is_some_and(|lease| lease.id == of.lease && lease.worker == of.worker);
    if is_holder { Ok(job) } else { Err(Rejected::LeaseLost(of.attempt).into()) }
}

/// The states of these jobs, in order, within one frame: results and errors that do not fit are left out. Those of the
/// first job always fit, so every job can be requested alone. Results that are artifacts are always left out.
pub(crate) async fn states(app: &App, ids: &[JobId]) -> Result<Vec<SubJobState>, ApiError> {
    let (now, mut left) = (now(), STATES_BYTES.saturating_sub(ids.len() * STATE_BYTES));
    let mut states = Vec::with_capacity(ids.len());
    for ids in ids.chunks(AT_ONCE) {
        for (id, shown) in ids.iter().zip(app.engine.show_each(ids).await?) {
            let state = match shown {
                Ok(shown) => state_of(app, &shown.job, now).await?,
                // It was deleted after it ended.
                Err(Rejected::NoSuchJob(_)) => removed(*id),
                Err(refused) => return Err(refused.into()),
            };
            let bytes = size(&state)?;
            if bytes > left && ids.len() > 1 {
                states.push(without_data(state));
            } else {
                left = left.saturating_sub(bytes);
                states.push(state);
            }
        }
    }
    Ok(states)
}

async fn state_of(app: &App, job: &Job, now: Time) -> Result<SubJobState, ApiError> {
    let wire::Job { id, state, result, error, .. } = to_wire::job(job, now)?;
    let outcome = job.status.state.outcome().map(|outcome| outcome.to_string());
    let left_out = app.artifacts.large_result(job).await?.is_some();
    Ok(SubJobState { id, state, outcome, result: result.filter(|_| !left_out), left_out, error })
}

fn removed(id: JobId) -> SubJobState {
    let (outcome, result, error) = (None, None, None);
    SubJobState { id: id.get(), state: "removed".to_owned(), outcome, result, left_out: false, error }
}

/// The bytes of the result and of the error in a message. Control characters in an explanation are escaped.
fn size(state: &SubJobState) -> Result<usize, ApiError> {
    let result = state.result.as_ref().map_or(0, |result| result.get().len());
    let error = state.error.as_ref().map(serde_json::to_vec).transpose().map_err(ApiError::internal)?;
    Ok(result + error.map_or(0, |error| error.len()))
}

fn without_data(state: SubJobState) -> SubJobState {
    SubJobState { result: None, error: None, left_out: true, ..state }
}

pub(crate) fn job_ids(given: Option<Vec<u64>>) -> Result<Option<Vec<JobId>>, ApiError> {
    let ids = given.map(|ids| ids.into_iter().map(JobId::new).collect::<Result<_, _>>());
    ids.transpose().map_err(|error| ApiError::bad(format!("jobs: {error}")))
}
