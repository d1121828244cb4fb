//! The cache of values: what is stored, figures, removal and pins.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::Uri;
use jobhall_core::JobId;
use jobhall_core::query::{
    CommandName, Identity as ValueIdentity, Query, SourceKey, TEXT_BYTES_MAX, URL_BYTES_MAX,
};
use jobhall_protocol::{
    API, CacheCommand, CacheDropped, CacheMisses, CachePin, CacheStats, CacheVerified, CachedValue, Code,
    DamagedValue, Page, Timestamp, schema,
};
use jobhall_queries::{Cached, Dropped, Which};
use schemars::JsonSchema;
use serde::Deserialize;

use super::queries::{check_scope, refused, wrong};
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::params;
use crate::server::app::App;

/// Default page size.
const LIMIT: usize = 50;
/// A page is read from the store with the values.
const LIMIT_MOST: usize = 100;
/// The letter of a cursor.
const CURSOR: char = 'b';

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheQuery {
    /// The value of this query alone.
    #[schemars(with = "Option<schema::QueryText>")]
    query: Option<String>,
    /// Values of jobs that end in this command.
    #[schemars(with = "Option<schema::ArgumentName>")]
    command: Option<String>,
    /// Page size, at most 100; default 50.
    #[schemars(range(min = 1, max = LIMIT_MOST))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::IdCursor<'b'>>")]
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DropQuery {
    /// The value of this query, also if it is pinned.
    #[schemars(with = "Option<schema::QueryText>")]
    query: Option<String>,
    /// What was made by this command, and what was made from that.
    #[schemars(with = "Option<schema::ArgumentName>")]
    command: Option<String>,
    /// What was made from the data of this source.
    #[schemars(with = "Option<schema::Key>")]
    source: Option<String>,
    /// All values that are not pinned.
    all: Option<bool>,
    /// Only count.
    dry_run: Option<bool>,
    /// The `next_cursor` of the previous answer.
    #[schemars(with = "Option<schema::IdCursor<'b'>>")]
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VerifyQuery {
    /// The `next_cursor` of the previous answer.
    #[schemars(with = "Option<schema::IdCursor<'b'>>")]
    cursor: Option<String>,
}

fn from_cursor(text: Option<&str>) -> Result<Option<JobId>, ApiError> {
    let id = text.map(|text| JobId::new(params::cursor(CURSOR, text)?).map_err(ApiError::bad));
    id.transpose()
}

fn to_cursor(id: JobId) -> String {
    format!("{CURSOR}{:x}", id.get())
}

fn parsed(text: &str, most: usize) -> Result<Query, ApiError> {
    Query::parse(text, most).map_err(|error| wrong(&error, text))
}

fn command_name(text: &str) -> Result<CommandName, ApiError> {
    CommandName::new(text).map_err(|error| ApiError::bad(format!("command: {error}")))
}

fn shown(cached: Cached) -> CachedValue {
    let command = |step: &jobhall_core::query::StepParams| format!("{}@{}", step.command, step.version);
    let (media_type, size) = cached.value.map(|value| (value.media_type, value.size)).unzip();
    CachedValue {
        identity: cached.identity.to_string(),
        job: cached.job.id.get(),
        commands: cached.params.steps.iter().map(command).collect(),
        query: cached.params.query,
        media_type,
        size,
        made_at: Timestamp(cached.made_at),
        pinned: cached.pinned,
    }
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    check_scope(&who)?;
    let asked: CacheQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, LIMIT, LIMIT_MOST)?;
    let before = from_cursor(asked.cursor.as_deref())?;
    let command = asked.command.as_deref().map(command_name).transpose()?;
    if let Some(text) = &asked.query {
        if command.is_some() {
            return Err(ApiError::bad("command: it cannot be given together with query"));
        }
        let found = app.queries.cached(&parsed(text, TEXT_BYTES_MAX)?).await;
        let items = found.map_err(|error| refused(error, text))?.into_iter().map(shown).collect();
        return Ok(error::ok(&Page { items, next_cursor: None }));
    }
    let _turn = app.shares.page_turn(&who).await?;
    let page = app.queries.cached_page(command.as_ref(), before, limit).await;
    let page = page.map_err(|error| refused(error, ""))?;
    let next_cursor = page.next.map(to_cursor);
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    let items = page.values.into_iter().map(shown).collect::<Vec<_>>();
    Ok(error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

pub(super) async fn stats(State(app): State<Arc<App>>, Extension(who): Extension<Identity>) -> Answer {
    check_scope(&who)?;
    let stats = app.queries.cache_stats().await.map_err(|error| refused(error, ""))?;
    let commands = stats.commands.into_iter().map(|(name, counts)| CacheCommand {
        command: name.to_string(),
        hit: counts.hits,
        joined: counts.joined,
        computed: counts.computed,
        skipped: counts.skipped,
        failed: counts.failed,
    });
    let jobhall_queries::Misses { new, version, evicted, dropped, damaged, expired } = stats.misses;
    Ok(error::ok(&CacheStats {
        values: stats.values,
        bytes: stats.bytes,
        max_values: stats.bounds.values,
        max_bytes: stats.bounds.bytes,
        memory_bytes: stats.hot_bytes,
        pins: stats.pinned as u64,
        evictions: stats.evictions,
        commands: commands.collect(),
        misses: CacheMisses { new, version, evicted, dropped, damaged, expired },
    }))
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    check_scope(&who)?;
    let asked: DropQuery = params::query(&uri)?;
    let (before, only_count) = (from_cursor(asked.cursor.as_deref())?, asked.dry_run == Some(true));
    let (dropped, what) = match which(&asked)? {
        Meant::Query(query, text) => {
            let dropped = app.queries.drop_value(&query, only_count).await;
            (dropped.map_err(|error| refused(error, &text))?, text)
        }
        Meant::Many(which, what) => {
            let dropped = app.queries.drop_values(&which, only_count, before).await;
            (dropped.map_err(|error| refused(error, ""))?, what)
        }
    };
    let Dropped { removed, kept, next } = dropped;
    if !only_count && removed.values > 0 {
        let subject: String = what.chars().take(200).collect();
        app.acted(&who, "cache_dropped", subject, &format!("{} values", removed.values)).await;
    }
    let next_cursor = next.map(to_cursor);
    Ok(error::ok(&CacheDropped { values: removed.values, bytes: removed.bytes, kept, next_cursor }))
}

enum Meant {
    Query(Query, String),
    Many(Which, String),
}

fn which(asked: &DropQuery) -> Result<Meant, ApiError> {
    let DropQuery { query, command, source, all, .. } = asked;
    match (query, command, source, all) {
        (Some(text), None, None, None) => Ok(Meant::Query(parsed(text, TEXT_BYTES_MAX)?, text.clone())),
        (None, Some(name), None, None) => {
            Ok(Meant::Many(Which::Command(command_name(name)?), format!("command {name}")))
        }
        (None, None, Some(key), None) => {
            let source = SourceKey::new(key).map_err(|error| ApiError::bad(format!("source: {error}")))?;
            Ok(Meant::Many(Which::Source(source), format!("source {key}")))
        }
        (None, None, None, Some(true)) => Ok(Meant::Many(Which::All, "all".to_owned())),
        _ => Err(ApiError::bad("exactly one of query, command, source and all=true must be given")),
    }
}

/// The query or the identity in the path of a pin.
fn pin_text(uri: &Uri) -> &str {
    let path = uri.path().strip_prefix(API).unwrap_or_default();
    path.strip_prefix("/cache/pins/").unwrap_or_default()
}

pub(super) async fn pin(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    check_scope(&who)?;
    let text = pin_text(&uri);
    let query = parsed(text, URL_BYTES_MAX)?;
    let (identity, new) = app.queries.pin(&query).await.map_err(|error| refused(error, text))?;
    let pin = CachePin { identity: identity.to_string(), query: query.text() };
    if new {
        app.acted(&who, "value_pinned", &pin.identity, "").await;
    }
    Ok(error::made(new, &format!("{API}/cache/pins/{}", pin.query), &pin))
}

pub(super) async fn unpin(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    check_scope(&who)?;
    let text = pin_text(&uri);
    let removed = match text.parse::<ValueIdentity>() {
        Ok(identity) => app.queries.unpin(identity).await.map(usize::from),
        Err(_) => app.queries.unpin_query(&parsed(text, URL_BYTES_MAX)?).await,
    };
    if removed.map_err(|error| refused(error, text))? == 0 {
        return Err(ApiError::new(Code::NotFound, format!("{} is not pinned", params::shown(text))));
    }
    let subject: String = text.chars().take(200).collect();
    app.acted(&who, "value_unpinned", subject, "").await;
    Ok(error::nothing())
}

pub(super) async fn verify(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
) -> Answer {
    check_scope(&who)?;
    let asked: VerifyQuery = params::query(&uri)?;
    let before = from_cursor(asked.cursor.as_deref())?;
    let verified = app.queries.verify(before).await.map_err(|error| refused(error, ""))?;
    let damaged = verified.damaged.into_iter().map(|(job, why)| DamagedValue { job: job.get(), why });
    let next_cursor = verified.next.map(to_cursor);
    Ok(error::ok(&CacheVerified { checked: verified.checked, damaged: damaged.collect(), next_cursor }))
}
