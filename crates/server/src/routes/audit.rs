//! The audit log, newest first, with pagination.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use jobhall_protocol::{Act, Page, Timestamp, schema};
use jobhall_store::{AuditEntry, AuditRow};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{self, Answer};
use crate::request::params;
use crate::server::app::App;

/// Default page size.
const LIMIT: usize = 50;
const LIMIT_MOST: usize = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    /// Page size, at most 500; default 50.
    #[schemars(range(min = 1, max = LIMIT_MOST))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::NumberCursor<'a'>>")]
    cursor: Option<String>,
}

pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Answer {
    let asked: AuditQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, LIMIT, LIMIT_MOST)?;
    let before = asked.cursor.as_deref().map(|text| params::cursor('a', text)).transpose()?;
    let mut rows = app.store.audit(before, limit + 1).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| more).map(|last| format!("a{:x}", last.n));
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    let items = rows.into_iter().map(act).collect();
    Ok(error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

fn act(row: AuditRow) -> Act {
    let AuditRow { n, entry: AuditEntry { at, who, act, subject, detail } } = row;
    Act { n, at: Timestamp(at), who, act, subject, detail }
}
