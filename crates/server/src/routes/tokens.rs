//! Tokens: administrators create, list and revoke them; workers exchange join tokens.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::Request;
use jobhall_protocol::{CreateToken, Join, Page};

use crate::auth::tokens::Identity;
use crate::error::{self, Answer};
use crate::request::body;
use crate::server::app::App;

pub(super) async fn list(State(app): State<Arc<App>>) -> Answer {
    Ok(error::ok(&Page { items: app.tokens.list(), next_cursor: None }))
}

/// Only this response contains the secret.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    let wanted: CreateToken = body::json(request).await?;
    let made = app.tokens.create(&who, &wanted).await?;
    Ok(error::made(true, &format!("{}/tokens/{}", jobhall_protocol::API, made.token.id), &made))
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    app.tokens.remove(&who, &id).await?;
    Ok(error::nothing())
}

pub(super) async fn join(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    let join: Join = body::json(request).await?;
    Ok(error::ok(&app.tokens.join(&who, &join.name).await?))
}
