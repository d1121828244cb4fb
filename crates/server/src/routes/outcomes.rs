//! Outcomes of external work that a worker has started, reported by type and key.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{Request, Uri};
use jobhall_core::{Job, JobId, Key, StateName, TypeName};
use jobhall_protocol::{Code, OutcomeReport};
use jobhall_store::JobFilter;
use schemars::JsonSchema;
use serde::Deserialize;

use super::history;
use crate::auth::tokens::Identity;
use crate::decode::attempt::report;
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::server::app::App;

/// Number of jobs with one key that are read at once.
const PAGE: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutcomeQuery {
    /// Attempt number; default: the current attempt.
    attempt: Option<u32>,
}

pub(super) async fn finish(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path((job_type, key)): Path<(String, String)>,
    uri: Uri,
    request: Request<Body>,
) -> Answer {
    let job_type = TypeName::new(&job_type).map_err(ApiError::bad)?;
    let key = Key::new(&key).map_err(ApiError::bad)?;
    let OutcomeQuery { attempt } = params::query(&uri)?;
    let given: OutcomeReport = body::json(request).await?;
    let report = report(&given)?;
    let id = meant(&app, &who, &job_type, &key).await?;
    let shown = app.engine.complete(id, attempt, report).await?;
    app.acted(&who, "job_completed", id, given.outcome.as_str()).await;
    Ok(error::ok(&history::job(&app, &shown).await?))
}

/// The job that is running or started; otherwise the newest job with the key.
async fn meant(app: &App, who: &Identity, job_type: &TypeName, key: &Key) -> Result<JobId, ApiError> {
    let filter =
        JobFilter { job_type: Some(job_type.clone()), key: Some(key.clone()), ..JobFilter::default() };
    let (mut newest, mut before) = (None, None);
    loop {
        let page = app.engine.list(filter.clone(), before, PAGE).await?;
        let mut seen = page.jobs.iter().filter(|job| who.sees(job));
        newest = newest.or_else(|| seen.clone().next().map(|job| job.id));
        let live = seen.find(|job| is_live(job)).map(|job| job.id);
        match (live, newest, page.next) {
            (Some(id), _, _) | (None, Some(id), _) => return Ok(id),
            (None, None, Some(next)) => before = Some(next),
            (None, None, None) => {
                let detail = format!("there is no job of type {job_type} with key {key}");
                return Err(ApiError::new(Code::NotFound, detail));
            }
        }
    }
}

fn is_live(job: &Job) -> bool {
    let state = job.status.state.name();
    [StateName::Assigned, StateName::Accepted, StateName::Running, StateName::Waiting].contains(&state)
}
