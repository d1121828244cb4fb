//! What is configured for types of jobs.
//!
//! A version of a configuration is named by an entity tag. Who sends it back as `If-Match` changes that version or
//! nothing; who does not, changes whatever is there, field by field.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, Request};
use jobhall_core::{TypeConfig, TypeName};
use jobhall_engine::Refused;
use jobhall_protocol::{Code, Page, SetType};

use crate::app::App;
use crate::error::{self, Answer, Trouble};
use crate::tokens::Identity;
use crate::{body, tell};

/// Changes without `If-Match` that met another one are made anew this often.
const ROUNDS: usize = 20;

/// The types that someone submitted or configured.
#[derive(Default)]
pub(super) struct Types(BTreeMap<TypeName, Stored>);

/// A configuration and its version.
#[derive(Clone)]
struct Stored {
    rev: u32,
    config: TypeConfig,
}

impl Types {
    pub(super) async fn read(app: &App) -> Result<Types, Trouble> {
        let types = app.engine.types().await?.into_iter();
        Ok(Types(types.map(|(name, rev, config)| (name, Stored { rev, config })).collect()))
    }

    /// What a type has, configured or not.
    pub(super) fn config(&self, name: &TypeName) -> TypeConfig {
        self.0.get(name).map_or_else(|| TypeConfig::of(name), |stored| stored.config.clone())
    }
}

impl Stored {
    /// The content is part of it, because a configuration that was removed begins with its first rev again.
    fn tag(&self) -> String {
        let content = serde_json::to_vec(&self.config).unwrap_or_default();
        let digest = blake3::hash(&content);
        format!("\"{}-{}\"", self.rev, &digest.to_hex()[..8])
    }
}

pub(super) async fn types(State(app): State<Arc<App>>) -> Answer {
    let types = Types::read(&app).await?;
    let items = types.0.iter().map(|(name, stored)| tell::type_settings(name, &stored.config)).collect();
    Ok(error::ok(&Page { items, next_cursor: None }))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let name = TypeName::new(&name).map_err(Trouble::bad)?;
    let types = Types::read(&app).await?;
    let stored = types.0.get(&name).ok_or_else(|| unknown(&name))?;
    if tags(&headers, &IF_NONE_MATCH)?.is_some_and(|tags| tags.include(Some(stored))) {
        return Ok(error::unchanged(&stored.tag()));
    }
    Ok(error::tagged(error::ok(&tell::type_settings(&name, &stored.config)), &stored.tag()))
}

pub(super) async fn set(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    request: Request<Body>,
) -> Answer {
    let name = TypeName::new(&name).map_err(Trouble::bad)?;
    let wanted = Wanted::of(request.headers())?;
    let given: SetType = body::json(request).await?;
    let (rev, config) = wanted.change(&app, &name, |before| Some(changed(before, &given))).await?;
    let config = config.ok_or_else(|| Trouble::internal("a type without its configuration"))?;
    let stored = Stored { rev, config };
    app.acted(&who, "type_set", &name, "").await;
    let address = format!("{}/types/{name}", jobhall_protocol::API);
    let response = error::made(rev == 1, &address, &tell::type_settings(&name, &stored.config));
    Ok(error::tagged(response, &stored.tag()))
}

/// The type has the defaults again, and is unknown until someone submits a job of it.
pub(super) async fn reset(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let name = TypeName::new(&name).map_err(Trouble::bad)?;
    let wanted = Wanted::of(&headers)?;
    if !Types::read(&app).await?.0.contains_key(&name) {
        return Err(unknown(&name));
    }
    wanted.change(&app, &name, |_| None).await?;
    app.acted(&who, "type_reset", &name, "").await;
    Ok(error::nothing())
}

fn unknown(name: &TypeName) -> Trouble {
    Trouble::new(Code::NotFound, format!("there is no type {name}"))
}

fn changed(before: TypeConfig, given: &SetType) -> TypeConfig {
    TypeConfig {
        retry: given.retry.as_ref().map_or(before.retry, |retry| retry.over(before.retry)),
        keep_ms: given.keep_ms.unwrap_or(before.keep_ms),
        keep_count: given.keep_count.unwrap_or(before.keep_count),
        reuse_window_ms: given.reuse_window_ms.unwrap_or(before.reuse_window_ms),
        timeouts: given.timeouts.map_or(before.timeouts, |set| set.over(before.timeouts.into()).into()),
        expected_ms: given.expected_ms.unwrap_or(before.expected_ms),
        external: given.external.unwrap_or(before.external),
        ..before
    }
}

/// Which version a change is meant for.
struct Wanted {
    matching: Option<Tags>,
    none_matching: Option<Tags>,
}

impl Wanted {
    fn of(headers: &HeaderMap) -> Result<Wanted, Trouble> {
        Ok(Wanted { matching: tags(headers, &IF_MATCH)?, none_matching: tags(headers, &IF_NONE_MATCH)? })
    }

    fn allows(&self, stored: Option<&Stored>) -> bool {
        self.matching.as_ref().is_none_or(|tags| tags.include(stored))
            && !self.none_matching.as_ref().is_some_and(|tags| tags.include(stored))
    }

    /// Changes what is there, guarded by its rev. Without a wish for a version it is tried again on what others made.
    async fn change(
        &self,
        app: &App,
        name: &TypeName,
        make: impl Fn(TypeConfig) -> Option<TypeConfig>,
    ) -> Result<(u32, Option<TypeConfig>), Trouble> {
        for _ in 0..ROUNDS {
            let types = Types::read(app).await?;
            let stored = types.0.get(name);
            if !self.allows(stored) {
                return Err(Trouble::new(
                    Code::PreconditionFailed,
                    match stored {
                        Some(stored) => format!("type {name} is there, as version {}", stored.tag()),
                        None => format!("there is no type {name}"),
                    },
                ));
            }
            let config = make(types.config(name));
            let rev = stored.map_or(0, |stored| stored.rev);
            match app.engine.set_type(name.clone(), config.clone(), Some(rev)).await {
                Ok(rev) => return Ok((rev, config)),
                Err(Refused::Changed { .. }) => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        Err(Refused::Contended.into())
    }
}

/// The entity tags of a header.
pub(super) enum Tags {
    Any,
    These(Vec<String>),
}

impl Tags {
    fn include(&self, stored: Option<&Stored>) -> bool {
        self.name(stored.map(Stored::tag).as_deref())
    }

    /// Whether they name what has this tag; nothing has none.
    pub(super) fn name(&self, tag: Option<&str>) -> bool {
        match (self, tag) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::These(tags), Some(tag)) => tags.iter().any(|known| known == tag),
        }
    }
}

/// Tags read `"…"` and are separated by commas; a star stands for any.
pub(super) fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Trouble> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let wrong =
        || Trouble::bad(format!("{name} is neither * nor a list of entity tags such as \"2-0a1b2c3d\""));
    let text = value.to_str().map_err(|_| wrong())?.trim();
    if text == "*" {
        return Ok(Some(Tags::Any));
    }
    let tag = |tag: &str| {
        let tag = tag.trim();
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        (tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')).then(|| tag.to_owned())
    };
    let tags = text.split(',').map(tag).collect::<Option<_>>().ok_or_else(wrong)?;
    Ok(Some(Tags::These(tags)))
}
