//! Dependencies of a job: the id of a job, or the position of an earlier job in the same request, such as `"#0"`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jobhall_core as core;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::job::submit::FieldError;

/// A job that must end before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The job with this id.
    Job(u64),
    /// The earlier job at this position in the same request, counted from 0.
    Position(usize),
}

/// Why a text is not a dependency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("after: {0:?} is neither the number of a job nor the place of an earlier one, such as \"#0\"")]
pub struct AfterError(String);

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            After::Job(id) => write!(f, "{id}"),
            After::Position(at) => write!(f, "#{at}"),
        }
    }
}

impl FromStr for After {
    type Err = AfterError;

    fn from_str(text: &str) -> Result<After, AfterError> {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let read = match text.strip_prefix('#') {
            Some(at) => at.parse().ok().filter(|_| digits(at)).map(After::Position),
            None => text.parse().ok().filter(|_| digits(text)).map(After::Job),
        };
        read.ok_or_else(|| AfterError(text.chars().take(40).collect()))
    }
}

impl TryFrom<After> for core::After {
    type Error = FieldError;

    fn try_from(after: After) -> Result<core::After, FieldError> {
        match after {
            After::Job(id) => match core::JobId::new(id) {
                Ok(id) => Ok(core::After::Job(id)),
                Err(error) => Err(FieldError(format!("after: {error}"))),
            },
            After::Position(at) => Ok(core::After::Position(at)),
        }
    }
}

impl Serialize for After {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            After::Job(id) => serializer.serialize_u64(*id),
            After::Position(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<After, D::Error> {
        deserializer.deserialize_any(Read)
    }
}

struct Read;

impl Visitor<'_> for Read {
    type Value = After;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a job, or the place of an earlier one such as \"#0\"")
    }

    fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<After, E> {
        Ok(After::Job(id))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<After, E> {
        match text.parse() {
            Ok(after @ After::Position(_)) => Ok(after),
            Ok(After::Job(_)) => Err(E::custom(AfterError(text.to_owned()))),
            Err(error) => Err(E::custom(error)),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, id: i64) -> Result<After, E> {
        Err(E::custom(AfterError(id.to_string())))
    }
}

impl JsonSchema for After {
    fn schema_name() -> Cow<'static, str> {
        "After".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The id of a job, or the position of an earlier job in the same request, such as \"#0\".",
            "oneOf": [
                { "type": "integer", "format": "uint64", "minimum": 1, "maximum": core::bounds::JOB_ID },
                { "type": "string", "pattern": "^#[0-9]+$" },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_by_its_number_or_its_place() {
        let read: Vec<After> = serde_json::from_str("[17, \"#0\", \"#12\"]").unwrap();
        assert_eq!(read, [After::Job(17), After::Position(0), After::Position(12)]);
        assert_eq!(serde_json::to_string(&read).unwrap(), "[17,\"#0\",\"#12\"]");
        assert_eq!("17".parse(), Ok(After::Job(17)));
        assert_eq!("#3".parse(), Ok(After::Position(3)));
    }

    #[test]
    fn anything_else_is_refused_and_shown() {
        for bad in ["\"17\"", "\"#\"", "\"#-1\"", "\"#+1\"", "\"x\"", "-3", "1.5", "null", "[]"] {
            let error = serde_json::from_str::<After>(bad).unwrap_err().to_string();
            assert!(error.contains("such as \"#0\""), "{bad}: {error}");
        }
        assert!("+1".parse::<After>().is_err());
    }
}
