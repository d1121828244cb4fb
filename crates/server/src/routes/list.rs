//! Lists of jobs, newest first, with pagination.

use std::sync::Arc;

use axum::extract::{Extension, State as Shared};
use axum::http::Uri;
use jobhall_core::{Job, JobId, State};
use jobhall_protocol::{JobFilter, Page, Timestamp, schema};
use schemars::JsonSchema;
use serde::Deserialize;

use super::large;
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::filter::Filter;
use crate::request::params;
use crate::request::params::PAGE_BYTES;
use crate::response::to_wire;
use crate::server::app::{App, now};

/// Default page size.
const LIMIT: usize = 50;
const LIMIT_MOST: usize = 500;
/// Maximum number of store pages that one request reads when the filter excludes most jobs.
const READS: usize = 40;
/// Size of such a store page for a text search.
const SEARCHED: usize = 50;
/// Size of other store pages, and of the first one. A job may have more than 500 KiB, so few are in memory at once
/// before their size is known.
const ROWS: usize = 64;
const FIRST_ROWS: usize = 16;

/// The filter and the page. The first fields are those of [`JobFilter`]: a query cannot be nested.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobsQuery {
    /// Jobs in one of these states, separated by commas.
    #[schemars(with = "Option<schema::States>")]
    state: Option<String>,
    /// Jobs of this type.
    #[serde(rename = "type")]
    #[schemars(with = "Option<schema::Name>")]
    job_type: Option<String>,
    /// Jobs with this key.
    #[schemars(with = "Option<schema::Key>")]
    key: Option<String>,
    /// Jobs in this queue.
    #[schemars(with = "Option<schema::Name>")]
    queue: Option<String>,
    /// Jobs of this group.
    #[schemars(with = "Option<schema::JobId>")]
    group: Option<u64>,
    /// Jobs of this owner.
    #[schemars(with = "Option<schema::Owner>")]
    owner: Option<String>,
    /// Jobs with this tag.
    #[schemars(with = "Option<schema::Tag>")]
    tag: Option<String>,
    /// Jobs with this text in type, key, params or error, ignoring case. One request scans at most 2,000 jobs:
    /// a page may be short or empty even if more pages follow.
    #[schemars(with = "Option<schema::Search>")]
    q: Option<String>,
    /// Submitted at or after this time.
    created_after: Option<Timestamp>,
    /// Submitted before this time.
    created_before: Option<Timestamp>,
    /// Page size, at most 500; default 50. A page ends earlier at 4 MiB of params, results and errors.
    #[schemars(range(min = 1, max = LIMIT_MOST))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::IdCursor<'b'>>")]
    cursor: Option<String>,
}

pub(super) async fn list(
    Shared(app): Shared<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    let asked: JobsQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, LIMIT, LIMIT_MOST)?;
    let before = asked.cursor.as_deref().map(from_cursor).transpose()?;
    let JobsQuery { state, job_type, key, queue, group, owner, tag, q, .. } = asked;
    let (created_after, created_before) = (asked.created_after, asked.created_before);
    let filter =
        JobFilter { state, job_type, key, queue, group, owner, tag, q, created_after, created_before };
    let _turn = app.shares.page_turn(&who).await?;
    let (jobs, next) = read(&app, &Filter::new(&filter, who.scope.clone())?, before, limit).await?;
    let items = jobs.iter().map(|job| to_wire::job(job, now())).collect::<Result<Vec<_>, _>>()?;
    let next_cursor = next.map(to_cursor);
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    large::hold(&app.shares, &who, error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

/// Reads until the page is full, the list ends, or the limit of one request is reached.
async fn read(
    app: &App,
    filter: &Filter,
    mut before: Option<JobId>,
    limit: usize,
) -> Result<(Vec<Job>, Option<JobId>), ApiError> {
    let (mut jobs, mut bytes, mut reads) = (Vec::new(), 0, 0);
    let mut rows = FIRST_ROWS;
    while reads < READS {
        let wanted = if filter.is_searching() { SEARCHED } else { rows.min(limit - jobs.len()) };
        let page = filter.look(app, before, wanted).await?;
        // Reads that fill the page are bounded by its size.
        reads += usize::from(page.jobs.len() < wanted);
        before = page.next;
        let mut found = page.jobs.into_iter();
        for job in found.by_ref() {
            bytes += size(&job);
            jobs.push(job);
            if jobs.len() == limit || bytes >= PAGE_BYTES {
                break;
            }
        }
        if found.len() > 0 {
            before = jobs.last().map(|job: &Job| job.id);
        }
        if jobs.len() == limit || bytes >= PAGE_BYTES || before.is_none() {
            break;
        }
        rows = (rows * 2).min(ROWS);
    }
    Ok((jobs, before))
}

/// The bytes of the documents of a job.
fn size(job: &Job) -> usize {
    let state = &job.status.state;
    let value = match state {
        State::Succeeded(success) => success.value.as_str().len(),
        _ => 0,
    };
    let data = state.error().and_then(|error| error.data.as_ref()).map_or(0, |data| data.as_str().len());
    job.spec.params.as_str().len() + value + data
}

fn to_cursor(id: JobId) -> String {
    format!("b{:x}", id.get())
}

fn from_cursor(text: &str) -> Result<JobId, ApiError> {
    JobId::new(params::cursor('b', text)?).map_err(ApiError::bad)
}
