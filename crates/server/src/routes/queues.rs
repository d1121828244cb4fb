//! Queues with their open jobs. A queue is known while it has open jobs, for a while after that, and while it has
//! settings. The entity tag names the version of its settings; the counts are current.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::http::Uri;
use jobhall_core::QueueName;
use jobhall_engine::Tally;
use jobhall_protocol::{Code, Page, Queue, schema};
use schemars::JsonSchema;
use serde::Deserialize;

use super::queue_settings::{Configs, limits};
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::metrics::figures;
use crate::request::params;
use crate::server::app::{App, now};

/// Default page size.
const LIMIT: usize = 100;
const LIMIT_MOST: usize = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueuesQuery {
    /// Page size.
    #[schemars(range(min = 1, max = LIMIT_MOST))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::NameCursor>")]
    cursor: Option<String>,
}

pub(super) async fn queues(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    let asked: QueuesQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, LIMIT, LIMIT_MOST)?;
    let after = asked.cursor.as_deref().map(from_cursor).transpose()?;
    // One extra row shows whether another page follows. Only queues of the caller are read, because the cursor has the
    // name of one.
    let mut found = app.engine.queues(after, who.scope.clone(), limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|(name, _)| format!("a{name}"));
    let configs = Configs::read(&app).await?;
    let items = found.iter().map(|(name, tally)| queue(name, tally, &configs)).collect();
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    Ok(error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
) -> Answer {
    let name = QueueName::new(&name).map_err(ApiError::bad)?;
    let found = app.engine.queue(name.clone()).await?.filter(|_| who.scope.reaches(name.as_str()));
    let unknown =
        || ApiError::new(Code::NotFound, format!("there is no queue {name} with an open job or settings"));
    let (tally, takers) = found.ok_or_else(unknown)?;
    let configs = Configs::read(&app).await?;
    let tag = configs.tag(&name)?;
    let queue = queue(&name, &tally, &configs);
    let answer =
        error::ok(&Queue { workers: Some(takers.workers), free_slots: Some(takers.free_slots), ..queue });
    Ok(match tag {
        Some(tag) => error::tagged(answer, &tag),
        None => answer,
    })
}

fn queue(name: &QueueName, tally: &Tally, configs: &Configs) -> Queue {
    let config = configs.config(name);
    let (keep_ms, keep_count) = (config.keep_ms, config.keep_count);
    let counts = figures::queue(name, tally, now());
    Queue { paused: config.paused, limits: limits(&config), keep_ms, keep_count, ..counts }
}

fn from_cursor(text: &str) -> Result<QueueName, ApiError> {
    let name = text.strip_prefix('a').and_then(|name| QueueName::new(name).ok());
    name.ok_or_else(|| ApiError::bad(format!("cursor: {} is not a cursor of this list", params::shown(text))))
}
