//! Submits jobs: one object, or an array that is accepted as a whole or refused as a whole.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Request};
use jobhall_core::Disposition;
use jobhall_engine::{IdempotencyKey, Submit};
use jobhall_protocol as wire;

use super::history;
use super::jobs::address;
use crate::auth::tokens::Identity;
use crate::decode;
use crate::error::{self, Answer, ApiError};
use crate::request::body;
use crate::response::to_wire;
use crate::server::app::App;

pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

pub(super) async fn submit(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    request: Request<Body>,
) -> Answer {
    app.takes_work()?;
    let key = request.headers().get(IDEMPOTENCY_KEY).cloned();
    let bytes = body::bytes(request).await?;
    let name = key.map(|key| idempotency_key(&who, key.as_bytes(), &bytes)).transpose()?;
    if body::is_array(&bytes) {
        many(&app, &who, body::parse_many(&bytes)?, name).await
    } else {
        one(&app, &who, body::parse(&bytes)?, name).await
    }
}

async fn one(app: &App, who: &Identity, job: wire::SubmitJob, name: Option<IdempotencyKey>) -> Answer {
    let jobs = vec![decode::submit::job(app, who, &job).await?];
    let (made, shown) = app.engine.submit_shown(Submit { jobs, name, ..Submit::default() }).await?;
    let new = made.disposition == Disposition::Created;
    let wire::Submitted { disposition, params_differ, .. } = to_wire::submitted(&made);
    let job = history::job(app, &shown).await?;
    let job = wire::Job { disposition: Some(disposition), params_differ, ..job };
    Ok(error::made(new, &address(made.id), &job))
}

async fn many(app: &App, who: &Identity, jobs: Vec<wire::SubmitJob>, name: Option<IdempotencyKey>) -> Answer {
    let jobs = decode::submit::jobs(app, who, &jobs).await?;
    let submitted = app.engine.submit(Submit { jobs, name, ..Submit::default() }).await?;
    Ok(error::ok(&submitted.iter().map(to_wire::submitted).collect::<Vec<_>>()))
}

/// The idempotency key of a request without a body, which these words stand for.
pub(super) fn key_without_body(
    who: &Identity,
    headers: &HeaderMap,
    words: &str,
) -> Result<Option<IdempotencyKey>, ApiError> {
    let key = headers.get(IDEMPOTENCY_KEY);
    key.map(|key| idempotency_key(who, key.as_bytes(), words.as_bytes())).transpose()
}

/// The idempotency key applies to exactly this body.
pub(super) fn idempotency_key(who: &Identity, key: &[u8], body: &[u8]) -> Result<IdempotencyKey, ApiError> {
    let wrong = || ApiError::bad(format!("{IDEMPOTENCY_KEY} must be printable text"));
    let printable = |key: &&str| !key.is_empty() && !key.contains(char::is_control);
    let key = std::str::from_utf8(key).ok().filter(printable).ok_or_else(wrong)?;
    Ok(decode::submit::named(&who.name, key, body))
}
