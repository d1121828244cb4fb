//! Errors in the text of windows, with their position.

use std::fmt;

use crate::bounds::{WINDOWS, WINDOWS_BYTES};
use crate::needs::Position;
use crate::time::zone::ZoneError;

/// The first thing wrong with a text of windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowError {
    /// Where it is.
    pub position: Position,
    /// What it is.
    pub kind: WindowErrorKind,
}

/// What is wrong. Words of the text are cut to a length that can be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowErrorKind {
    /// Nothing between two commas.
    Empty,
    /// Only days, or nothing that looks like times.
    NoTimes(String),
    /// A word before the times that is no day; perhaps this one was meant.
    Day(String, Option<&'static str>),
    /// Not `start-end`.
    Times(String),
    /// Not an hour and a minute.
    Clock(String),
    /// Not a zone.
    Zone(ZoneError),
    /// A zone that does not hold for the windows before it.
    LateZone(String),
    /// A word after the zone.
    Extra(String),
    /// Too many windows.
    TooMany,
    /// Too many bytes.
    TooLong(usize),
}

impl WindowError {
    pub(super) fn at(text: &str, offset: usize, kind: WindowErrorKind) -> WindowError {
        WindowError { position: Position::of(text, offset), kind }
    }

    pub(super) fn too_long(bytes: usize) -> WindowError {
        WindowError::at("", 0, WindowErrorKind::TooLong(bytes))
    }
}

impl std::error::Error for WindowError {}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.position.column;
        match &self.kind {
            WindowErrorKind::Empty => {
                write!(f, "no window at column {column}; write windows as in 22:00-06:00, 12:00-13:00")
            }
            WindowErrorKind::NoTimes(word) => {
                write!(f, "{word:?} at column {column} has no times; write a window as in 22:00-06:00")
            }
            WindowErrorKind::Day(word, Some(day)) => {
                write!(f, "{word:?} is not a day at column {column}; did you mean {day}?")
            }
            WindowErrorKind::Day(word, None) => {
                write!(f, "{word:?} is not a day at column {column}; days are mon, mon-fri, sat sun")
            }
            WindowErrorKind::Times(word) => {
                write!(f, "{word:?} is not a window at column {column}; write it as in 22:00-06:00")
            }
            WindowErrorKind::Clock(word) => {
                write!(
                    f,
                    "{word:?} is not a time of day at column {column}; write it from 00:00 to 23:59, or 24:00 as end"
                )
            }
            WindowErrorKind::Zone(error) => write!(f, "at column {column} {error}"),
            WindowErrorKind::LateZone(zone) => {
                write!(
                    f,
                    "the zone {zone} at column {column} has windows without zone before it; name it after the first window"
                )
            }
            WindowErrorKind::Extra(word) => {
                write!(f, "{word:?} at column {column} is not expected; windows are separated by commas")
            }
            WindowErrorKind::TooMany => {
                write!(f, "one window too many at column {column}, the limit is {WINDOWS}")
            }
            WindowErrorKind::TooLong(bytes) => {
                write!(f, "the windows have {bytes} bytes, the limit is {WINDOWS_BYTES}")
            }
        }
    }
}
