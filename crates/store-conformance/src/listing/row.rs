//! One line: a heading, then labels with values.

use std::fmt;

use jobhall_core::{Failure, Indicator, Json, Time};

/// A line of the listing.
#[derive(Clone, Debug)]
pub(super) struct Row(String);

impl Row {
    /// A line with this heading.
    pub(super) fn new(head: impl Into<String>) -> Row {
        Row(head.into())
    }

    /// Adds a label with its value.
    pub(super) fn with(mut self, label: &str, value: impl fmt::Display) -> Row {
        self.0.push_str(&format!(" {label}={value}"));
        self
    }

    /// Adds a label with its value, if there is one.
    pub(super) fn maybe(self, label: &str, value: Option<impl fmt::Display>) -> Row {
        match value {
            Some(value) => self.with(label, value),
            None => self,
        }
    }

    /// Adds the label alone, if the condition holds.
    pub(super) fn flag(mut self, label: &str, holds: bool) -> Row {
        if holds {
            self.0.push_str(&format!(" {label}"));
        }
        self
    }

    /// Adds a time in milliseconds since 1970, if there is one.
    pub(super) fn time(self, label: &str, at: Option<Time>) -> Row {
        self.maybe(label, at.map(Time::as_ms))
    }

    /// Adds values separated by commas, unless there are none.
    pub(super) fn list<T: fmt::Display>(self, label: &str, values: &[T]) -> Row {
        if values.is_empty() { self } else { self.with(label, joined(values, ",")) }
    }

    /// Adds measures of progress, unless there are none.
    pub(super) fn progress(self, progress: &[Indicator]) -> Row {
        if progress.is_empty() { self } else { self.with("progress", format!("{progress:?}")) }
    }

    pub(super) fn failure(self, label: &str, failure: Option<&Failure>) -> Row {
        let Some(Failure { reason, explanation, data }) = failure else { return self };
        let data = data.as_ref().map_or("", Json::as_str);
        self.with(label, format!("{reason}({explanation:?} {data})"))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Joins values with a separator.
pub(super) fn joined<T: fmt::Display>(values: impl IntoIterator<Item = T>, between: &str) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(between)
}
