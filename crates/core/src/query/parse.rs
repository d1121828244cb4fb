//! The grammar, by recursive descent. Only links nest, at most 16 deep.

use std::fmt;

use super::error::{QueryError, QueryErrorKind as Kind};
use super::text::{is_plain, is_unreserved, meaning};
use super::{Argument, FileName, Given, LINK_DEPTH_MAX, Link, Query, STEPS_MAX, Source, Span, Step};
use crate::name::{WorkerName, as_text};

/// Longest text of a query in a URL, in bytes.
pub const URL_BYTES_MAX: usize = 8 << 10;
/// Longest text of a query in a body, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Longest name of a command, in characters.
pub const COMMAND_CHARS_MAX: usize = 48;
/// Longest key of a source, in bytes.
const KEY_BYTES_MAX: usize = 512;
/// Longest extension of a file name, in characters.
const EXTENSION_CHARS_MAX: usize = 16;
/// Longest file name, in bytes.
const FILE_BYTES_MAX: usize = 255;

/// The name of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandName(Box<str>);

impl CommandName {
    /// Checks the text.
    pub fn new(text: &str) -> Result<CommandName, CommandNameError> {
        let first = text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let rest = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if first && rest && text.len() <= COMMAND_CHARS_MAX {
            Ok(CommandName(text.into()))
        } else {
            Err(CommandNameError { found: text.chars().take(COMMAND_CHARS_MAX + 1).collect() })
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no name of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandNameError {
    /// The text, cut.
    pub found: String,
}

impl fmt::Display for CommandNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no name of a command: up to {COMMAND_CHARS_MAX} letters, digits and \"_\", beginning with a \
             lower-case letter or \"_\"",
            self.found
        )
    }
}

impl std::error::Error for CommandNameError {}

as_text!(CommandName, CommandName::new);

/// The key of a source: names separated by `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKey(Box<str>);

impl SourceKey {
    /// Checks the text; the error completes "the key of a source …".
    pub fn new(text: &str) -> Result<SourceKey, &'static str> {
        if text.len() > KEY_BYTES_MAX {
            return Err("has at most 512 bytes");
        }
        if text.chars().any(char::is_control) {
            return Err("has no control characters");
        }
        match text.split('/').find_map(|name| match name {
            "" => Some("has no empty names"),
            "." | ".." | "-" => Some("has no name that is \".\", \"..\" or \"-\""),
            _ => None,
        }) {
            Some(why) => Err(why),
            None => Ok(SourceKey(text.into())),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for SourceKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(SourceKey, SourceKey::new);

impl FileName {
    pub(super) fn check(name: String, span: Span) -> Result<FileName, QueryError> {
        let file = FileName { name, span };
        let extension = file.extension();
        let short = (1..=EXTENSION_CHARS_MAX).contains(&extension.len());
        let plain = extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let safe =
            !file.name.chars().any(|c| c.is_control() || c == '/') && file.name.len() <= FILE_BYTES_MAX;
        if short && plain && safe { Ok(file) } else { Err(QueryError::new(span, Kind::BadFile)) }
    }
}

impl Query {
    /// Reads the text of a query of at most this many bytes, as it is and in its canonical form.
    ///
    /// # Errors
    /// The first thing wrong with it, and where.
    pub fn parse(text: &str, most: usize) -> Result<Query, QueryError> {
        check_length(text.len(), most, text)?;
        let mut parser = Parser::new(text)?;
        let query = parser.query()?;
        check_length(query.text().len(), most, text)?;
        Ok(query)
    }
}

fn check_length(bytes: usize, most: usize, text: &str) -> Result<(), QueryError> {
    let whole = Span::new(most, text.len());
    if bytes > most { Err(QueryError::new(whole, Kind::TooLong { bytes, most })) } else { Ok(()) }
}

/// One character of a text, after `%HH` was read: an unreserved one is the same as the character itself, and any other
/// is a byte of an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Symbol {
    Char(char),
    Byte(u8),
}

struct Parser {
    symbols: Vec<Symbol>,
    /// Where each symbol begins, and where the text ends.
    offsets: Vec<usize>,
    at: usize,
    depth: usize,
    steps: usize,
}

impl Parser {
    fn new(text: &str) -> Result<Parser, QueryError> {
        let mut parser = Parser { symbols: Vec::new(), offsets: Vec::new(), at: 0, depth: 0, steps: 0 };
        let mut rest = text.char_indices();
        while let Some((at, c)) = rest.next() {
            let symbol = if c == '%' {
                let digits = text.get(at + 1..at + 3).and_then(hex_byte);
                let wrong = QueryError::new(Span::new(at, at + 1), Kind::BadPercent);
                let byte = digits.ok_or(wrong)?;
                rest.nth(1);
                if is_unreserved(byte) { Symbol::Char(char::from(byte)) } else { Symbol::Byte(byte) }
            } else {
                Symbol::Char(c)
            };
            parser.symbols.push(symbol);
            parser.offsets.push(at);
        }
        parser.offsets.push(text.len());
        Ok(parser)
    }

    fn char_at(&self, at: usize) -> Option<char> {
        match self.symbols.get(at)? {
            Symbol::Char(c) => Some(*c),
            Symbol::Byte(_) => None,
        }
    }

    fn is_next(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.char_at(self.at + ahead) == Some(c))
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.is_next(text);
        self.at += if found { text.chars().count() } else { 0 };
        found
    }

    fn span_from(&self, start: usize) -> Span {
        Span::new(self.offsets[start], self.offsets[self.at])
    }

    /// An error about the next `symbols`.
    fn error(&self, symbols: usize, kind: Kind) -> QueryError {
        let end = (self.at + symbols).min(self.symbols.len());
        QueryError::new(Span::new(self.offsets[self.at], self.offsets[end]), kind)
    }

    fn error_from(&self, start: usize, kind: Kind) -> QueryError {
        QueryError::new(self.span_from(start), kind)
    }

    fn unexpected(&self) -> QueryError {
        let found = match self.symbols.get(self.at) {
            Some(Symbol::Char(c)) => *c,
            Some(Symbol::Byte(byte)) => char::from(*byte),
            None => return self.error(0, Kind::EmptyPart),
        };
        self.error(1, Kind::Unexpected { found })
    }

    /// Whether the query that is read ends here: at the end of the text, or of the link.
    fn at_end(&self) -> bool {
        self.at == self.symbols.len() || (self.depth > 0 && self.is_next("~E"))
    }

    fn query(&mut self) -> Result<Query, QueryError> {
        if self.depth == 0 {
            self.eat("/");
        }
        let start = self.at;
        let mut query = Query { source: self.source()?, ..Query::default() };
        while !self.at_end() {
            if query.source.is_some() || !query.steps.is_empty() {
                self.slash()?;
                // A slash at the end is read and not written.
                if self.at_end() {
                    break;
                }
            }
            if query.file.is_some() {
                return Err(self.error(0, Kind::FileNotLast));
            }
            if self.is_file() {
                query.file = Some(self.file()?);
            } else {
                query.steps.push(self.step()?);
            }
            if query.file.is_some() {
                self.end_of_file()?;
            }
        }
        if query.source.is_none() && query.steps.is_empty() {
            let kind = if self.depth > 0 { Kind::EmptyLink } else { Kind::Empty };
            return Err(self.error_from(start, kind));
        }
        Ok(query)
    }

    fn slash(&mut self) -> Result<(), QueryError> {
        if !self.eat("/") {
            return Err(self.unexpected());
        }
        if self.is_next("/") { Err(self.error(1, Kind::EmptyPart)) } else { Ok(()) }
    }

    /// Nothing but a slash may follow a file name.
    fn end_of_file(&mut self) -> Result<(), QueryError> {
        let slash = self.eat("/");
        match (self.at_end(), slash) {
            (true, _) => Ok(()),
            (false, true) => Err(self.error(1, Kind::FileNotLast)),
            (false, false) => Err(self.unexpected()),
        }
    }

    fn source(&mut self) -> Result<Option<Source>, QueryError> {
        let start = self.at;
        if !self.eat("-R/") {
            return Ok(None);
        }
        let first = self.at;
        let mut names: Vec<String> = Vec::new();
        while !self.ends_key() {
            if self.at_end() {
                let kind = Kind::KeyNotClosed { key: names.join("/") };
                return Err(self.error_from(start, kind));
            }
            let name = self.text(true)?;
            if name.contains('/') {
                let why = "has no \"/\" within a name";
                return Err(self.error_from(first, Kind::BadKey { why }));
            }
            names.push(name);
            self.eat("/");
        }
        let span = self.span_from(first);
        let key = SourceKey::new(&names.join("/"));
        let key = key.map_err(|why| QueryError::new(span, Kind::BadKey { why }))?;
        self.at += 1;
        Ok(Some(Source { key, span: self.span_from(start) }))
    }

    /// Whether the next part is "-" alone.
    fn ends_key(&self) -> bool {
        self.is_next("-") && self.part_ends(self.at + 1)
    }

    /// Whether a part ends at this symbol.
    fn part_ends(&self, at: usize) -> bool {
        let link_ends = self.depth > 0 && self.char_at(at) == Some('~') && self.char_at(at + 1) == Some('E');
        at == self.symbols.len() || self.char_at(at) == Some('/') || link_ends
    }

    fn is_file(&self) -> bool {
        let mut dots = false;
        let mut at = self.at;
        while let Some(symbol) = self.symbols.get(at) {
            match symbol {
                Symbol::Char('/') => break,
                Symbol::Char('-') => return false,
                Symbol::Char('~') if self.depth > 0 && self.char_at(at + 1) == Some('E') => break,
                Symbol::Char('~') => at += 1,
                Symbol::Char('.') => dots = true,
                _ => {}
            }
            at += 1;
        }
        dots
    }

    fn file(&mut self) -> Result<FileName, QueryError> {
        let start = self.at;
        let name = self.text(false)?;
        FileName::check(name, self.span_from(start))
    }

    fn step(&mut self) -> Result<Step, QueryError> {
        let start = self.at;
        if self.is_next("-R/") {
            return Err(self.error(3, Kind::SourceNotFirst));
        }
        let on = self.designated()?;
        let command = self.command()?;
        let mut arguments = Vec::new();
        while self.eat("-") {
            arguments.push(self.argument()?);
        }
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(self.error_from(start, Kind::TooManySteps));
        }
        Ok(Step { on, command, arguments, span: self.span_from(start) })
    }

    fn designated(&mut self) -> Result<Option<WorkerName>, QueryError> {
        let start = self.at;
        if !self.eat("-on-") {
            return Ok(None);
        }
        let first = self.at;
        let name = self.text(false)?;
        let worker = WorkerName::new(&name)
            .map_err(|why| self.error_from(first.min(self.at), Kind::BadWorker { why: why.to_string() }))?;
        if self.eat("/") && !self.at_end() {
            Ok(Some(worker))
        } else {
            Err(self.error_from(start, Kind::NobodyDesignated))
        }
    }

    fn command(&mut self) -> Result<CommandName, QueryError> {
        let start = self.at;
        match self.symbols.get(self.at) {
            Some(Symbol::Char(c)) if c.is_ascii_lowercase() || *c == '_' => {}
            Some(Symbol::Char(found)) => {
                return Err(self.error(1, Kind::CommandExpected { found: *found }));
            }
            _ => return Err(self.unexpected()),
        }
        let mut name = String::new();
        while let Some(c) = self.char_at(self.at).filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
            self.at += 1;
        }
        let ended = self.at_end() || matches!(self.char_at(self.at), Some('-' | '/'));
        if !ended {
            return Err(if self.is_next("~E") {
                self.error(2, Kind::EndWithoutLink)
            } else {
                self.unexpected()
            });
        }
        let long = Kind::CommandTooLong { most: COMMAND_CHARS_MAX };
        CommandName::new(&name).map_err(|_| self.error_from(start, long))
    }

    fn argument(&mut self) -> Result<Argument, QueryError> {
        let start = self.at;
        let given =
            if self.is_next("~X~") { Given::Link(self.link()?) } else { Given::Text(self.text(false)?) };
        Ok(Argument { given, span: self.span_from(start) })
    }

    fn link(&mut self) -> Result<Link, QueryError> {
        let start = self.at;
        self.eat("~X~");
        if self.depth == LINK_DEPTH_MAX {
            return Err(self.error_from(start, Kind::TooDeep));
        }
        self.depth += 1;
        let absolute = self.eat("/");
        let query = self.query()?;
        if !self.eat("~E") {
            return Err(self.error_from(start, Kind::UnclosedLink));
        }
        self.depth -= 1;
        let ended = self.at_end() || matches!(self.char_at(self.at), Some('-' | '/'));
        if !ended {
            return Err(if self.is_next("~E") {
                self.error(2, Kind::EndWithoutLink)
            } else {
                self.error(1, Kind::LinkInText)
            });
        }
        Ok(Link { absolute: absolute || query.source.is_some(), query })
    }

    /// Reads a text up to the next `/`, the end, and the next `-` unless a dash is a character as any other.
    fn text(&mut self, dash_is_plain: bool) -> Result<String, QueryError> {
        let start = self.at;
        let mut bytes = Vec::new();
        while !self.at_end() {
            match self.symbols[self.at] {
                Symbol::Char('/') => break,
                Symbol::Char('-') if !dash_is_plain => break,
                Symbol::Char('~') => self.escape(&mut bytes)?,
                Symbol::Char(c) if c == '-' || is_allowed(c) => {
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    self.at += 1;
                }
                Symbol::Char(_) => return Err(self.unexpected()),
                Symbol::Byte(byte) => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        if bytes.contains(&0) {
            return Err(self.error_from(start, Kind::Nul));
        }
        String::from_utf8(bytes).map_err(|_| self.error_from(start, Kind::NotUtf8))
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), QueryError> {
        let next = self.char_at(self.at + 1);
        if let Some(text) = next.and_then(meaning) {
            bytes.extend_from_slice(text.as_bytes());
            self.at += 2;
            return Ok(());
        }
        if self.is_next("~X~") {
            return Err(self.error(3, Kind::LinkInText));
        }
        if self.is_next("~E") {
            return Err(self.error(2, Kind::EndWithoutLink));
        }
        if next == Some('x') {
            let digits: String = (2..4).filter_map(|ahead| self.char_at(self.at + ahead)).collect();
            if let Some(byte) = hex_byte(&digits) {
                bytes.push(byte);
                self.at += 4;
                return Ok(());
            }
        }
        let length = if next == Some('x') { 4 } else { 2 };
        let found = (0..length).filter_map(|ahead| self.char_at(self.at + ahead)).collect();
        Err(self.error(length, Kind::UnknownEscape { found }))
    }
}

fn hex_byte(digits: &str) -> Option<u8> {
    let right = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    right.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// Characters that are read as themselves: those of a path segment in RFC 3986, and letters of other scripts.
fn is_allowed(c: char) -> bool {
    is_plain(c) || "+!$&'()*,;=:@".contains(c) || (!c.is_ascii() && !c.is_control())
}
