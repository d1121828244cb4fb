//! A position in a text, moved forward one character at a time.

use super::{Position, SelectorError, SelectorErrorKind};

#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, rest: text }
    }

    pub(super) const fn offset(&self) -> usize {
        self.text.len() - self.rest.len()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(super) const fn at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the next character.
    pub(super) fn next(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let character = rest.next();
        self.rest = rest.as_str();
        character
    }

    /// Takes this prefix if it is next.
    pub(super) fn eat(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes this word if it is next and ends there.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word).filter(|rest| !rest.starts_with(is_name));
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Takes the characters that fit, perhaps none.
    pub(super) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|character| !fits(character)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    pub(super) fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    /// An error at the next character.
    pub(super) fn error(&self, kind: SelectorErrorKind) -> SelectorError {
        self.error_at(self.offset(), kind)
    }

    pub(super) fn error_at(&self, offset: usize, kind: SelectorErrorKind) -> SelectorError {
        SelectorError { position: Position::of(self.text, offset), kind }
    }
}

/// Whether a character is read as part of a name. Uppercase is included, so that it can be rejected with a suggestion.
pub(super) fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_.-".contains(character)
}
