//! Inputs of an attempt: results and artifacts of the jobs that its job comes after, and artifacts that the attempt of
//! its parent has stored so far. The lease authorizes the reads. The scope of the token is not compared with the queues
//! of these jobs, because it was when the job was submitted.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use jobhall_blobs::ArtifactName;
use jobhall_core::{Job, JobId, State as JobState};
use jobhall_engine::{AttemptRef, Rejected};
use jobhall_protocol::{
    Code, INPUT_ARTIFACTS, INPUT_RESULTS_BYTES, Input, InputArtifact, InputName, Page, schema,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::attempts::attempt_ref;
use super::large;
use super::{artifacts, history, jobs};
use crate::auth::tokens::Identity;
use crate::decode::sub_job::held;
use crate::error::{self, Answer, ApiError};
use crate::request::params;
use crate::request::params::PAGE_BYTES;
use crate::response::to_wire;
use crate::server::app::{App, now};

/// Default and maximum page size.
const PAGE: usize = 1_000;
/// Jobs that are shown at once.
const AT_ONCE: usize = 64;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InputsQuery {
    /// Page size, at most 1,000, which is the default. A page ends earlier at 4 MiB.
    #[schemars(range(min = 1, max = PAGE))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::NumberCursor<'i'>>")]
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let asked: InputsQuery = params::query(request.uri())?;
    let limit = params::limit(asked.limit, PAGE, PAGE)?;
    let from = asked.cursor.as_deref().map(|text| params::cursor('i', text)).transpose()?;
    let mut at = usize::try_from(from.unwrap_or(0)).unwrap_or(usize::MAX);
    let job = held(&app, &of).await?;
    let _turn = app.shares.page_turn(&who).await?;
    let after = &job.spec.after;
    let (mut items, mut bytes, mut left) = (Vec::new(), 0, INPUT_RESULTS_BYTES);
    while at < after.len() && items.len() < limit && bytes < PAGE_BYTES {
        let end = after.len().min(at + AT_ONCE).min(at + limit - items.len());
        let ids = &after[at..end];
        for (id, shown) in ids.iter().zip(app.engine.show_each(ids).await?) {
            if bytes >= PAGE_BYTES {
                break;
            }
            let position = InputName::Position(u32::try_from(at).unwrap_or(u32::MAX));
            let found = there(shown.map(|shown| shown.job))?;
            let input = input(&app, position, *id, found.as_ref()).await?.within(&mut left);
            bytes += size(&input);
            items.push(input);
            at += 1;
        }
    }
    let more = at < after.len();
    if let Some(parent) = job.spec.parent.filter(|_| !more) {
        let found = there(app.engine.show(parent).await.map(|shown| shown.job))?;
        items.push(input(&app, InputName::PARENT, parent, found.as_ref()).await?);
    }
    let next_cursor = more.then(|| format!("i{at:x}"));
    let link = next_cursor.as_deref().map(|cursor| params::next_page(request.uri(), cursor));
    large::hold(&app.shares, &who, error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

/// A job, or none if it was removed.
fn there(shown: Result<Job, Rejected>) -> Result<Option<Job>, ApiError> {
    match shown {
        Ok(job) => Ok(Some(job)),
        Err(Rejected::NoSuchJob(_)) => Ok(None),
        Err(refused) => Err(refused.into()),
    }
}

async fn input(app: &App, n: InputName, id: JobId, job: Option<&Job>) -> Result<Input, ApiError> {
    let none = Input {
        n,
        job: id.get(),
        job_type: None,
        key: None,
        state: "removed".to_owned(),
        result: None,
        left_out: false,
        artifacts: Vec::new(),
        more_artifacts: false,
    };
    let Some(job) = job else { return Ok(none) };
    let mut listed = match history::attempt(app, job, None).await? {
        Some(attempt) => app.artifacts.list(attempt, None, INPUT_ARTIFACTS + 1).await?,
        None => Vec::new(),
    };
    let more_artifacts = listed.len() > INPUT_ARTIFACTS;
    listed.truncate(INPUT_ARTIFACTS);
    let left_out = app.artifacts.large_result(job).await?.is_some();
    let result = match &job.status.state {
        JobState::Succeeded(success) if !left_out => Some(to_wire::raw(&success.value)?),
        _ => None,
    };
    let told = |artifact: &jobhall_blobs::Artifact| InputArtifact {
        name: artifact.name.to_string(),
        size: artifact.size,
    };
    Ok(Input {
        job_type: Some(job.spec.job_type.to_string()),
        key: job.spec.key.as_ref().map(ToString::to_string),
        state: job.status.name(now()).to_string(),
        result,
        left_out,
        artifacts: listed.iter().map(told).collect(),
        more_artifacts,
        ..none
    })
}

/// About the bytes of an input in a page.
fn size(input: &Input) -> usize {
    let result = input.result.as_ref().map_or(0, |result| result.get().len());
    let artifacts = input.artifacts.iter().map(|artifact| artifact.name.len() + 30);
    result + artifacts.sum::<usize>() + 100
}

/// The result of an input, as it is read of any job.
pub(super) async fn result(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path((id, n)): Path<(String, String)>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let parts = request.into_parts().0;
    let job = source(&app, &of, &n).await?;
    jobs::result_of(&app, &job, &parts.method, &parts.headers).await
}

pub(super) async fn artifact(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path((id, n, name)): Path<(String, String, String)>,
    request: Request<Body>,
) -> Answer {
    let of = attempt_ref(&who, &id, &request)?;
    let name = ArtifactName::new(&name).map_err(ApiError::bad)?;
    let parts = request.into_parts().0;
    let job = source(&app, &of, &n).await?;
    let found = match history::attempt(&app, &job, None).await? {
        Some(attempt) => app.artifacts.find(attempt, name.clone()).await?,
        None => None,
    };
    match found {
        Some(found) => artifacts::content(&app, &found, &parts.method, &parts.headers).await,
        None => Err(none(format!("job {}, which is input {n}, has no artifact {name}", job.id))),
    }
}

/// The job that is this input of the attempt.
async fn source(app: &App, of: &AttemptRef, n: &str) -> Result<Job, ApiError> {
    let name: InputName = n.parse().map_err(ApiError::bad)?;
    let job = held(app, of).await?;
    let after = &job.spec.after;
    let id = match name {
        InputName::Parent(_) => {
            job.spec.parent.ok_or_else(|| none(format!("job {} has no parent", job.id)))?
        }
        InputName::Position(at) => *after.get(at as usize).ok_or_else(|| {
            none(format!("job {} has no input {at}: it has {} inputs, counted from 0", job.id, after.len()))
        })?,
    };
    let found = there(app.engine.show(id).await.map(|shown| shown.job))?;
    found.ok_or_else(|| none(format!("job {id}, which is input {n}, was removed")))
}

fn none(detail: String) -> ApiError {
    ApiError::new(Code::NotFound, detail)
}
