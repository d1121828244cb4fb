//! Large responses. Each is in memory until its client has read it, so one token has few of them at once.

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::Response;
use futures_util::{FutureExt as _, stream};
use http_body_util::BodyExt as _;

use crate::auth::tokens::{Identity, TokenShares};
use crate::error::ApiError;

/// A smaller response is in the buffers of its connection at once.
const LARGE: usize = 64 << 10;

/// Counts a response against its token until nearly all of it is sent, if it is large.
pub(crate) fn hold(shares: &TokenShares, who: &Identity, response: Response) -> Result<Response, ApiError> {
    let (mut parts, body) = response.into_parts();
    let body = body.collect().now_or_never().and_then(Result::ok);
    let bytes = body.ok_or_else(|| ApiError::internal("a page that is not in memory"))?.to_bytes();
    if bytes.len() <= LARGE {
        return Ok(Response::from_parts(parts, Body::from(bytes)));
    }
    let share = shares.large(who)?;
    parts.headers.insert(header::CONTENT_LENGTH, bytes.len().into());
    // The connection takes the next piece when it has sent the one before; the share ends with the last piece.
    let pieces = stream::unfold((bytes, share), async |(mut rest, share)| {
        if rest.is_empty() {
            return None;
        }
        let piece = rest.split_to(rest.len().min(LARGE));
        Some((Ok::<Bytes, std::convert::Infallible>(piece), (rest, share)))
    });
    Ok(Response::from_parts(parts, Body::from_stream(pieces)))
}
