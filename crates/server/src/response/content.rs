//! Stored bytes as a response: the whole, one range, or nothing if the client has them. An object is streamed and never
//! in memory as a whole. The bytes are untrusted: headers prevent a browser from running them as a page of this server.

use axum::body::{Body, Bytes};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::Response;
use jobhall_blobs::Digest;
use jobhall_protocol::DIGEST_HEADER;
use jobhall_queries::{Content, Value};

use crate::blobs::artifacts::pieces;
use crate::error::{self, ApiError};
use crate::request::range;
use crate::server::app::App;

/// What is known of bytes without reading them.
pub(crate) struct About<'a> {
    pub digest: Digest,
    pub size: u64,
    pub media_type: &'a str,
}

/// An object as a response; none if it is damaged or missing.
pub(crate) async fn object(
    app: &App,
    about: &About<'_>,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Option<Response>, ApiError> {
    let asked = Asked::of(about, method, headers)?;
    let body = if asked.is_empty {
        Body::empty()
    } else {
        let Some(object) = app.artifacts.sound(about.digest).await? else { return Ok(None) };
        pieces(object, asked.bytes.start, asked.bytes.end)
    };
    Ok(Some(asked.response(about, body)))
}

/// The value of a query as a response; none if its bytes are damaged or missing.
pub(crate) async fn value(
    app: &App,
    value: &Value,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Option<Response>, ApiError> {
    let about = |digest| About { digest, size: value.size, media_type: &value.media_type };
    match &value.content {
        Content::Object(digest) => object(app, &about(Digest::from(digest.0)), method, headers).await,
        Content::Inline(bytes) => inline(&about(Digest::of(bytes)), bytes, method, headers).map(Some),
    }
}

fn inline(
    about: &About<'_>,
    bytes: &Bytes,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let asked = Asked::of(about, method, headers)?;
    let part = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let body = match asked.is_empty {
        true => Body::empty(),
        false => Body::from(bytes.slice(part(asked.bytes.start)..part(asked.bytes.end))),
    };
    Ok(asked.response(about, body))
}

/// What a request asks of stored bytes.
struct Asked {
    /// The client has this version.
    is_known: bool,
    /// Only the headers are sent.
    is_empty: bool,
    is_part: bool,
    bytes: std::ops::Range<u64>,
}

impl Asked {
    fn of(about: &About<'_>, method: &Method, headers: &HeaderMap) -> Result<Asked, ApiError> {
        let tag = tag(about);
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let is_known = text(header::IF_NONE_MATCH).is_some_and(|tags| tags == "*" || tags.contains(&tag));
        // If the client has a different version, a part is useless to it.
        let other = text(header::IF_RANGE).is_some_and(|wanted| wanted != tag);
        let range = if other { None } else { range::asked(headers, about.size)? };
        let is_empty = is_known || *method == Method::HEAD;
        let is_part = range.is_some();
        Ok(Asked { is_known, is_empty, is_part, bytes: range.unwrap_or(0..about.size) })
    }

    fn response(&self, about: &About<'_>, body: Body) -> Response {
        let tag = tag(about);
        let mut response = match self {
            Asked { is_known: true, .. } => error::unchanged(&tag),
            Asked { is_part: true, .. } => error::part("", &range::label(&self.bytes, about.size), body),
            Asked { .. } => error::body("", body),
        };
        let mut set = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        };
        if !self.is_known {
            set(header::CONTENT_TYPE, about.media_type);
            set(header::CONTENT_LENGTH, &(self.bytes.end - self.bytes.start).to_string());
        }
        set(header::ETAG, &tag);
        set(HeaderName::from_static(DIGEST_HEADER), &about.digest.hex());
        set(header::ACCEPT_RANGES, "bytes");
        set(header::CACHE_CONTROL, "private, no-cache");
        set(header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'");
        response
    }
}

fn tag(about: &About<'_>) -> String {
    format!("\"{}\"", about.digest)
}
