//! The media type of an artifact.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Maximum size of a media type.
pub const MEDIA_TYPE_BYTES: usize = 127;

/// A media type, such as `text/html; charset=utf-8`. It is sent in a header, so it is printable ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType(Arc<str>);

/// Why a text is not a media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "read a media type: it is written type/subtype in printable ASCII, with {MEDIA_TYPE_BYTES} bytes at most"
)]
pub struct MediaTypeError;

impl MediaType {
    /// Validates a text.
    ///
    /// # Errors
    /// The text is not of the form `type/subtype`, or too long.
    pub fn new(text: &str) -> Result<MediaType, MediaTypeError> {
        let named = |part: &str| part.starts_with(|first: char| first.is_ascii_alphanumeric());
        let two = text.split_once('/').is_some_and(|(kind, more)| named(kind) && named(more));
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if two && printable && text.len() <= MEDIA_TYPE_BYTES {
            Ok(MediaType(text.into()))
        } else {
            Err(MediaTypeError)
        }
    }

    /// The type of unknown bytes.
    #[must_use]
    pub fn unknown() -> MediaType {
        MediaType("application/octet-stream".into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{MEDIA_TYPE_BYTES, MediaType};

    #[test]
    fn a_media_type_is_fit_for_a_header() {
        for good in [
            "text/plain",
            "text/html; charset=utf-8",
            "application/vnd.a+json",
            MediaType::unknown().as_str(),
        ] {
            assert_eq!(MediaType::new(good).unwrap().as_str(), good);
        }
        let long = format!("a/{}", "b".repeat(MEDIA_TYPE_BYTES - 1));
        for bad in [
            "",
            "text",
            "/",
            "text/",
            "/plain",
            "text/plain\r\nX: y",
            "text/pl\u{e4}in",
            " text/plain",
            &long,
        ] {
            assert!(MediaType::new(bad).is_err(), "{bad:?}");
        }
        assert!(MediaType::new(&long[..MEDIA_TYPE_BYTES]).is_ok());
    }
}
