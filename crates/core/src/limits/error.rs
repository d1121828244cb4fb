//! Errors in a key expression, with their position and a suggestion.

use std::error::Error;
use std::fmt;

use super::{EXPRESSION_BYTES_MAX, PATH_MAX};
use crate::needs::Position;

/// The first thing wrong with a key expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Where it is.
    pub position: Position,
    /// What it is.
    pub kind: ExpressionErrorKind,
}

/// What can be wrong with a key expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpressionErrorKind {
    /// Another character is expected here.
    Unexpected {
        /// The character found.
        found: char,
        /// What is expected, in words.
        expected: &'static str,
    },
    /// The text ends too early.
    Ends {
        /// What is expected, in words.
        expected: &'static str,
    },
    /// Not a field of a job.
    UnknownName {
        /// As it was written.
        name: Box<str>,
        /// What was probably meant.
        did_you_mean: Option<&'static str>,
    },
    /// Not a function of a value.
    UnknownFunction {
        /// As it was written.
        name: Box<str>,
    },
    /// The quote that starts here does not end.
    UnclosedQuote,
    /// In quotes, a backslash may precede only a quote or a backslash.
    UnknownEscape {
        /// The character found.
        found: char,
    },
    /// A control character: NUL, tab, line end, escape.
    ControlCharacter {
        /// The character found.
        found: char,
    },
    /// The index in a list is too large.
    IndexTooLarge,
    /// The separator of `before` is empty.
    EmptySeparator,
    /// The path into params is too deep.
    PathTooDeep,
    /// The text is too long.
    TextTooLong {
        /// How long it is.
        bytes: usize,
    },
}

impl Error for ExpressionError {}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at column {}{}", self.kind, self.position.column, self.kind.hint())
    }
}

impl ExpressionErrorKind {
    /// How to correct it, if the message does not show it.
    fn hint(&self) -> String {
        match self {
            Self::UnknownName { did_you_mean: Some(name), .. } => format!("; did you mean \"{name}\"?"),
            Self::UnknownName { did_you_mean: None, .. } => {
                "; use key, owner, queue, type, group, schedule, params.… or tag:…".to_owned()
            }
            Self::UnknownFunction { .. } => "; use before(\"…\")".to_owned(),
            _ => String::new(),
        }
    }
}

impl fmt::Display for ExpressionErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected { found, expected } => write!(f, "expected {expected}, found {found:?},"),
            Self::Ends { expected } => write!(f, "expected {expected}"),
            Self::UnknownName { name, .. } => write!(f, "unknown name \"{name}\""),
            Self::UnknownFunction { name } => write!(f, "unknown function \"{name}\""),
            Self::UnclosedQuote => f.write_str("unclosed quote"),
            Self::UnknownEscape { found } => write!(f, "unknown escape {found:?} after \"\\\""),
            Self::ControlCharacter { found } => write!(f, "control character U+{:04X}", u32::from(*found)),
            Self::IndexTooLarge => f.write_str("position in a list is too large a number"),
            Self::EmptySeparator => f.write_str("the separator is empty"),
            Self::PathTooDeep => write!(f, "path deeper than the limit of {PATH_MAX}"),
            Self::TextTooLong { bytes } => {
                write!(f, "text of {bytes} bytes, over the limit of {EXPRESSION_BYTES_MAX},")
            }
        }
    }
}
