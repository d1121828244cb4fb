//! Durations as people write them: `250ms`, `30s`, `10m`, `2h`, `7d`, and sums such as `1h30m`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a span of time such as 250ms, 30s, 10m, 2h, 7d or 1h30m")]
pub struct SpanError(String);

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Span, SpanError> {
        parse(text).map(Span).ok_or_else(|| SpanError(text.chars().take(40).collect()))
    }
}

fn parse(text: &str) -> Option<u64> {
    let (mut rest, mut total, mut last) = (text, 0u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (_, ms) = UNITS.iter().find(|(unit, _)| *unit == &rest[..letters])?;
        rest = &rest[letters..];
        if *ms >= last {
            return None;
        }
        last = *ms;
        total = total.checked_add(number.checked_mul(*ms)?)?;
    }
    (!text.is_empty()).then_some(total)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut left = self.0;
        UNITS.iter().try_for_each(|(unit, ms)| {
            let n = left / ms;
            left %= ms;
            if n > 0 { write!(f, "{n}{unit}") } else { Ok(()) }
        })
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
        json_schema!({
            "type": "string",
            "description": "A duration; units from the longest to the shortest, each once.",
            "pattern": "^([0-9]+(d|h|m|s|ms))+$",
            "examples": ["250ms", "30s", "1h30m", "7d"],
        })
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
