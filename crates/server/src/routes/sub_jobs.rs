//! Sub-jobs: an attempt creates jobs and waits for them, authorized by its lease or by its job token.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use jobhall_core::{Disposition, JobId, Scope};
use jobhall_engine::{Answer as Told, Request as Ask};
use jobhall_protocol::{self as wire, Called, SubJob, SubJobState, Wait, Waited};

use super::attempts::{Word, word};
use super::jobs::address;
use super::submit::checked;
use crate::app::{App, now};
use crate::error::{self, Answer, ApiError};
use crate::tokens::Identity;
use crate::{body, to_wire};

/// Default and maximum time that a request may wait, in seconds.
const WAIT_S: (u64, u64) = (20, 60);
/// Maximum size of the results in one response, in bytes; further results are read separately.
const RESULT_BYTES: usize = 16 << 20;

pub(super) async fn ask(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let word = word(&who, &id, &request)?;
    let sub_job: SubJob = body::json(request).await?;
    let called = call(&app, &who, &word, &sub_job).await?;
    let id = JobId::new(called.id).map_err(ApiError::internal)?;
    Ok(error::made(called.disposition == Disposition::Created.as_str(), &address(id), &called))
}

/// Creates the sub-job that an attempt requests, or finds the existing job that the request refers to.
pub(crate) async fn call(
    app: &App,
    who: &Identity,
    word: &Word,
    sub_job: &SubJob,
) -> Result<Called, ApiError> {
    let call = sub_job.name().map_err(ApiError::bad)?;
    let queue = app.engine.show(word.attempt.job).await?.job.spec.queue.clone();
    let mut job = sub_job.job.clone();
    job.queue.get_or_insert_with(|| queue.to_string());
    // The submitter of the parent is unknown here, so the process can access only the queue of its own job.
    let who = match &who.bound {
        Some(_) => {
            &Identity { scope: Scope::new(&[queue.as_str()]).map_err(ApiError::internal)?, ..who.clone() }
        }
        None => who,
    };
    let job = checked(app, who, &[job]).await?.pop().map(Box::new);
    let job = job.ok_or_else(|| ApiError::internal("a checked job is missing"))?;
    let Word { worker, attempt, lease } = word;
    let (worker, attempt, lease) = (worker.clone(), *attempt, *lease);
    let made = match app.engine.ask(Ask::Call { worker, attempt, lease, call, job }).await? {
        Told::Submitted(made) => made.first().copied(),
        _ => None,
    };
    let made = made.ok_or_else(|| ApiError::internal("unexpected answer to a call"))?;
    let job = states(app, &[made.id]).await?.pop();
    let job = job.ok_or_else(|| ApiError::internal("a called job does not exist"))?;
    let SubJobState { id, state, result, .. } = job;
    Ok(Called { id, disposition: made.disposition.to_string(), state, result })
}

/// The states of these jobs, in order.
pub(crate) async fn states(app: &App, ids: &[JobId]) -> Result<Vec<SubJobState>, ApiError> {
    let (now, mut left) = (now(), RESULT_BYTES);
    let mut told = Vec::with_capacity(ids.len());
    for answer in app.engine.ask_many(ids.iter().map(|&id| Ask::Show(id)).collect()).await? {
        let Told::Shown(shown) = answer? else {
            return Err(ApiError::internal("unexpected answer to a show"));
        };
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

pub(super) async fn wait(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let word = word(&who, &id, &request)?;
    let given: Wait = body::json_or_default(request).await?;
    let (usual, most) = WAIT_S;
    let wait_s = given.wait_s.unwrap_or(usual);
    if wait_s > most {
        return Err(ApiError::bad(format!("wait_s of {wait_s} is outside 0 to {most}")));
    }
    let jobs = job_ids(given.jobs)?;
    let Word { worker, attempt, lease } = word;
    let wait_ms = wait_s * 1_000;
    let told = tokio::select! {
        told = app.engine.ask(Ask::Wait { worker, attempt, lease, jobs, wait_ms }) => told?,
        () = app.drained() => return Ok(error::nothing()),
    };
    match told {
        Told::Waited { jobs, over: true } => Ok(error::ok(&Waited { jobs: states(&app, &jobs).await? })),
        Told::Waited { over: false, .. } => Ok(error::nothing()),
        other => Err(ApiError::internal(format!("unexpected answer: {other:?}"))),
    }
}
