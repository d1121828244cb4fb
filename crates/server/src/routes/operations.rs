//! Operations: start, show, stop. `crate::services::operations` executes them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{Request, Uri};
use jobhall_core::Scope;
use jobhall_core::bounds::JOB_ID;
use jobhall_protocol::{Code, Page, StartOperation, Verb, schema};
use jobhall_store::JobFilter;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::auth::audit;
use crate::auth::tokens::{Identity, Role};
use crate::error::{self, Answer, ApiError};
use crate::request::filter::Filter;
use crate::request::{body, params};
use crate::server::app::App;

/// Default page size.
const LIMIT: usize = 50;
const LIMIT_MOST: usize = 500;
/// How long the response waits for the count.
const COUNT_TIME: Duration = Duration::from_secs(2);

fn address(id: u64) -> String {
    format!("{}/operations/{id}", jobhall_protocol::API)
}

pub(super) async fn start(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    app.takes_work()?;
    let asked: StartOperation = body::json(request).await?;
    if asked.verb == Verb::Delete && who.role != Role::Admin {
        return Err(ApiError::new(Code::Forbidden, "only an administrator may delete jobs"));
    }
    if Filter::new(&asked.filter, Scope::default())?.is_all() && !asked.all {
        return Err(ApiError::bad("a filter without a condition matches all jobs; confirm with all: true"));
    }
    let up_to = up_to(&app, asked.up_to).await?;
    let detail = audit::change(&asked);
    let started = app.operations.start(&who.name, asked, up_to).await?;
    app.acted(&who, "operation_started", started.id, &detail).await;
    let operation = app.operations.counted(started.id, COUNT_TIME).await?;
    Ok(error::accepted(&address(operation.id), &operation))
}

/// The newest job, or the requested older one; 0 if there are no jobs.
async fn up_to(app: &App, asked: Option<u64>) -> Result<u64, ApiError> {
    if let Some(asked) = asked.filter(|asked| *asked > JOB_ID) {
        return Err(ApiError::bad(format!("up_to of {asked} is outside 0 to {JOB_ID}")));
    }
    let page = app.engine.list(JobFilter::default(), None, 1).await?;
    let newest = page.jobs.first().map_or(0, |job| job.id.get());
    Ok(asked.map_or(newest, |asked| asked.min(newest)))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OperationsQuery {
    /// Page size, at most 500; default 50.
    #[schemars(range(min = 1, max = LIMIT_MOST))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::NumberCursor<'o'>>")]
    cursor: Option<String>,
}

pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Answer {
    let asked: OperationsQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, LIMIT, LIMIT_MOST)?;
    let before = asked.cursor.as_deref().map(|text| params::cursor('o', text)).transpose()?;
    let (items, more) = app.operations.list(before.unwrap_or(u64::MAX), limit).await?;
    let next_cursor = items.last().filter(|_| more).map(|last| format!("o{:x}", last.id));
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    Ok(error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

fn number(text: &str) -> Result<u64, ApiError> {
    let wrong = |_| ApiError::bad(format!("{} is not an operation number", params::shown(text)));
    text.parse().map_err(wrong)
}

pub(super) async fn show(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer {
    Ok(error::ok(&app.operations.get(number(&id)?).await?))
}

pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    let operation = app.operations.cancel(number(&id)?).await?;
    app.acted(&who, "operation_cancelled", operation.id, "").await;
    Ok(error::ok(&operation))
}
