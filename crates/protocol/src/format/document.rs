//! JSON documents inside a message: embedded in JSON, and as text in MessagePack, so that they are passed on
//! unparsed.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

pub(crate) fn serialize<S: Serializer>(document: &RawValue, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        document.serialize(serializer)
    } else {
        serializer.serialize_str(document.get())
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    if deserializer.is_human_readable() {
        Box::<RawValue>::deserialize(deserializer)
    } else {
        let text = String::deserialize(deserializer)?;
        RawValue::from_string(text).map_err(|error| D::Error::custom(format!("not JSON: {error}")))
    }
}

/// For an optional field.
pub(crate) mod optional {
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::value::RawValue;

    pub(crate) fn serialize<S: Serializer>(
        document: &Option<Box<RawValue>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match document {
            Some(document) => super::serialize(document, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// `null` counts as missing.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Box<RawValue>>, D::Error> {
        let document = Option::<Document>::deserialize(deserializer)?;
        Ok(document.map(|Document(document)| document).filter(|document| document.get() != "null"))
    }

    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Document(#[serde(with = "super")] Box<RawValue>);
}
