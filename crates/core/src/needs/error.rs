//! Errors in a text, with their position.
//!
//! Every message is a lowercase fragment that follows "failed to read the needs:" and names the column, because users
//! type these texts into flags and files.

use std::error::Error;
use std::fmt;

use super::SelectorErrorKind;

/// Maximum number of characters before the caret, and in the line.
const CARET_BEFORE_MAX: usize = 60;
const CARET_LINE_MAX: usize = 80;

/// A position in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// Bytes before it.
    pub offset: usize,
    /// Characters before it, plus one.
    pub column: usize,
}

impl Position {
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.char_indices().take_while(|(start, _)| *start < offset).count();
        Self { offset, column: before + 1 }
    }
}

/// The first thing wrong with a text of needs, uses, accepts or abilities.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SelectorError {
    /// Where it is.
    pub position: Position,
    /// What it is.
    pub kind: SelectorErrorKind,
}

impl SelectorError {
    /// The text with a caret line under the position. A long text is cut to 80 characters around it, and
    /// control characters are replaced, so the two lines can always be printed.
    #[must_use]
    pub fn caret(&self, text: &str) -> String {
        let before = self.position.column.saturating_sub(1);
        let skipped = before.saturating_sub(CARET_BEFORE_MAX);
        let shown = text.chars().skip(skipped).take(CARET_LINE_MAX);
        let line: String = shown.map(|shown| if shown.is_control() { '\u{fffd}' } else { shown }).collect();
        format!("{line}\n{:>1$}", '^', before - skipped + 1)
    }
}

impl Error for SelectorError {}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at column {}{}", self.kind, self.position.column, self.kind.hint())
    }
}
