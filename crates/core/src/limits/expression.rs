//! Key expressions: an expression over a job, whose value determines the job's bucket.
//!
//! ```text
//!   key                       the job's key                     acme/7
//!   key.before("/")           its beginning                     acme
//!   owner  queue  type  group  schedule                         a name the job has
//!   params.customer.id        a value in its params             17
//!   params["odd name"][0]     the same with odd names, and in lists
//!   tag:region                the rest of its tag region=… or region:…
//! ```
//!
//! A number and the same digits as text are one value. A missing value, `null`, a list or an object is no value: such
//! jobs share one bucket. Only the beginning of a very long value counts, so at worst two such values share a bucket.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::ExpressionError;
use super::path::{self, Step};
use super::{VALUE_BYTES_MAX, parse};
use crate::job::JobSpec;

/// An expression over a job. Equal when the canonical texts are equal.
#[derive(Clone, Debug)]
pub struct KeyExpression(Arc<Parsed>);

#[derive(Debug)]
struct Parsed {
    text: String,
    source: Source,
    /// Only the part before this text counts.
    before: Option<Box<str>>,
}

/// The source of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Key,
    Owner,
    Queue,
    Type,
    Group,
    Schedule,
    Tag(Box<str>),
    Params(Vec<Step>),
}

/// The names of sources without a path.
pub(super) const NAMES: [(&str, Source); 6] = [
    ("key", Source::Key),
    ("owner", Source::Owner),
    ("queue", Source::Queue),
    ("type", Source::Type),
    ("group", Source::Group),
    ("schedule", Source::Schedule),
];

impl KeyExpression {
    /// Parses an expression.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where.
    pub fn parse(text: &str) -> Result<KeyExpression, ExpressionError> {
        let (source, before) = parse::expression(text)?;
        let text = written(&source, before.as_deref());
        Ok(KeyExpression(Arc::new(Parsed { text, source, before })))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The value for this job; none if it has none.
    pub fn value<'s>(&self, spec: &'s JobSpec) -> Option<Cow<'s, str>> {
        let value = self.whole(spec)?;
        let part = match &self.0.before {
            Some(before) => value.find(&**before).unwrap_or(value.len()),
            None => value.len(),
        };
        let end = value[..part].floor_char_boundary(VALUE_BYTES_MAX);
        Some(match value {
            Cow::Borrowed(value) => Cow::Borrowed(&value[..end]),
            Cow::Owned(mut value) => {
                value.truncate(end);
                Cow::Owned(value)
            }
        })
    }

    fn whole<'s>(&self, spec: &'s JobSpec) -> Option<Cow<'s, str>> {
        match &self.0.source {
            Source::Params(steps) => path::value(spec.params.as_str(), steps),
            Source::Group => spec.group.as_ref().map(|group| group.to_string().into()),
            Source::Key => spec.key.as_ref().map(|key| key.as_str().into()),
            Source::Queue => Some(spec.queue.as_str().into()),
            Source::Type => Some(spec.job_type.as_str().into()),
            Source::Owner => spec.owner.as_ref().map(|owner| owner.as_str().into()),
            Source::Schedule => spec.schedule.as_ref().map(|schedule| schedule.as_str().into()),
            Source::Tag(name) => spec.tags.iter().find_map(|tag| {
                let rest = tag.as_str().strip_prefix(&**name)?.strip_prefix(['=', ':'])?;
                Some(rest.into())
            }),
        }
    }
}

fn written(source: &Source, before: Option<&str>) -> String {
    let mut text = match source {
        Source::Tag(name) => format!("tag:{name}"),
        Source::Params(steps) => {
            steps.iter().fold("params".to_owned(), |text, step| text + &step.to_string())
        }
        plain => NAMES.iter().find(|(_, known)| known == plain).map_or("", |(name, _)| name).to_owned(),
    };
    if let Some(before) = before {
        text.push_str(&format!(".before({})", path::quoted(before)));
    }
    text
}

impl PartialEq for KeyExpression {
    fn eq(&self, other: &KeyExpression) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for KeyExpression {}

impl fmt::Display for KeyExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for KeyExpression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for KeyExpression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyExpression, D::Error> {
        let text = String::deserialize(deserializer)?;
        KeyExpression::parse(&text).map_err(|error| D::Error::custom(format!("expression: {error}")))
    }
}
