//! Sources: stored data that queries begin with, put under a key.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Method, Request, Uri, header};
use jobhall_blobs::{ARTIFACT_BYTES, Digest};
use jobhall_core::query::{SourceDigest, SourceKey};
use jobhall_protocol::{Code, DIGEST_HEADER, Page, Source, Timestamp, schema};
use jobhall_queries::StoredSource;
use schemars::JsonSchema;
use serde::Deserialize;

use super::artifacts::{digest, media_type};
use super::queries::{check_scope, refused};
use crate::auth::tokens::Identity;
use crate::blobs::artifacts::too_large_source;
use crate::blobs::upload::discard;
use crate::error::{self, Answer, ApiError};
use crate::request::params;
use crate::response::content::{self, About};
use crate::server::app::{App, now};

/// Default and maximum page size.
const PAGE: usize = 1_000;
/// Maximum size of a prefix, in bytes: that of a key.
const PREFIX_BYTES: usize = 512;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SourcesQuery {
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
) -> Answer {
    check_scope(&who)?;
    let asked: SourcesQuery = params::query(&uri)?;
    let limit = params::limit(asked.limit, PAGE, PAGE)?;
    let prefix = asked.prefix.unwrap_or_default();
    check_prefix(&prefix)?;
    let after = asked.cursor.as_deref().map(from_cursor).transpose()?;
    let found = app.queries.sources(&prefix, after.as_deref(), limit + 1).await;
    let mut found = found.map_err(|error| refused(error, ""))?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|last| to_cursor(last.key.as_str()));
    let link = next_cursor.as_deref().map(|cursor| params::next_page(&uri, cursor));
    let items = found.iter().map(shown).collect();
    Ok(error::linked(error::ok(&Page { items, next_cursor }), link.as_deref()))
}

pub(super) fn check_prefix(prefix: &str) -> Result<(), ApiError> {
    if prefix.len() > PREFIX_BYTES {
        let detail = format!("prefix has {} bytes, the limit is {PREFIX_BYTES}", prefix.len());
        return Err(ApiError::bad(detail));
    }
    Ok(())
}

/// A key may have any characters, so a cursor has it in hexadecimal digits.
pub(super) fn to_cursor(key: &str) -> String {
    let digits: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("s{digits}")
}

pub(super) fn from_cursor(text: &str) -> Result<String, ApiError> {
    let wrong = || ApiError::bad(format!("cursor: {} is not a cursor of this list", params::shown(text)));
    let digits =
        text.strip_prefix('s').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or_else(wrong)?;
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    let bytes = (0..digits.len()).step_by(2).map(byte).collect::<Result<Vec<_>, _>>()?;
    // The list continues after any text.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The wire form of a source.
fn shown(source: &StoredSource) -> Source {
    Source {
        key: source.key.to_string(),
        digest: source.digest.to_string(),
        size: source.size,
        media_type: source.media_type.clone(),
        at: Timestamp(source.at),
    }
}

pub(super) fn key(text: &str) -> Result<SourceKey, ApiError> {
    let wrong = |why| ApiError::bad(format!("the key of a source {why}: {}", params::shown(text)));
    SourceKey::new(text).map_err(wrong)
}

async fn unknown(app: &App, key: &SourceKey) -> ApiError {
    let mut detail = format!("there is no source {:?}", key.as_str());
    match app.queries.nearest_sources(key).await {
        Ok(nearest) if !nearest.is_empty() => {
            let nearest: Vec<String> = nearest.iter().map(|key| format!("{key:?}")).collect();
            detail += &format!("; did you mean {}?", nearest.join(" or "));
        }
        _ => {}
    }
    ApiError::new(Code::NotFound, detail)
}

pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(text): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Answer {
    check_scope(&who)?;
    let key = key(&text)?;
    let Some(source) = app.queries.source(&key).await.map_err(|error| refused(error, ""))? else {
        return Err(unknown(&app, &key).await);
    };
    // Who asks whether data is there is about to use it.
    if source.is_by_digest()
        && let Err(error) = app.queries.use_source(&key).await
    {
        tracing::warn!("failed to store the use of a source: {error}");
    }
    of(&app, &source, &method, &headers).await
}

/// The data of a source.
pub(super) async fn of(app: &App, source: &StoredSource, method: &Method, headers: &HeaderMap) -> Answer {
    let about =
        About { digest: Digest::from(source.digest.0), size: source.size, media_type: &source.media_type };
    let gone = || {
        let detail = format!(
            "the stored data of the source {:?} is damaged or missing; put it again",
            source.key.as_str()
        );
        ApiError::new(Code::Conflict, detail)
    };
    if *method == Method::HEAD && !app.artifacts.exists(about.digest).await? {
        return Err(gone());
    }
    content::object(app, &about, method, headers).await?.ok_or_else(gone)
}

/// The body is stored before the key names it, so a source is never half there.
pub(super) async fn put(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(text): Path<String>,
    request: Request<Body>,
) -> Answer {
    let given = given(&app, &who, &text, request.headers());
    let body = request.into_body();
    let (key, media_type, expected) = match given {
        Ok(given) => given,
        Err(error) => {
            discard(body).await;
            return Err(error);
        }
    };
    let stored = app.artifacts.store_source(&who, body).await?;
    if let Some(expected) = expected.filter(|expected| *expected != stored.digest) {
        let detail = format!("{DIGEST_HEADER} is {expected}, but the body has {}", stored.digest);
        return Err(ApiError::bad(detail));
    }
    let digest = SourceDigest(*stored.digest.as_bytes());
    let source = StoredSource { key, digest, size: stored.bytes, media_type, at: now() };
    let put = app.queries.put_source(source).await.map_err(|error| refused(error, ""))?;
    if put.is_changed {
        let detail = format!("{} bytes, {digest}", put.source.size);
        app.acted(&who, "source_put", &put.source.key, &detail).await;
    }
    let address = address(&put.source.key);
    Ok(error::tagged(error::made(put.is_new, &address, &shown(&put.source)), &format!("\"{digest}\"")))
}

/// Checks the request before the first byte of the body is read.
fn given(
    app: &App,
    who: &Identity,
    text: &str,
    headers: &HeaderMap,
) -> Result<(SourceKey, String, Option<Digest>), ApiError> {
    check_scope(who)?;
    app.takes_work()?;
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > ARTIFACT_BYTES) {
        return Err(too_large_source());
    }
    Ok((key(text)?, media_type(headers)?.to_string(), digest(headers)?))
}

fn address(key: &SourceKey) -> String {
    address_in("sources", key)
}

/// The address of what has this key.
pub(super) fn address_in(resource: &str, key: &SourceKey) -> String {
    let escaped: String = key
        .as_str()
        .bytes()
        .map(|byte| match byte {
            b'-' | b'_' | b'.' | b'~' | b'/' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect();
    format!("{}/{resource}/{escaped}", jobhall_protocol::API)
}

pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Extension(who): Extension<Identity>,
    Path(text): Path<String>,
) -> Answer {
    check_scope(&who)?;
    let key = key(&text)?;
    match app.queries.remove_source(&key).await.map_err(|error| refused(error, ""))? {
        Some(source) => {
            app.acted(&who, "source_removed", &key, &source.digest.to_string()).await;
            Ok(error::nothing())
        }
        None => Err(unknown(&app, &key).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_that_is_told_is_the_one_that_holds() {
        assert_eq!(jobhall_protocol::SOURCE_BY_DIGEST, jobhall_queries::BY_DIGEST);
    }

    #[test]
    fn a_cursor_has_any_key() {
        for key in ["a", "2026/sales ä.csv", "?&=%/#"] {
            let cursor = to_cursor(key);
            assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{cursor}");
            assert_eq!(from_cursor(&cursor).unwrap(), key);
        }
        for bad in ["", "a61", "s6", "sg0", "s\u{e9}"] {
            assert!(from_cursor(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_address_is_that_of_the_key() {
        let address = |text: &str| address(&SourceKey::new(text).unwrap());
        assert_eq!(address("a/b c?.csv"), "/api/v1/sources/a/b%20c%3F.csv");
    }
}
