//! Validated names of types, queues, workers and keys. A value of these types is within its bounds.

mod as_text;
mod reserved;

use std::fmt;
use std::sync::Arc;

use crate::bounds::{KEY_BYTES, NAME_BYTES, TAG_BYTES};

pub(crate) use as_text::as_text;
pub use reserved::{Application, Reserved, ReservedTypes};

/// Why a text is not a valid name; includes the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The text is empty.
    Empty(&'static str),
    /// Longer than the limit (field, bytes, limit).
    TooLong(&'static str, usize, usize),
    /// An invalid character (field, character, byte offset).
    Character(&'static str, char, usize),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty(field) => write!(f, "{field} is empty"),
            NameError::TooLong(field, bytes, limit) => {
                write!(f, "{field} has {bytes} bytes, the limit is {limit}")
            }
            NameError::Character(field, c, at) => {
                write!(f, "{field} has the character {c:?} at byte {at}, which is not allowed there")
            }
        }
    }
}

impl std::error::Error for NameError {}

fn check(
    field: &'static str,
    text: &str,
    limit: usize,
    allowed: impl Fn(usize, char) -> bool,
) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty(field));
    }
    if text.len() > limit {
        return Err(NameError::TooLong(field, text.len(), limit));
    }
    match text.char_indices().find(|&(at, c)| !allowed(at, c)) {
        Some((at, c)) => Err(NameError::Character(field, c, at)),
        None => Ok(()),
    }
}

/// Letters, digits, `.`, `_` and `-`, beginning with a letter or digit: safe in URLs, file names and metrics.
fn token(at: usize, c: char) -> bool {
    c.is_ascii_alphanumeric() || (at > 0 && matches!(c, '.' | '_' | '-'))
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $field:literal, $limit:expr, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates the text.
            pub fn new(text: &str) -> Result<$name, NameError> {
                check($field, text, $limit, $allowed)?;
                Ok($name(text.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        as_text!($name, $name::new);
    };
}

name!(
    /// The type of a job.
    TypeName, "type", NAME_BYTES, token
);
name!(
    /// The queue of a job.
    QueueName, "queue", NAME_BYTES, token
);
name!(
    /// The name of a worker, taken from its credential.
    WorkerName, "worker", NAME_BYTES, token
);
name!(
    /// The name of a token.
    TokenName, "name", NAME_BYTES, token
);
name!(
    /// Identifies work within a type: there is at most one live job per (type, key).
    Key, "key", KEY_BYTES, |_, c: char| !c.is_control()
);

name!(
    /// The owner of a job, for users and for limits.
    Owner, "owner", NAME_BYTES, |_, c: char| !c.is_control()
);
name!(
    /// The name of a schedule.
    ScheduleName, "schedule", NAME_BYTES, token
);
name!(
    /// A word to filter jobs by.
    Tag, "tag", TAG_BYTES, |_, c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, ',' | '"' | '\\')
);
name!(
    /// The kind of an application's records, such as `q.pin`.
    RecordKind, "kind", NAME_BYTES, token
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_a_token() {
        for good in ["a", "exec", "Thumb-nail.v2_x", "9to5", &"x".repeat(128)] {
            assert_eq!(TypeName::new(good).unwrap().as_str(), good);
        }
        assert_eq!(TypeName::new(""), Err(NameError::Empty("type")));
        assert_eq!(TypeName::new(&"x".repeat(129)), Err(NameError::TooLong("type", 129, 128)));
        for (bad, at) in [("-a", 0), (".a", 0), ("_a", 0), ("a b", 1), ("a/b", 1), ("ab\0", 2), ("é", 0)] {
            let c = bad[at..].chars().next().unwrap();
            assert_eq!(TypeName::new(bad), Err(NameError::Character("type", c, at)), "{bad:?}");
        }
    }

    #[test]
    fn a_key_is_any_text_without_control_characters() {
        assert_eq!(Key::new("load sales/§1 ~x").unwrap().to_string(), "load sales/§1 ~x");
        assert_eq!(Key::new("a\0b"), Err(NameError::Character("key", '\0', 1)));
        assert_eq!(Key::new("a\nb"), Err(NameError::Character("key", '\n', 1)));
        assert_eq!(Key::new(&"k".repeat(512)).unwrap().as_str().len(), 512);
        assert_eq!(Key::new(&"k".repeat(513)), Err(NameError::TooLong("key", 513, 512)));
    }

    #[test]
    fn errors_name_the_field_and_the_limit() {
        assert_eq!(QueueName::new("").unwrap_err().to_string(), "queue is empty");
        assert_eq!(
            WorkerName::new(&"w".repeat(200)).unwrap_err().to_string(),
            "worker has 200 bytes, the limit is 128"
        );
        assert_eq!(
            TypeName::new("a b").unwrap_err().to_string(),
            "type has the character ' ' at byte 1, which is not allowed there"
        );
    }
}
