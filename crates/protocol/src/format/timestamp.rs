//! Times in RFC 3339.

pub(crate) mod span;

use std::borrow::Cow;
use std::fmt;

use jobhall_core::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time in RFC 3339, such as `2026-11-15T09:43:00.250Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub Time);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0.as_ms()) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{} ms", self.0.as_ms()),
        }
    }
}

impl std::str::FromStr for Timestamp {
    type Err = String;

    fn from_str(text: &str) -> Result<Timestamp, String> {
        let wrong = || {
            format!(
                "{:?} is not a moment such as 2026-11-15T09:43:00Z",
                text.chars().take(40).collect::<String>()
            )
        };
        let moment: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
        Time::from_ms(moment.as_millisecond()).map(Timestamp).map_err(|error| error.to_string())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        crate::job::schema::time()
    }
}
