//! Reading bodies: bounded in size and time, and refused with the place of the mistake.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::http::header;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jobhall_protocol::Code;
use serde::de::DeserializeOwned;

use crate::error::Trouble;
use crate::mistake::place;

/// The largest body.
pub(crate) const BODY_BYTES: usize = 1 << 20;
/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// The whole body.
pub(crate) async fn bytes(request: Request<Body>) -> Result<Bytes, Trouble> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_BYTES as u64) {
        return Err(too_large());
    }
    let body = Limited::new(request.into_body(), BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIME, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Trouble::bad("the body did not arrive whole")),
        Err(_) => Err(Trouble::new(Code::Timeout, format!("the body took more than {BODY_TIME:?}"))),
    }
}

fn too_large() -> Trouble {
    Trouble::new(Code::TooLarge, format!("the body has more than {BODY_BYTES} bytes, which is the limit"))
}

/// The body as this type.
pub(crate) async fn json<T: DeserializeOwned>(request: Request<Body>) -> Result<T, Trouble> {
    parse(&bytes(request).await?)
}

/// The body as this type, or the default where there is none.
pub(crate) async fn json_or_default<T: DeserializeOwned + Default>(
    request: Request<Body>,
) -> Result<T, Trouble> {
    let bytes = bytes(request).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse(&bytes) }
}

/// Serde's words say what is wrong, at which line and column; the field is named beside them.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Trouble> {
    serde_json::from_slice(bytes).map_err(|error| {
        let place = match place(bytes, error.line(), error.column()) {
            place if place.is_empty() => place,
            place => format!(" at {place}"),
        };
        Trouble::bad(format!("the body is wrong{place}: {error}"))
    })
}
