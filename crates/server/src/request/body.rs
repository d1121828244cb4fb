//! Reads request bodies with limits on size and time. Errors name the position of the mistake.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::http::header;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jobhall_protocol::Code;
use serde::de::DeserializeOwned;

use crate::decode::field::field_at;
use crate::decode::objects::Objects;
use crate::error::ApiError;

/// Maximum size of a body.
pub(crate) const BODY_BYTES: usize = 1 << 20;
/// Time limit for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

pub(crate) async fn bytes(request: Request<Body>) -> Result<Bytes, ApiError> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_BYTES as u64) {
        return Err(too_large());
    }
    let body = Limited::new(request.into_body(), BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIME, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::bad("the body is incomplete")),
        Err(_) => Err(ApiError::new(Code::Timeout, format!("the body took more than {BODY_TIME:?}"))),
    }
}

fn too_large() -> ApiError {
    ApiError::new(Code::TooLarge, format!("the body has more than {BODY_BYTES} bytes, which is the limit"))
}

/// Reads the body as JSON of this type.
pub(crate) async fn json<T: DeserializeOwned>(request: Request<Body>) -> Result<T, ApiError> {
    parse(&bytes(request).await?)
}

/// Reads the body as JSON of this type; returns the default if the body is empty.
pub(crate) async fn json_or_default<T: DeserializeOwned + Default>(
    request: Request<Body>,
) -> Result<T, ApiError> {
    let bytes = bytes(request).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse(&bytes) }
}

/// Parses an array of objects.
pub(crate) fn parse_many<T: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<T>, ApiError> {
    parse(bytes)
}

/// Whether the text starts an array.
pub(crate) fn is_array(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// The serde message states the error with line and column; the field name is added before it.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    parse_as("the body", bytes)
}

/// The same of a text that errors call by this name.
pub(crate) fn parse_as<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = T::deserialize(Objects(&mut json)).and_then(|read| json.end().map(|()| read));
    read.map_err(|error| {
        let words = error.to_string();
        let field = field_at(bytes, error.line(), error.column());
        // These errors name the field themselves.
        let named = words.starts_with("unknown field") || words.starts_with("duplicate field");
        let field = if named { field.rsplit_once('.').map_or("", |(outer, _)| outer) } else { &field };
        match field {
            "" => ApiError::bad(format!("{name} is wrong: {words}")),
            field => ApiError::bad(format!("{name} is wrong at {field}: {words}")),
        }
    })
}
