//! A query whose value is in memory: answered without the engine, the store, the blocking pool and a line in the log.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{Request, Uri};
use axum::response::Response;
use jobhall_core::query::{Query, URL_BYTES_MAX};
use jobhall_protocol::{CACHE_HEADER, CACHE_HIT, Code};
use jobhall_queries::Warm;

use super::queries;
use crate::auth::tokens::Identity;
use crate::error::{self, Answer, ApiError};
use crate::server::app::{App, now};

const CACHE: HeaderName = HeaderName::from_static(CACHE_HEADER);

/// Answers a query: from memory, or as [`queries::evaluate`] does.
pub(super) async fn evaluate(State(app): State<Arc<App>>, request: Request<Body>) -> Answer {
    let began = Instant::now();
    if let Some(response) = warm(&app, &request)? {
        app.metrics.queries.answered(CACHE_HIT, began.elapsed());
        return Ok(response);
    }
    let (parts, _) = request.into_parts();
    let who = parts.extensions.get::<Identity>().cloned();
    let who = who.ok_or_else(|| ApiError::internal("a request without an identity was admitted"))?;
    let answer =
        queries::evaluate(State(app.clone()), Extension(who), parts.method, parts.uri, parts.headers).await;
    if let Some(result) = result(&answer) {
        app.metrics.queries.answered(result, began.elapsed());
    }
    answer
}

/// How a request was answered; none if it has neither a value nor the failure of a step.
fn result(answer: &Answer) -> Option<&str> {
    match answer {
        Ok(response) => response.headers().get(CACHE)?.to_str().ok(),
        Err(error) => {
            let failed = [Code::StepFailed, Code::StepCrashed, Code::StepCancelled];
            failed.contains(&error.words().0).then_some("failed")
        }
    }
}

fn warm(app: &App, request: &Request<Body>) -> Result<Option<Response>, ApiError> {
    let uri = request.uri();
    if !is_plain(uri) {
        return Ok(None);
    }
    if let Some(who) = request.extensions().get::<Identity>() {
        queries::check_scope(who)?;
    }
    let text = uri.path().strip_prefix(queries::PREFIX).unwrap_or_default();
    let warm = Query::parse(text, URL_BYTES_MAX).ok().and_then(|query| app.queries.warm(&query));
    Ok(warm.and_then(|warm| response(request, warm)))
}

/// Whether the request asks for nothing but the value. How long it would wait for it does not matter.
fn is_plain(uri: &Uri) -> bool {
    let Some(asked) = uri.query() else { return true };
    let wait = asked.strip_prefix("wait=").and_then(|seconds| seconds.parse::<u64>().ok());
    wait.is_some_and(|seconds| seconds <= queries::WAIT_S)
}

fn response(request: &Request<Body>, warm: Warm) -> Option<Response> {
    let tag = HeaderValue::from_maybe_shared(warm.tag).ok()?;
    let known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|asked| is_known(asked, &tag));
    let mut response = if known {
        error::unchanged(tag.to_str().ok()?)
    } else {
        error::value(HeaderValue::from_maybe_shared(warm.media_type).ok()?, warm.bytes)
    };
    let age = now().since(warm.ended_at) / 1_000;
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    headers.insert(CACHE, HeaderValue::from_static(CACHE_HIT));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::AGE, HeaderValue::from(age));
    Some(response)
}

fn is_known(asked: &HeaderValue, tag: &HeaderValue) -> bool {
    let (Ok(asked), Ok(tag)) = (asked.to_str(), tag.to_str()) else { return false };
    asked == "*" || asked.contains(tag)
}
