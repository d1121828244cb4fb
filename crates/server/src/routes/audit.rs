//! Who did what, newest first, in pages.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use jobhall_protocol::{Act, Page, Timestamp};
use jobhall_store::{AuditEntry, AuditRow};
use serde::Deserialize;

use crate::app::App;
use crate::error::{self, Answer, Trouble};
use crate::params;

/// Acts on a page.
const LIMIT: usize = 50;
const LIMIT_MOST: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    limit: Option<usize>,
    cursor: Option<String>,
}

pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Answer {
    let asked: Asked = params::query(&uri)?;
    let limit = asked.limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MOST).contains(&limit) {
        return Err(Trouble::bad(format!("limit of {limit} is outside 1 to {LIMIT_MOST}")));
    }
    let before = asked.cursor.as_deref().map(from_cursor).transpose()?;
    let mut rows = app.store.audit(before, limit + 1).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| more).map(|last| format!("a{:x}", last.n));
    Ok(error::ok(&Page { items: rows.into_iter().map(act).collect(), next_cursor }))
}

fn from_cursor(text: &str) -> Result<u64, Trouble> {
    let number = text.strip_prefix('a').and_then(|hex| u64::from_str_radix(hex, 16).ok());
    number.ok_or_else(|| Trouble::bad(format!("{text:?} is not a cursor of this list")))
}

fn act(row: AuditRow) -> Act {
    let AuditRow { n, entry: AuditEntry { at, who, act, subject, detail } } = row;
    Act { n, at: Timestamp(at), who, act, subject, detail }
}
