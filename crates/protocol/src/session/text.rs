//! The text form of attempts, leases and bytes in messages.

use std::fmt;

use jobhall_core::{AttemptId, LeaseId};
use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;

/// Parses a value from a borrowed text.
struct Parse<T>(&'static str, fn(&str) -> Option<T>);

impl<T> Visitor<'_> for Parse<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// `{job}-{claim}`.
pub(crate) mod attempt {
    use super::{AttemptId, Deserializer, Parse, Serializer};

    pub(crate) fn serialize<S: Serializer>(attempt: &AttemptId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(attempt)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<AttemptId, D::Error> {
        from.deserialize_str(Parse("an attempt such as 17-1", |text| text.parse().ok()))
    }
}

/// A list of attempts.
pub(crate) mod attempts {
    use serde::ser::SerializeSeq as _;
    use serde::{Deserialize, Serialize};

    use super::{AttemptId, Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct One(#[serde(with = "super::attempt")] AttemptId);

    pub(crate) fn serialize<S: Serializer>(attempts: &[AttemptId], to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(Some(attempts.len()))?;
        attempts.iter().try_for_each(|attempt| list.serialize_element(&One(*attempt)))?;
        list.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<AttemptId>, D::Error> {
        Ok(Vec::<One>::deserialize(from)?.into_iter().map(|One(attempt)| attempt).collect())
    }
}

/// An optional attempt.
pub(crate) mod maybe_attempt {
    use super::{AttemptId, Deserializer, Serializer, attempt};

    pub(crate) fn serialize<S: Serializer>(maybe: &Option<AttemptId>, to: S) -> Result<S::Ok, S::Error> {
        match maybe {
            Some(attempt) => attempt::serialize(attempt, to),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AttemptId>, D::Error> {
        attempt::deserialize(from).map(Some)
    }
}

/// 32 hex digits.
pub(crate) mod lease {
    use super::{Deserializer, LeaseId, Parse, Serializer};

    pub(crate) fn serialize<S: Serializer>(lease: &LeaseId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:032x}", lease.0))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<LeaseId, D::Error> {
        from.deserialize_str(Parse("a lease of 32 hex digits", |text| {
            let hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u128::from_str_radix(text, 16).ok().filter(|_| hex).map(LeaseId)
        }))
    }
}

/// Bytes: base64 in JSON, binary in MessagePack.
pub(crate) mod bytes {
    use std::fmt;

    use serde::de::{self, Visitor};

    use super::{Deserializer, Parse, Serializer};
    use jobhall_core::base64;

    struct Plain;

    impl Visitor<'_> for Plain {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }
    }

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.serialize_str(&base64::encode(bytes))
        } else {
            to.serialize_bytes(bytes)
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        if from.is_human_readable() {
            from.deserialize_str(Parse("bytes in base64", base64::decode))
        } else {
            from.deserialize_byte_buf(Plain)
        }
    }
}
