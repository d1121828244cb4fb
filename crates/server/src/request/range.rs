//! Byte ranges of requests.

use std::ops::Range;

use axum::http::{HeaderMap, header};
use jobhall_blobs::{ByteRange, RangeError};
use jobhall_protocol::Code;

use crate::error::ApiError;

/// The requested byte range; none if the whole content is requested.
pub(crate) fn asked(headers: &HeaderMap, total: u64) -> Result<Option<Range<u64>>, ApiError> {
    let range = headers.get(header::RANGE).and_then(|range| parse(range.to_str().ok()?));
    let resolved = range.map(|range| range.resolve(total)).transpose();
    resolved.map_err(|error| match error {
        RangeError::Unsatisfiable { total } => {
            let trouble = ApiError::new(Code::RangeNotSatisfiable, error.to_string());
            trouble.with_header(header::CONTENT_RANGE, &format!("bytes */{total}"))
        }
        RangeError::Backwards { .. } => ApiError::bad(error),
    })
}

/// The `Content-Range` header of a range.
pub(crate) fn label(range: &Range<u64>, total: u64) -> String {
    format!("bytes {}-{}/{total}", range.start, range.end.saturating_sub(1))
}

/// Parses one byte range. Any other range is ignored, as HTTP requires.
fn parse(text: &str) -> Option<ByteRange> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    match (first.trim(), last.trim()) {
        ("", last) => Some(ByteRange::Suffix(last.parse().ok()?)),
        (first, "") => Some(ByteRange::From(first.parse().ok()?)),
        (first, last) => Some(ByteRange::FromTo(first.parse().ok()?, last.parse().ok()?)),
    }
}
