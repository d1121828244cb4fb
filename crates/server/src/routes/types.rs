//! What is configured for types of jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use jobhall_core::{TypeConfig, TypeName};
use jobhall_protocol::{Page, SetType};
use jobhall_store::SettingKind;

use crate::app::App;
use crate::error::{self, Answer, Trouble};
use crate::tokens::Identity;
use crate::{body, tell};

/// The types that someone submitted or configured, as they are stored.
#[derive(Default)]
pub(super) struct Types(BTreeMap<TypeName, TypeConfig>);

impl Types {
    pub(super) async fn read(app: &App) -> Result<Types, Trouble> {
        let settings = app.store.settings().await?;
        let types = settings.into_iter().filter(|setting| setting.kind == SettingKind::Type);
        let read = types.map(|setting| {
            let name = TypeName::new(&setting.name).map_err(Trouble::internal)?;
            Ok((name, serde_json::from_str(&setting.value).map_err(Trouble::internal)?))
        });
        read.collect::<Result<_, Trouble>>().map(Types)
    }

    /// What a type has, configured or not.
    pub(super) fn config(&self, name: &TypeName) -> TypeConfig {
        self.0.get(name).copied().unwrap_or_else(|| TypeConfig::of(name))
    }
}

pub(super) async fn types(State(app): State<Arc<App>>) -> Answer {
    let types = Types::read(&app).await?;
    let items = types.0.iter().map(|(name, config)| tell::type_settings(name, config)).collect();
    Ok(error::ok(&Page { items, next_cursor: None }))
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Answer {
    let name = TypeName::new(&name).map_err(Trouble::bad)?;
    let given: SetType = body::json(request).await?;
    let before = Types::read(&app).await?.config(&name);
    let config = TypeConfig {
        retry: given.retry.map_or(before.retry, |retry| retry.over(before.retry)),
        keep_ms: given.keep_ms.or(before.keep_ms),
        keep_count: given.keep_count.or(before.keep_count),
        reuse_window_ms: given.reuse_window_ms.unwrap_or(before.reuse_window_ms),
    };
    app.engine.set_type(name.clone(), config).await?;
    app.acted(&who, "type_set", &name, "").await;
    Ok(error::ok(&tell::type_settings(&name, &config)))
}
