//! Sub-jobs: an attempt creates jobs and waits for them, authorized by its lease or by its job token.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use jobhall_core::{Disposition, JobId};
use jobhall_protocol::{SubJob, Wait, Waited};

use super::attempts::attempt_ref;
use super::jobs::address;
use crate::app::App;
use crate::body;
use crate::decode::sub_job::{call, call_one, job_ids, states};
use crate::error::{self, Answer, ApiError};
use crate::tokens::Identity;

/// Default and maximum time that a request may wait, in seconds.
const WAIT_S: (u64, u64) = (20, 60);
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
    let (usual, most) = WAIT_S;
    let wait_s = given.wait_s.unwrap_or(usual);
    if wait_s > most {
        return Err(ApiError::bad(format!("wait_s of {wait_s} is outside 0 to {most}")));
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
