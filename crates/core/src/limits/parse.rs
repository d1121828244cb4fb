//! Parses a key expression.

use super::error::{ExpressionError, ExpressionErrorKind as Kind};
use super::expression::{NAMES, Source};
use super::path::{Step, is_bare, is_bare_start};
use super::{EXPRESSION_BYTES_MAX, PATH_MAX};
use crate::needs::{Position, did_you_mean};

const KNOWN: [&str; 8] = ["key", "owner", "queue", "type", "group", "schedule", "params", "tag"];

/// Returns the source, and the text before which its value is cut.
pub(super) fn expression(text: &str) -> Result<(Source, Option<Box<str>>), ExpressionError> {
    let mut reader = Reader { text, at: 0 };
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(reader.error_at(0, Kind::TextTooLong { bytes: text.len() }));
    }
    if let Some((at, found)) = text.char_indices().find(|(_, found)| found.is_control()) {
        return Err(reader.error_at(at, Kind::ControlCharacter { found }));
    }
    let (source, before) = reader.source()?;
    match reader.peek() {
        None => Ok((source, before)),
        Some(_) => Err(reader.expected(if before.is_some() { "nothing more" } else { "\".\" or the end" })),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// What follows a dot.
enum Part {
    Name(Box<str>),
    Before(Box<str>),
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += if is_next { wanted.len_utf8() } else { 0 };
        is_next
    }

    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|c| !is_bare(c)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn error_at(&self, at: usize, kind: Kind) -> ExpressionError {
        ExpressionError { position: Position::of(self.text, at), kind }
    }

    fn expected(&self, expected: &'static str) -> ExpressionError {
        let kind = match self.peek() {
            Some(found) => Kind::Unexpected { found, expected },
            None => Kind::Ends { expected },
        };
        self.error_at(self.at, kind)
    }

    fn source(&mut self) -> Result<(Source, Option<Box<str>>), ExpressionError> {
        let name = self.word();
        if name.is_empty() {
            return Err(self.expected("key, owner, queue, type, group, schedule, params.… or tag:…"));
        }
        if name == "params" {
            return self.params();
        }
        let source = match NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, source)) => source.clone(),
            None if name == "tag" => Source::Tag(self.tag()?),
            None => {
                let did_you_mean = did_you_mean(name, &KNOWN);
                return Err(self.error_at(0, Kind::UnknownName { name: name.into(), did_you_mean }));
            }
        };
        let before = if self.eat('.') { Some(self.before()?) } else { None };
        Ok((source, before))
    }

    fn tag(&mut self) -> Result<Box<str>, ExpressionError> {
        if !self.eat(':') {
            return Err(self.expected("\":\" and the name of a tag"));
        }
        match self.word() {
            "" => Err(self.expected("the name of a tag")),
            name => Ok(name.into()),
        }
    }

    fn params(&mut self) -> Result<(Source, Option<Box<str>>), ExpressionError> {
        let mut steps = Vec::new();
        loop {
            let start = self.at;
            let step = if self.eat('.') {
                match self.part()? {
                    Part::Name(name) => Step::Name(name),
                    Part::Before(_) if steps.is_empty() => {
                        return Err(self.error_at(start + 1, Kind::Ends { expected: "a name in params" }));
                    }
                    Part::Before(before) => return Ok((Source::Params(steps), Some(before))),
                }
            } else if self.eat('[') {
                self.bracket()?
            } else if steps.is_empty() {
                return Err(self.expected("\".\" or \"[\" and a name in params"));
            } else {
                return Ok((Source::Params(steps), None));
            };
            if steps.len() == PATH_MAX {
                return Err(self.error_at(start, Kind::PathTooDeep));
            }
            steps.push(step);
        }
    }

    /// A name in params, or the call that ends the expression.
    fn part(&mut self) -> Result<Part, ExpressionError> {
        let start = self.at;
        if !self.peek().is_some_and(is_bare_start) {
            return Err(self.expected("a name"));
        }
        let name = self.word();
        if self.peek() != Some('(') {
            return Ok(Part::Name(name.into()));
        }
        self.at = start;
        self.before().map(Part::Before)
    }

    fn before(&mut self) -> Result<Box<str>, ExpressionError> {
        let start = self.at;
        let name = self.word();
        if name.is_empty() {
            return Err(self.expected("before(\"…\")"));
        }
        if name != "before" {
            return Err(self.error_at(start, Kind::UnknownFunction { name: name.into() }));
        }
        if !self.eat('(') {
            return Err(self.expected("\"(\""));
        }
        let start = self.at;
        let text = self.quoted()?;
        if text.is_empty() {
            return Err(self.error_at(start, Kind::EmptySeparator));
        }
        if self.eat(')') { Ok(text) } else { Err(self.expected("\")\"")) }
    }

    fn bracket(&mut self) -> Result<Step, ExpressionError> {
        let start = self.at;
        let step = match self.peek() {
            Some('"') => Step::Name(self.quoted()?),
            Some(digit) if digit.is_ascii_digit() => {
                let digits = self.word();
                let index = digits.parse::<u32>();
                Step::Index(index.map_err(|_| self.error_at(start, index_fault(digits)))?)
            }
            _ => return Err(self.expected("a name in quotes or a position in a list")),
        };
        if self.eat(']') { Ok(step) } else { Err(self.expected("\"]\"")) }
    }

    fn quoted(&mut self) -> Result<Box<str>, ExpressionError> {
        let start = self.at;
        if !self.eat('"') {
            return Err(self.expected("a text in quotes"));
        }
        let mut text = String::new();
        loop {
            let Some(next) = self.peek() else { return Err(self.error_at(start, Kind::UnclosedQuote)) };
            self.at += next.len_utf8();
            match next {
                '"' => return Ok(text.into()),
                '\\' => match self.peek() {
                    Some(escaped @ ('"' | '\\')) => {
                        self.at += 1;
                        text.push(escaped);
                    }
                    Some(found) => return Err(self.error_at(self.at, Kind::UnknownEscape { found })),
                    None => return Err(self.error_at(start, Kind::UnclosedQuote)),
                },
                _ => text.push(next),
            }
        }
    }
}

/// Why digits are not an index: too many of them, or a letter among them.
fn index_fault(digits: &str) -> Kind {
    match digits.chars().find(|c| !c.is_ascii_digit()) {
        Some(found) => Kind::Unexpected { found, expected: "a number" },
        None => Kind::IndexTooLarge,
    }
}
