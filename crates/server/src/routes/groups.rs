//! Groups: create, show, close, cancel, retry. Groups contain jobs of all queues, so a token that is limited to some
//! queues has no access to them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Request, Uri};
use jobhall_core::{GroupId, Key, Owner, Tag};
use jobhall_engine::{GroupCreated, NewGroup, Submit};
use jobhall_protocol::{Cancel, CancelGroup, CreateGroup, Page, schema};
use jobhall_store::GroupFilter;
use schemars::JsonSchema;
use serde::Deserialize;

use super::jobs::why;
use super::submit::{IDEMPOTENCY_KEY, idempotency_key, key_without_body};
use crate::auth::audit;
use crate::auth::tokens::Identity;
use crate::decode;
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::response::to_wire;
use crate::server::app::App;

/// Default page size.
const LIMIT: usize = 50;
const LIMIT_MOST: usize = 500;

fn address(id: GroupId) -> String {
    format!("{}/groups/{id}", jobhall_protocol::API)
}

pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    app.takes_work()?;
    let key = request.headers().get(IDEMPOTENCY_KEY).cloned();
    let bytes = body::bytes(request).await?;
    let name = key.map(|key| idempotency_key(&who, key.as_bytes(), &bytes)).transpose()?;
    let asked: CreateGroup = body::parse(&bytes)?;
    let group = new_group(&asked)?;
    let jobs = decode::submit::jobs(&app, &who, &asked.jobs).await?;
    let made = app.engine.create_group(group, Submit { jobs, name, ..Submit::default() }).await?;
    let GroupCreated { id, jobs, repeated } = made;
    if !repeated {
        app.acted(&who, "group_created", id, &created(&asked)).await;
    }
    let shown = app.engine.group(id).await?;
    Ok(error::made(true, &address(id), &to_wire::group(&shown, &jobs)?))
}

/// What a new group is, for the audit log. Its jobs are only counted: each is a row with its owner.
fn created(asked: &CreateGroup) -> String {
    let CreateGroup { name, owner, tags, closed, jobs } = asked;
    audit::change(&serde_json::json!({
        "name": name, "owner": owner, "tags": tags, "closed": closed, "jobs": jobs.len()
    }))
}

fn new_group(asked: &CreateGroup) -> Result<NewGroup, ApiError> {
    let name = asked.name.as_deref().map(Key::new).transpose();
    Ok(NewGroup {
        name: name.map_err(|error| ApiError::bad(format!("name: {error}")))?,
        owner: asked.owner.as_deref().map(Owner::new).transpose().map_err(ApiError::bad)?,
        tags: asked.tags.iter().map(|tag| Tag::new(tag)).collect::<Result<_, _>>().map_err(ApiError::bad)?,
        closed: asked.closed,
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupsQuery {
    /// Page size, at most 500; default 50.
    #[schemars(range(min = 1, max = LIMIT_MOST))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::IdCursor<'g'>>")]
    cursor: Option<String>,
    /// Only groups with this tag.
    #[schemars(with = "Option<schema::Tag>")]
    tag: Option<String>,
    /// Only groups of this owner.
    #[schemars(with = "Option<schema::Owner>")]
    owner: Option<String>,
}

pub(super) async fn list(State(app): State<Arc<App>>, uri: Uri) -> Answer {
    let asked: GroupsQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, LIMIT, LIMIT_MOST)?;
    let before = asked.cursor.as_deref().map(from_cursor).transpose()?;
    let filter = GroupFilter {
        open: false,
        tag: asked.tag.as_deref().map(Tag::new).transpose().map_err(ApiError::bad)?,
        owner: asked.owner.as_deref().map(Owner::new).transpose().map_err(ApiError::bad)?,
    };
    let (groups, next) = app.engine.group_page(filter, before, limit).await?;
    let items = groups.iter().map(|shown| to_wire::group(shown, &[])).collect::<Result<Vec<_>, _>>()?;
    let next_cursor = next.map(|id| format!("g{:x}", id.get()));
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    Ok(error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

fn from_cursor(text: &str) -> Result<GroupId, ApiError> {
    GroupId::new(params::cursor('g', text)?).map_err(ApiError::bad)
}

pub(super) async fn show(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer {
    let shown = app.engine.group(params::group_id(&id)?).await?;
    Ok(error::ok(&to_wire::group(&shown, &[])?))
}

pub(super) async fn close(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    let id = params::group_id(&id)?;
    let shown = app.engine.close_group(id).await?;
    app.acted(&who, "group_closed", id, "").await;
    Ok(error::ok(&to_wire::group(&shown, &[])?))
}

pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    request: Request<Body>,
) -> Answer {
    let id = params::group_id(&id)?;
    let CancelGroup { error, fails } = body::json_or_default(request).await?;
    let failure = why(&Cancel { error })?;
    let reason = failure.reason.clone();
    let shown = app.engine.cancel_group(id, failure, fails).await?;
    let act = if fails { "group_failed" } else { "group_cancelled" };
    app.acted(&who, act, id, &reason).await;
    Ok(error::ok(&to_wire::group(&shown, &[])?))
}

pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    app.takes_work()?;
    let id = params::group_id(&id)?;
    let name = key_without_body(&who, &headers, &format!("retry of group {id}"))?;
    let GroupCreated { id: made, repeated, .. } = app.engine.retry_group(id, name).await?;
    if !repeated {
        app.acted(&who, "group_retried", id, &format!("as group {made}")).await;
    }
    let shown = app.engine.group(made).await?;
    Ok(error::made(true, &address(made), &to_wire::group(&shown, &[])?))
}
