//! A value deep in a JSON text, read without building the rest of it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// One step into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Into an object.
    Name(Box<str>),
    /// Into a list, from 0.
    Index(u32),
}

/// Whether a name may begin so without quotes.
pub(super) fn is_bare_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Whether a name may go on so without quotes.
pub(super) fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// A text in quotes, as an expression writes it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Name(name) if name.starts_with(is_bare_start) && name.chars().all(is_bare) => {
                write!(f, ".{name}")
            }
            Step::Name(name) => write!(f, "[{}]", quoted(name)),
        }
    }
}

/// The text of the word, number or truth value at the end of the path; none if there is no such thing.
pub(super) fn value(json: &str, steps: &[Step]) -> Option<String> {
    let mut reader = serde_json::Deserializer::from_str(json);
    Walk(steps).deserialize(&mut reader).ok().flatten()
}

/// Walks the rest of the path.
#[derive(Clone, Copy)]
struct Walk<'a>(&'a [Step]);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Walk<'_> {
    fn found(self, value: &impl ToString) -> Option<String> {
        self.0.is_empty().then(|| value.to_string())
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(self.found(&value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(self.found(&value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(self.found(&value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(self.found(&value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.found(&value))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let Some((Step::Name(wanted), rest)) = self.0.split_first() else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(None);
        };
        while let Some(is_it) = map.next_key_seed(Is(wanted))? {
            if is_it {
                // Of a name that stands twice the last counts, as with most readers of JSON.
                found = map.next_value_seed(Walk(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let wanted = match self.0.split_first() {
            Some((Step::Index(index), rest)) => Some((*index, Walk(rest))),
            _ => None,
        };
        for at in 0_u32.. {
            match wanted.filter(|(index, _)| *index == at) {
                Some((_, rest)) => match seq.next_element_seed(rest)? {
                    Some(value) => found = value,
                    None => break,
                },
                None if seq.next_element::<IgnoredAny>()?.is_none() => break,
                None => {}
            }
        }
        Ok(found)
    }
}

/// Whether a name is this one. It is compared where it stands, because most are not.
struct Is<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}
