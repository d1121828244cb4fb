//! Settings of job types. A change replaces single fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Request};
use jobhall_core::limits::Limit as CoreLimit;
use jobhall_core::{TypeConfig, TypeName};
use jobhall_engine::Rejected;
use jobhall_protocol::{Code, Limit, Page, SetType};

use super::versions::{self, ROUNDS, Wanted};
use crate::app::App;
use crate::error::{self, Answer, ApiError};
use crate::tokens::Identity;
use crate::{body, to_wire};

/// The types of submitted jobs and the configured types.
#[derive(Default)]
pub(super) struct Types(BTreeMap<TypeName, Stored>);

/// Settings and their version.
#[derive(Clone)]
struct Stored {
    rev: u32,
    config: TypeConfig,
}

impl Types {
    pub(super) async fn read(app: &App) -> Result<Types, ApiError> {
        let types = app.engine.types().await?.into_iter();
        Ok(Types(types.map(|(name, rev, config)| (name, Stored { rev, config })).collect()))
    }

    /// The settings of a type; the defaults if it is not configured.
    pub(super) fn config(&self, name: &TypeName) -> TypeConfig {
        self.0.get(name).map_or_else(|| TypeConfig::of(name), |stored| stored.config.clone())
    }
}

impl Stored {
    fn tag(&self) -> Result<String, ApiError> {
        versions::tag(self.rev, &self.config)
    }
}

pub(super) async fn types(State(app): State<Arc<App>>) -> Answer {
    let types = Types::read(&app).await?;
    let items = types.0.iter().map(|(name, stored)| to_wire::type_settings(name, &stored.config)).collect();
    Ok(error::ok(&Page { items, next_cursor: None }))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let name = TypeName::new(&name).map_err(ApiError::bad)?;
    let types = Types::read(&app).await?;
    let stored = types.0.get(&name).ok_or_else(|| unknown(&name))?;
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
    let (rev, config) = change(&app, &wanted, &name, make).await?;
    let config = config.ok_or_else(|| ApiError::internal("the answer has no type configuration"))?;
    let stored = Stored { rev, config };
    app.acted(&who, "type_set", &name, "").await;
    let address = format!("{}/types/{name}", jobhall_protocol::API);
    let response = error::made(rev == 1, &address, &to_wire::type_settings(&name, &stored.config));
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
    if !Types::read(&app).await?.0.contains_key(&name) {
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

/// Changes the settings, guarded by their rev. Without `If-Match` a conflicting change is retried on the new version.
async fn change(
    app: &App,
    wanted: &Wanted,
    name: &TypeName,
    make: impl Fn(TypeConfig) -> Option<TypeConfig>,
) -> Result<(u32, Option<TypeConfig>), ApiError> {
    for _ in 0..ROUNDS {
        let types = Types::read(app).await?;
        let tag = types.0.get(name).map(Stored::tag).transpose()?;
        if !wanted.allows(tag.as_deref()) {
            let detail = match tag {
                Some(tag) => format!("type {name} has version {tag}"),
                None => format!("there is no type {name}"),
            };
            return Err(ApiError::new(Code::PreconditionFailed, detail));
        }
        let config = make(types.config(name));
        let rev = types.0.get(name).map_or(0, |stored| stored.rev);
        match app.engine.set_type(name.clone(), config.clone(), Some(rev)).await {
            Ok(rev) => return Ok((rev, config)),
            Err(Rejected::Changed { .. }) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Err(Rejected::Contended.into())
}
