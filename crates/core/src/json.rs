//! A JSON document kept as text: the kernel passes params, results and failure data through without parsing them.

pub mod base64;
mod same;

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, IgnoredAny};

use crate::bounds;

/// A valid JSON document, with the spacing it was given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

/// Why a text is not acceptable JSON; includes the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// Larger than the limit (field, bytes, limit).
    TooLarge(&'static str, usize, usize),
    /// Nested deeper than the limit.
    TooDeep(&'static str),
    /// Not JSON (field, and the parser's message with line and column).
    Invalid(&'static str, String),
    /// Bytes that are not UTF-8, from this offset on.
    NotUtf8(&'static str, usize),
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::TooLarge(field, bytes, limit) => {
                write!(f, "{field} has {bytes} bytes, the limit is {limit}")
            }
            JsonError::TooDeep(field) => {
                write!(f, "{field} is nested deeper than the limit of {}", bounds::JSON_DEPTH)
            }
            JsonError::Invalid(field, why) => write!(f, "{field} is not JSON: {why}"),
            JsonError::NotUtf8(field, at) => write!(f, "{field} is not UTF-8 at byte {at}"),
        }
    }
}

impl std::error::Error for JsonError {}

impl Json {
    /// Validates size, depth and grammar.
    pub fn parse(field: &'static str, text: &str, limit: usize) -> Result<Json, JsonError> {
        if text.len() > limit {
            return Err(JsonError::TooLarge(field, text.len(), limit));
        }
        if deeper_than(text, bounds::JSON_DEPTH) {
            return Err(JsonError::TooDeep(field));
        }
        let checked = serde_json::from_str::<IgnoredAny>(text);
        checked.map_err(|error| JsonError::Invalid(field, error.to_string()))?;
        Ok(Json(text.into()))
    }

    /// The same from bytes that may not be UTF-8.
    pub fn parse_bytes(field: &'static str, bytes: &[u8], limit: usize) -> Result<Json, JsonError> {
        let text = std::str::from_utf8(bytes).map_err(|e| JsonError::NotUtf8(field, e.valid_up_to()))?;
        Json::parse(field, text, limit)
    }

    /// A job's params.
    pub fn params(text: &str) -> Result<Json, JsonError> {
        Json::parse("params", text, bounds::PARAMS_BYTES)
    }

    /// The result of a success.
    pub fn value(text: &str) -> Result<Json, JsonError> {
        Json::parse("value", text, bounds::VALUE_BYTES)
    }

    /// A document that was validated when it was stored.
    pub fn trusted(text: &str) -> Json {
        Json(text.into())
    }

    /// The document `null`.
    pub fn null() -> Json {
        Json("null".into())
    }

    /// The document `{}`.
    pub fn empty_object() -> Json {
        Json("{}".into())
    }

    /// Whether both are the same JSON value: spacing, the order of members and the spelling of numbers do not matter.
    pub fn same_value(&self, other: &Json) -> bool {
        same::same(&self.0, &other.0)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether brackets outside of strings nest deeper than `limit`.
fn deeper_than(text: &str, limit: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limit {
            return true;
        }
    }
    false
}

impl serde::Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        Ok(Json(String::deserialize(deserializer)?.into()))
    }
}

/// A document as part of the JSON around it, with the spacing it was given. Read without a check of its bounds.
pub(crate) mod raw {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    use super::Json;

    pub(crate) fn serialize<S: Serializer>(json: &Json, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(json.as_str()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        Ok(Json::trusted(Box::<RawValue>::deserialize(deserializer)?.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_documents_are_kept_as_they_are() {
        for text in ["null", "false", "0", "\"\"", "{ \"a\" : [1, 2] }", "[[],{}]"] {
            assert_eq!(Json::params(text).unwrap().as_str(), text);
        }
        assert_eq!(Json::null().as_str(), "null");
        assert_eq!(Json::empty_object().as_str(), "{}");
    }

    #[test]
    fn bad_documents_are_refused_by_field() {
        let error = Json::params("{\"a\":}").unwrap_err();
        assert_eq!(error.to_string(), "params is not JSON: expected value at line 1 column 6");
        assert!(matches!(Json::value("nul\0"), Err(JsonError::Invalid("value", _))));
        assert!(matches!(Json::value("1 2"), Err(JsonError::Invalid("value", _))));
        let error = Json::parse_bytes("params", b"\"ab\xff\"", 100).unwrap_err();
        assert_eq!(error, JsonError::NotUtf8("params", 3));
        assert_eq!(error.to_string(), "params is not UTF-8 at byte 3");
    }

    #[test]
    fn size_is_bounded() {
        let text = format!("\"{}\"", "x".repeat(8));
        assert!(Json::parse("value", &text, 10).is_ok());
        let error = Json::parse("value", &text, 9).unwrap_err();
        assert_eq!(error, JsonError::TooLarge("value", 10, 9));
        assert_eq!(error.to_string(), "value has 10 bytes, the limit is 9");
        let large = format!("\"{}\"", "x".repeat(bounds::PARAMS_BYTES));
        assert!(matches!(Json::params(&large), Err(JsonError::TooLarge("params", ..))));
        assert!(matches!(Json::value(&large), Err(JsonError::TooLarge("value", ..))));
    }

    #[test]
    fn depth_is_bounded_outside_of_strings() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(Json::params(&nested(64)).is_ok());
        let error = Json::params(&nested(65)).unwrap_err();
        assert_eq!(error.to_string(), "params is nested deeper than the limit of 64");
        assert!(Json::params(&format!("\"\\\"{}\"", "[".repeat(100))).is_ok());
        assert!(Json::params(&format!("[{}[]]", "[],".repeat(100))).is_ok());
        assert!(matches!(Json::params(&format!("[\"\\\\\",{}]", nested(64))), Err(JsonError::TooDeep(_))));
        let objects = format!("{}1{}", "{\"a\":".repeat(65), "}".repeat(65));
        assert_eq!(Json::params(&objects), Err(JsonError::TooDeep("params")));
        let with_words = format!("{}1{}", "[\"]}\",".repeat(65), "]".repeat(65));
        assert_eq!(Json::params(&with_words), Err(JsonError::TooDeep("params")));
        let stray = format!("\\{}", "[".repeat(65));
        assert_eq!(Json::params(&stray), Err(JsonError::TooDeep("params")));
        let wide = format!("[{}{{}}]", "{\"a\":[]},".repeat(100));
        assert!(Json::params(&wide).is_ok());
    }

    #[test]
    fn documents_travel_through_serde_as_text() {
        let json = Json::params("{\"a\":1}").unwrap();
        let text = serde_json::to_string(&json).unwrap();
        assert_eq!(text, "\"{\\\"a\\\":1}\"");
        assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), json);
        assert_eq!(Json::trusted("7").as_str(), "7");
    }
}
