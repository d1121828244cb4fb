//! Recipes: keys of sources with the queries that make their values.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Request, Uri};
use futures_util::future::try_join_all;
use jobhall_core::query::{Query, QueryErrorKind, Source as QuerySource, SourceKey, Span, TEXT_BYTES_MAX};
use jobhall_core::{JobId, Owner};
use jobhall_protocol::{
    Code, MadeRecipe, MakeRecipes, Page, PutRecipe, RECIPES_MADE_MAX, Recipe, RecipeState, Timestamp, schema,
};
use jobhall_queries::{Answered, Asked, RecipeState as Made, RecipeStatus, Request as Ask, StoredRecipe};
use schemars::JsonSchema;
use serde::Deserialize;

use super::queries::{check_scope, may_compute, refused, wrong};
use super::sources;
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::{body, params};
use crate::server::app::App;

/// Default and maximum page size: the state of each is read.
const PAGE: usize = 100;
/// The priority of the jobs of recipes: all others go first.
const PRIORITY: i32 = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecipesQuery {
    /// Only keys that begin with this text.
    #[schemars(with = "Option<schema::SourcePrefix>")]
    prefix: Option<String>,
    /// Page size.
    #[schemars(range(min = 1, max = PAGE))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(with = "Option<schema::SourceCursor>")]
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    check_scope(&who)?;
    let asked: RecipesQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, PAGE, PAGE)?;
    let prefix = asked.prefix.unwrap_or_default();
    sources::check_prefix(&prefix)?;
    let after = asked.cursor.as_deref().map(sources::from_cursor).transpose()?;
    let found = app.queries.recipes(&prefix, after.as_deref(), limit + 1).await;
    let mut found = found.map_err(|error| refused(error, ""))?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|last| sources::to_cursor(last.key.as_str()));
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    let compute = may_compute(&who, &headers);
    // A check that nobody runs is waited for, so they are run at once.
    let items = try_join_all(found.iter().map(|recipe| shown(&app, recipe, compute))).await?;
    Ok(error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

/// A recipe with its state. Its checks are run if this request may compute.
async fn shown(app: &App, recipe: &StoredRecipe, compute: bool) -> Result<Recipe, ApiError> {
    let status = app.queries.recipe_status(recipe, compute).await.map_err(|error| refused(error, ""))?;
    Ok(to_wire(&status))
}

fn to_wire(status: &RecipeStatus) -> Recipe {
    Recipe {
        key: status.recipe.key.to_string(),
        query: status.recipe.query.text(),
        title: status.recipe.title.clone(),
        description: status.recipe.description.clone(),
        state: state(status.state),
        why: status.why.clone(),
        has_data: status.has_data,
        job: status.job.map(JobId::get),
        media_type: status.value.as_ref().map(|value| value.media_type.clone()),
        size: status.value.as_ref().map(|value| value.size),
        made_at: status.made_at.map(Timestamp),
        expires_at: status.expires_at.map(Timestamp),
    }
}

fn state(state: Made) -> RecipeState {
    match state {
        Made::Ready => RecipeState::Ready,
        Made::Stale => RecipeState::Stale,
        Made::Making => RecipeState::Making,
        Made::Failed => RecipeState::Failed,
        Made::Recipe => RecipeState::Recipe,
    }
}

async fn known(app: &App, text: &str) -> Result<StoredRecipe, ApiError> {
    let key = sources::key(text)?;
    let recipe = app.queries.recipe(&key).await.map_err(|error| refused(error, ""))?;
    recipe.ok_or_else(|| ApiError::new(Code::NotFound, format!("there is no recipe {:?}", key.as_str())))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(text): Path<String>,
    headers: HeaderMap,
) -> Answer {
    check_scope(&who)?;
    let recipe = known(&app, &text).await?;
    Ok(error::ok(&shown(&app, &recipe, may_compute(&who, &headers)).await?))
}

pub(super) async fn put(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(text): Path<String>,
    request: Request<Body>,
) -> Answer {
    check_scope(&who)?;
    app.takes_work()?;
    let key = sources::key(&text)?;
    let PutRecipe { query: text, title, description } = body::json(request).await?;
    let query = Query::parse(&text, TEXT_BYTES_MAX).map_err(|error| match error.kind {
        QueryErrorKind::TooLong { .. } => ApiError::new(Code::TooLarge, error.kind.to_string()),
        _ => wrong(&error, &text),
    })?;
    let recipe = StoredRecipe { key, query: Arc::new(query), title, description, made: None };
    let before = app.queries.put_recipe(recipe.clone()).await.map_err(|error| refused(error, ""))?;
    let changed = before.as_ref().is_none_or(|before| {
        (&before.query, &before.title, &before.description)
            != (&recipe.query, &recipe.title, &recipe.description)
    });
    if changed {
        app.acted(&who, "recipe_put", &recipe.key, &recipe.query.text()).await;
    }
    let shown = shown(&app, &known(&app, recipe.key.as_str()).await?, false).await?;
    Ok(error::made(before.is_none(), &sources::address_in("recipes", &recipe.key), &shown))
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(text): Path<String>,
) -> Answer {
    check_scope(&who)?;
    let key = known(&app, &text).await?.key;
    app.queries.remove_recipe(&key).await.map_err(|error| refused(error, ""))?;
    app.acted(&who, "recipe_removed", &key, "").await;
    Ok(error::nothing())
}

pub(super) async fn make(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    check_scope(&who)?;
    let MakeRecipes { keys, dry_run } = body::json(request).await?;
    if keys.len() > RECIPES_MADE_MAX {
        let detail = format!("keys: has {} entries, the limit is {RECIPES_MADE_MAX}", keys.len());
        return Err(ApiError::bad(detail));
    }
    if !dry_run {
        app.takes_work()?;
    }
    // Nothing is made if one of them is not known.
    let mut recipes = Vec::with_capacity(keys.len());
    for key in &keys {
        recipes.push(known(&app, key).await?);
    }
    let statuses = try_join_all(recipes.iter().map(|recipe| app.queries.recipe_status(recipe, true)));
    let statuses = statuses.await.map_err(|error| refused(error, ""))?;
    let mut items = Vec::with_capacity(recipes.len());
    for status in &statuses {
        items.push(match dry_run {
            _ if status.state == Made::Ready || status.is_blocked => of_status(status, 0),
            true => would_make(&app, status).await?,
            false => make_one(&app, &who, status).await?,
        });
    }
    Ok(error::ok(&Page { items, next_cursor: None }))
}

/// The query that stands for a key.
fn of_key(key: &SourceKey) -> Query {
    let source = QuerySource { key: key.clone(), span: Span::default() };
    Query { source: Some(source), ..Query::default() }
}

async fn would_make(app: &App, status: &RecipeStatus) -> Result<MadeRecipe, ApiError> {
    let steps = app.queries.explain(&of_key(&status.recipe.key), false).await;
    let steps = steps.map_err(|error| refused(error, ""))?;
    Ok(of_status(status, steps.iter().filter(|step| step.answered == Answered::Missing).count()))
}

fn of_status(status: &RecipeStatus, runs: usize) -> MadeRecipe {
    MadeRecipe {
        key: status.recipe.key.to_string(),
        state: state(status.state),
        why: status.why.clone(),
        promise: status.job.map(JobId::get),
        runs,
    }
}

async fn make_one(app: &App, who: &Identity, status: &RecipeStatus) -> Result<MadeRecipe, ApiError> {
    let (owner, query) = (Owner::new(&who.name).ok(), of_key(&status.recipe.key));
    let asked = app
        .queries
        .ask(Ask { query, compute: true, stale: false, priority: PRIORITY, owner, within: None })
        .await;
    let (state, promise, runs) = match asked.map_err(|error| refused(error, ""))? {
        Asked::Hit(ended) => (RecipeState::Ready, Some(ended.job.id.get()), 0),
        Asked::Source(_) => (RecipeState::Ready, None, 0),
        Asked::Promise(found) => (RecipeState::Making, Some(found.job.get()), found.created),
        Asked::NotComputed(_) => return Err(ApiError::internal("a recipe may be computed")),
    };
    Ok(MadeRecipe { state, promise, ..of_status(status, runs) })
}
