//! Errors in a cron expression, with their position.

use std::fmt;

use crate::bounds::CRON_BYTES;
use crate::needs::Position;

/// How much of a word is repeated in an error.
const SHOWN: usize = 40;

/// The first thing wrong with a cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    /// Where it is.
    pub position: Position,
    /// What it is.
    pub kind: CronErrorKind,
}

/// What is wrong. Words of the line are cut to a length that can be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CronErrorKind {
    /// Not five fields, but this many.
    Fields(usize),
    /// An unknown alias, and the alias that was probably meant.
    Alias(String, Option<&'static str>),
    /// A value out of the field's range.
    Value {
        /// The field.
        field: &'static str,
        /// What was written.
        found: String,
        /// The minimum.
        least: u8,
        /// The maximum.
        most: u8,
        /// The word that was probably meant.
        meant: Option<&'static str>,
    },
    /// A step that is not a valid number (field, text, maximum).
    Step(&'static str, String, u8),
    /// A range that ends before it begins (field, from, to).
    Backwards(&'static str, u8, u8),
    /// The expression matches no day.
    Never,
    /// Too many bytes.
    TooLong(usize),
}

impl CronErrorKind {
    pub(super) fn shown(word: &str) -> String {
        word.chars().take(SHOWN).collect()
    }
}

impl CronError {
    pub(super) fn at(text: &str, offset: usize, kind: CronErrorKind) -> CronError {
        CronError { position: Position::of(text, offset), kind }
    }
}

impl std::error::Error for CronError {}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.position.column;
        match &self.kind {
            CronErrorKind::Fields(count) => write!(
                f,
                "a cron expression has 5 fields (minute hour day month weekday), not {count}; for example 30 2 * * *"
            ),
            CronErrorKind::Alias(word, Some(alias)) => {
                write!(f, "{word:?} is not a cron expression at column {column}; did you mean {alias}?")
            }
            CronErrorKind::Alias(word, None) => {
                write!(
                    f,
                    "{word:?} is not a cron expression at column {column}; there are @hourly, @daily, @weekly, @monthly and @yearly"
                )
            }
            CronErrorKind::Value { field, found, meant: Some(word), .. } => {
                write!(f, "{found:?} is not a valid {field} at column {column}; did you mean {word}?")
            }
            CronErrorKind::Value { field, found, least, most, meant: None } => {
                write!(
                    f,
                    "{found:?} is not a valid {field} at column {column}; write a number from {least} to {most}, a list, a range or *"
                )
            }
            CronErrorKind::Step(field, found, most) => {
                write!(
                    f,
                    "{found:?} is not a valid step of the {field} at column {column}; write a number from 1 to {most}, as in */15"
                )
            }
            CronErrorKind::Backwards(field, from, to) => {
                write!(
                    f,
                    "the {field} goes from {from} back to {to} at column {column}; write two ranges with a comma"
                )
            }
            CronErrorKind::Never => {
                f.write_str("no date matches this cron expression; check its day and month")
            }
            CronErrorKind::TooLong(bytes) => {
                write!(f, "the cron expression has {bytes} bytes, the limit is {CRON_BYTES}")
            }
        }
    }
}
