//! Settings of job types. A change replaces single fields.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Request, Uri};
use jobhall_core::limits::Limit as CoreLimit;
use jobhall_core::{TypeConfig, TypeName};
use jobhall_engine::Rejected;
use jobhall_protocol::{Code, Limit, Page, SetType, schema};
use schemars::JsonSchema;
use serde::Deserialize;

use super::versions::{self, ROUNDS, Wanted};
use crate::auth::audit;
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::response::to_wire;
use crate::server::app::App;

/// Default page size.
const LIMIT: usize = 500;
const LIMIT_MOST: usize = 500;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TypesQuery {
    /// Page size.
    #[schemars(range(min = 1, max = LIMIT_MOST))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::NameCursor>")]
    cursor: Option<String>,
}

/// Settings and their version.
struct Stored {
    rev: u32,
    config: TypeConfig,
}

impl Stored {
    /// A configured type, or one that was used recently.
    async fn find(app: &App, name: &TypeName) -> Result<Option<Stored>, ApiError> {
        let found = app.engine.types_by_name(vec![name.clone()]).await?.pop();
        Ok(found.map(|(_, rev, config)| Stored { rev, config }))
    }

    fn tag(&self) -> Result<String, ApiError> {
        versions::tag(self.rev, &self.config)
    }
}

pub(super) async fn types(State(app): State<Arc<App>>, uri: Uri) -> Answer {
    let asked: TypesQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, LIMIT, LIMIT_MOST)?;
    let after = asked.cursor.as_deref().map(from_cursor).transpose()?;
    // One extra type shows whether another page follows.
    let mut found = app.engine.types(after, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|(name, ..)| format!("a{name}"));
    let items = found.iter().map(|(name, _, config)| to_wire::type_settings(name, config)).collect();
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    Ok(error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

fn from_cursor(text: &str) -> Result<TypeName, ApiError> {
    let name = text.strip_prefix('a').and_then(|name| TypeName::new(name).ok());
    name.ok_or_else(|| ApiError::bad(format!("cursor: {} is not a cursor of this list", params::shown(text))))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let name = TypeName::new(&name).map_err(ApiError::bad)?;
    let stored = Stored::find(&app, &name).await?.ok_or_else(|| unknown(&name))?;
    let tag = stored.tag()?;
    if Wanted::of(&headers)?.has(Some(&tag)) {
        return Ok(error::unchanged(&tag));
    }
    Ok(error::tagged(error::ok(&to_wire::type_settings(&name, &stored.config)), &tag))
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Answer {
    let name = TypeName::new(&name).map_err(ApiError::bad)?;
    let wanted = Wanted::of(request.headers())?;
    let given: SetType = body::json(request).await?;
    let limits = given.limits.as_deref().map(Limit::checked).transpose().map_err(ApiError::bad)?;
    let make = |before| Some(changed(before, &given, limits.clone()));
    let Changed { rev, config, new } = change(&app, &wanted, &name, make).await?;
    let config = config.ok_or_else(|| ApiError::internal("the answer has no type configuration"))?;
    let stored = Stored { rev, config };
    app.acted(&who, "type_set", &name, &audit::change(&given)).await;
    let address = format!("{}/types/{name}", jobhall_protocol::API);
    let response = error::made(new, &address, &to_wire::type_settings(&name, &stored.config));
    Ok(error::tagged(response, &stored.tag()?))
}

/// Resets a type to its defaults; it is unknown until a job of the type is submitted.
pub(super) async fn reset(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let name = TypeName::new(&name).map_err(ApiError::bad)?;
    let wanted = Wanted::of(&headers)?;
    if Stored::find(&app, &name).await?.is_none() {
        return Err(unknown(&name));
    }
    change(&app, &wanted, &name, |_| None).await?;
    app.acted(&who, "type_reset", &name, "").await;
    Ok(error::nothing())
}

fn unknown(name: &TypeName) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no type {name}"))
}

fn changed(before: TypeConfig, given: &SetType, limits: Option<Vec<CoreLimit>>) -> TypeConfig {
    TypeConfig {
        retry: given.retry.as_ref().map_or(before.retry, |retry| retry.over(before.retry)),
        keep_ms: given.keep_ms.unwrap_or(before.keep_ms),
        keep_count: given.keep_count.unwrap_or(before.keep_count),
        reuse_window_ms: given.reuse_window_ms.unwrap_or(before.reuse_window_ms),
        paused: given.paused.unwrap_or(before.paused),
        limits: limits.unwrap_or(before.limits),
        timeouts: given.timeouts.map_or(before.timeouts, |set| set.over(before.timeouts.into()).into()),
        expected_ms: given.expected_ms.unwrap_or(before.expected_ms),
        external: given.external.unwrap_or(before.external),
    }
}

/// Settings after a change.
struct Changed {
    rev: u32,
    config: Option<TypeConfig>,
    /// Whether the type was unknown before.
    new: bool,
}

/// Changes the settings, guarded by their rev. Without `If-Match` a conflicting change is retried on the new version.
async fn change(
    app: &App,
    wanted: &Wanted,
    name: &TypeName,
    make: impl Fn(TypeConfig) -> Option<TypeConfig>,
) -> Result<Changed, ApiError> {
    for _ in 0..ROUNDS {
        let before = Stored::find(app, name).await?;
        let tag = before.as_ref().map(Stored::tag).transpose()?;
        if !wanted.allows(tag.as_deref()) {
            let detail = match &tag {
                Some(tag) => format!("type {name} has version {tag}"),
                None => format!("there is no type {name}"),
            };
            return Err(ApiError::new(Code::PreconditionFailed, detail));
        }
        let Stored { rev, config } =
            before.unwrap_or_else(|| Stored { rev: 0, config: TypeConfig::of(name) });
        let config = make(config);
        match app.engine.set_type(name.clone(), config.clone(), Some(rev)).await {
            Ok(rev) => return Ok(Changed { rev, config, new: tag.is_none() }),
            Err(Rejected::Changed { .. }) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Err(Rejected::Contended.into())
}
