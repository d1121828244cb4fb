//! Sub-jobs: an attempt creates jobs, waits for them and reads their results, authorized by its lease or by its job
//! token.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use jobhall_core::{Disposition, JobId};
use jobhall_engine::Rejected;
use jobhall_protocol::{Code, SubJob, WAIT_S, Wait, Waited};

use super::attempts::attempt_ref;
use super::jobs::{address, result_of};
use crate::auth::tokens::Identity;
use crate::decode::sub_job::{call, call_one, job_ids, states};
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::server::app::App;

/// Default time that a request may wait, in seconds.
const USUAL_S: u64 = 20;

pub(super) async fn ask(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let bytes = body::bytes(request).await?;
    if body::is_array(&bytes) {
        let sub_jobs: Vec<SubJob> = body::parse_many(&bytes)?;
        return Ok(error::ok(&call(&app, &who, of, &sub_jobs).await?));
    }
    let sub_job: SubJob = body::parse(&bytes)?;
    let called = call_one(&app, &who, of, &sub_job).await?;
    let id = JobId::new(called.id).map_err(ApiError::internal)?;
    Ok(error::made(called.disposition == Disposition::Created.as_str(), &address(id), &called))
}

pub(super) async fn wait(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let given: Wait = body::json_or_default(request).await?;
    let wait_s = given.wait_s.unwrap_or(USUAL_S);
    if wait_s > WAIT_S {
        return Err(ApiError::bad(format!("wait_s of {wait_s} is outside 0 to {WAIT_S}")));
    }
    let jobs = job_ids(given.jobs)?;
    let _share = app.shares.waiting(&who)?;
    let waited = tokio::select! {
        waited = app.engine.wait(of, jobs, wait_s * 1_000) => waited?,
        () = app.drained() => return Ok(error::nothing()),
    };
    if waited.over {
        Ok(error::ok(&Waited { jobs: states(&app, &waited.jobs).await? }))
    } else {
        Ok(error::nothing())
    }
}

/// The result of a sub-job, as it is read of any job. The scope of the token is not compared with the queue of the
/// sub-job, which is the queue of its parent.
pub(super) async fn result(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path((id, job)): Path<(String, String)>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let (job, parts) = (params::job_id(&job)?, request.into_parts().0);
    match app.engine.check_sub_job(of, job).await {
        Err(refused @ Rejected::NotSubJob { .. }) => {
            return Err(ApiError::new(Code::NotFound, refused.to_string()));
        }
        checked => checked?,
    };
    let shown = app.engine.show(job).await?;
    result_of(&app, &shown.job, &parts.method, &parts.headers).await
}
