//! Settings of queues: pause state, limits and the rule for completed jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Request};
use jobhall_core::{QueueConfig, QueueName};
use jobhall_engine::Rejected;
use jobhall_protocol::{Code, Limit, QueueSettings, SetQueue};

use super::versions::{self, ROUNDS, Wanted};
use crate::auth::audit;
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::request::body;
use crate::server::app::App;

/// The configured queues with their versions.
pub(super) struct Configs(BTreeMap<QueueName, (u32, QueueConfig)>);

impl Configs {
    pub(super) async fn read(app: &App) -> Result<Configs, ApiError> {
        let configs = app.engine.queue_configs().await?.into_iter();
        Ok(Configs(configs.map(|(name, rev, config)| (name, (rev, config))).collect()))
    }

    /// The settings of a queue; the defaults if it is not configured.
    pub(super) fn config(&self, name: &QueueName) -> QueueConfig {
        self.0.get(name).map(|(_, config)| config.clone()).unwrap_or_default()
    }

    /// The entity tag of its settings; none if it is not configured.
    pub(super) fn tag(&self, name: &QueueName) -> Result<Option<String>, ApiError> {
        self.0.get(name).map(|(rev, config)| versions::tag(*rev, config)).transpose()
    }
}

/// The wire form of limits.
pub(super) fn limits(config: &QueueConfig) -> Vec<Limit> {
    config.limits.iter().map(Limit::from).collect()
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Answer {
    let name = reached(&who, &name)?;
    let wanted = Wanted::of(request.headers())?;
    let given: SetQueue = body::json(request).await?;
    let limits = given.limits.as_deref().map(Limit::checked).transpose().map_err(ApiError::bad)?;
    let make = |before: QueueConfig| {
        Some(QueueConfig {
            paused: given.paused.unwrap_or(before.paused),
            limits: limits.clone().unwrap_or(before.limits),
            keep_ms: given.keep_ms.unwrap_or(before.keep_ms),
            keep_count: given.keep_count.unwrap_or(before.keep_count),
        })
    };
    let (rev, config) = change(&app, &wanted, &name, make).await?;
    let config = config.ok_or_else(|| ApiError::internal("the answer has no queue configuration"))?;
    let what = match given.paused {
        Some(true) => "queue_paused",
        Some(false) => "queue_resumed",
        None => "queue_set",
    };
    app.acted(&who, what, &name, &audit::change(&given)).await;
    let told = QueueSettings {
        name: name.to_string(),
        paused: config.paused,
        limits: self::limits(&config),
        keep_ms: config.keep_ms,
        keep_count: config.keep_count,
    };
    let address = format!("{}/queues/{name}", jobhall_protocol::API);
    Ok(error::tagged(error::made(rev == 1, &address, &told), &versions::tag(rev, &config)?))
}

/// Resets a queue to the default settings.
pub(super) async fn reset(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let name = reached(&who, &name)?;
    let wanted = Wanted::of(&headers)?;
    if Configs::read(&app).await?.tag(&name)?.is_none() {
        return Err(ApiError::new(Code::NotFound, format!("queue {name} has no settings")));
    }
    change(&app, &wanted, &name, |_| None).await?;
    app.acted(&who, "queue_reset", &name, "").await;
    Ok(error::nothing())
}

fn reached(who: &Identity, name: &str) -> Result<QueueName, ApiError> {
    let name = QueueName::new(name).map_err(ApiError::bad)?;
    if who.scope.reaches(name.as_str()) {
        return Ok(name);
    }
    let detail = format!("queue {name} is outside the scope of this token: {}", who.scope);
    Err(ApiError::new(Code::Forbidden, detail))
}

/// Changes the settings, guarded by their rev. Without `If-Match` a conflicting change is retried on the new version.
async fn change(
    app: &App,
    wanted: &Wanted,
    name: &QueueName,
    make: impl Fn(QueueConfig) -> Option<QueueConfig>,
) -> Result<(u32, Option<QueueConfig>), ApiError> {
    for _ in 0..ROUNDS {
        let configs = Configs::read(app).await?;
        let tag = configs.tag(name)?;
        if !wanted.allows(tag.as_deref()) {
            let detail = match tag {
                Some(tag) => format!("queue {name} has version {tag}"),
                None => format!("queue {name} has no settings"),
            };
            return Err(ApiError::new(Code::PreconditionFailed, detail));
        }
        let config = make(configs.config(name));
        let rev = configs.0.get(name).map_or(0, |(rev, _)| *rev);
        match app.engine.set_queue(name.clone(), config.clone(), Some(rev)).await {
            Ok(rev) => return Ok((rev, config)),
            Err(Rejected::QueueChanged { .. }) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Err(Rejected::Contended.into())
}
