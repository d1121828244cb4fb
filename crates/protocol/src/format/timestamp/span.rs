//! Durations as people write them: `250ms`, `30s`, `10m`, `2h`, `7d`, and sums such as `1h30m`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jobhall_core::TimeSpan;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::job::schema;

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a span of time such as 250ms, 30s, 10m, 2h, 7d or 1h30m")]
pub struct SpanError(String);

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Span, SpanError> {
        TimeSpan::parse(text)
            .map(|span| Span(span.0))
            .ok_or_else(|| SpanError(text.chars().take(40).collect()))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TimeSpan(self.0).fmt(f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = schema::span(0, u64::MAX);
        schema.insert(
            "description".to_owned(),
            "A duration; units from the longest to the shortest, each once.".into(),
        );
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_read_as_people_write_them() {
        for (text, ms) in
            [("250ms", 250), ("30s", 30_000), ("10m", 600_000), ("1h30m", 5_400_000), ("7d", 604_800_000)]
        {
            assert_eq!(text.parse(), Ok(Span(ms)), "{text}");
            assert_eq!(Span(ms).to_string(), text);
        }
        for bad in ["", "s", "10", "10 m", "-1s", "1.5h", "1m1h", "1s1s", "99999999999999999999s", "1x", "1S"]
        {
            assert!(bad.parse::<Span>().is_err(), "{bad:?}");
        }
        assert_eq!(Span(0).to_string(), "0s");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(ms in 0u64..=u64::MAX / 2) {
            prop_assert_eq!(Span(ms).to_string().parse(), Ok(Span(ms)));
        }
    }
}
