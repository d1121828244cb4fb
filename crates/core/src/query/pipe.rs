//! The form of a query for people: commands with their arguments as words, and `|` between them.
//!
//! ```text
//! @sales.csv | clean | between 2026-01-01 2026-02-01 | by region
//! ```
//!
//! Words are as in a shell, with quotes and without any expansion, so a dash, a slash or a space needs no escape of
//! queries. The first stage may say what the query begins with: `@FILE`, `source:KEY`, or `-` for standard input. The
//! last one may be a file name. Links and designated steps can only be written as a URL.

use super::error::{QueryError, QueryErrorKind as Kind};
use super::parse::{CommandName, TEXT_BYTES_MAX};
use super::{Argument, FileName, Given, Query, STEPS_MAX, Source, SourceKey, Span, Step};

/// What a pipe begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipeHead {
    /// A local file.
    File(String),
    /// Stored data.
    Source(SourceKey),
    /// Standard input.
    Stdin,
}

/// A pipe as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipe {
    pub head: Option<PipeHead>,
    /// Without a source, unless the head names one.
    pub query: Query,
}

/// Whether a text is meant as a pipe: no text of a URL has a space or "|", or begins with "@".
#[must_use]
pub fn is_pipe(text: &str) -> bool {
    text.contains(['|', ' ', '\t', '\n'])
        || text.starts_with(['@', '\'', '"'])
        || text == "-"
        || text.starts_with("source:")
}

struct Word {
    text: String,
    /// Whether no part of it was quoted.
    bare: bool,
    span: Span,
}

impl Pipe {
    /// Reads a pipe.
    ///
    /// # Errors
    /// The first thing wrong with it, and where.
    pub fn parse(text: &str) -> Result<Pipe, QueryError> {
        if text.len() > TEXT_BYTES_MAX {
            let kind = Kind::TooLong { bytes: text.len(), most: TEXT_BYTES_MAX };
            return Err(QueryError::new(Span::new(TEXT_BYTES_MAX, text.len()), kind));
        }
        let mut stages = stages(text)?;
        let head = head(&stages[0])?;
        let mut query = Query::default();
        if let Some((head, span)) = &head {
            stages.remove(0);
            if let PipeHead::Source(key) = head {
                query.source = Some(Source { key: key.clone(), span: *span });
            }
        }
        if stages.last().is_some_and(|stage| is_file(stage)) {
            let word = stages.pop().and_then(|mut stage| stage.pop());
            query.file = word.map(|word| FileName::check(word.text, word.span)).transpose()?;
        }
        query.steps = stages.into_iter().map(step).collect::<Result<_, _>>()?;
        if let Some(step) = query.steps.get(STEPS_MAX) {
            return Err(QueryError::new(step.span, Kind::TooManySteps));
        }
        if query.steps.is_empty() && head.is_none() {
            return Err(QueryError::new(Span::new(0, text.len()), Kind::Empty));
        }
        let pipe = Pipe { head: head.map(|(head, _)| head), query };
        let bytes = pipe.query.text().len();
        if bytes > TEXT_BYTES_MAX {
            let kind = Kind::TooLong { bytes, most: TEXT_BYTES_MAX };
            return Err(QueryError::new(Span::new(0, text.len()), kind));
        }
        Ok(pipe)
    }
}

fn head(stage: &[Word]) -> Result<Option<(PipeHead, Span)>, QueryError> {
    let Some(word) = stage.first().filter(|word| word.bare) else { return Ok(None) };
    let head = if word.text == "-" {
        PipeHead::Stdin
    } else if let Some(file) = word.text.strip_prefix('@') {
        PipeHead::File(file.to_owned())
    } else if let Some(key) = word.text.strip_prefix("source:") {
        let key = SourceKey::new(key).map_err(|why| QueryError::new(word.span, Kind::BadKey { why }))?;
        PipeHead::Source(key)
    } else {
        return Ok(None);
    };
    let nameless = matches!(&head, PipeHead::File(file) if file.is_empty());
    match stage.get(1) {
        _ if nameless => Err(QueryError::new(word.span, Kind::BadHead { found: word.text.clone() })),
        Some(second) => Err(QueryError::new(second.span, Kind::BadHead { found: word.text.clone() })),
        None => Ok(Some((head, word.span))),
    }
}

/// A last stage of one word that cannot be a command.
fn is_file(stage: &[Word]) -> bool {
    matches!(stage, [word] if word.text.contains('.') && CommandName::new(&word.text).is_err())
}

fn step(words: Vec<Word>) -> Result<Step, QueryError> {
    let mut words = words.into_iter();
    // A stage has at least one word.
    let first = words.next().unwrap_or(Word { text: String::new(), bare: true, span: Span::default() });
    let command = CommandName::new(&first.text).map_err(|_| bad_command(&first))?;
    let mut span = first.span;
    let mut arguments = Vec::new();
    for word in words {
        span.end = word.span.end;
        if word.text.contains('\0') {
            return Err(QueryError::new(word.span, Kind::Nul));
        }
        arguments.push(Argument { given: Given::Text(word.text), span: word.span });
    }
    Ok(Step { on: None, command, arguments, span })
}

fn bad_command(word: &Word) -> QueryError {
    let wrong = word.text.char_indices().find(|&(at, c)| {
        let first = c.is_ascii_lowercase() || c == '_';
        !(first || (at > 0 && c.is_ascii_alphanumeric()))
    });
    let kind = match wrong {
        Some((0, found)) => Kind::CommandExpected { found },
        Some((_, _)) if word.text.contains('.') => Kind::FileNotLast,
        Some((_, found)) => Kind::CommandCharacter { found },
        None if word.text.is_empty() => Kind::EmptyStage,
        None => Kind::CommandTooLong { most: super::parse::COMMAND_CHARS_MAX },
    };
    QueryError::new(word.span, kind)
}

/// The words of every stage; each stage has one at least.
fn stages(text: &str) -> Result<Vec<Vec<Word>>, QueryError> {
    let mut stages = vec![Vec::new()];
    let mut rest = Words { text, at: 0 };
    let mut bar = Span::new(0, text.len());
    while let Some(token) = rest.next()? {
        match token {
            Token::Word(word) => {
                if let Some(stage) = stages.last_mut() {
                    stage.push(word);
                }
            }
            Token::Bar(_) if stages.len() > STEPS_MAX + 2 => {
                return Err(QueryError::new(bar, Kind::TooManySteps));
            }
            Token::Bar(span) => {
                bar = span;
                if stages.last().is_none_or(Vec::is_empty) {
                    return Err(QueryError::new(span, Kind::EmptyStage));
                }
                stages.push(Vec::new());
            }
        }
    }
    match (stages.last().is_none_or(Vec::is_empty), stages.len()) {
        (true, 1) => Err(QueryError::new(bar, Kind::Empty)),
        (true, _) => Err(QueryError::new(bar, Kind::EmptyStage)),
        (false, _) => Ok(stages),
    }
}

enum Token {
    Word(Word),
    Bar(Span),
}

struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl Words<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn next(&mut self) -> Result<Option<Token>, QueryError> {
        while self.peek().is_some_and(char::is_whitespace) {
            self.take();
        }
        let start = self.at;
        match self.peek() {
            None => return Ok(None),
            Some('|') => {
                self.take();
                return Ok(Some(Token::Bar(Span::new(start, self.at))));
            }
            Some(_) => {}
        }
        let (mut text, mut bare) = (String::new(), true);
        while let Some(c) = self.peek().filter(|c| !c.is_whitespace() && *c != '|') {
            let at = self.at;
            self.take();
            match c {
                '\'' | '"' => {
                    bare = false;
                    self.quoted(c, at, &mut text)?;
                }
                '\\' => {
                    bare = false;
                    text.extend(self.take());
                }
                _ => text.push(c),
            }
        }
        Ok(Some(Token::Word(Word { text, bare, span: Span::new(start, self.at) })))
    }

    /// In single quotes every character is itself; in double quotes a backslash goes before `"` and `\`.
    fn quoted(&mut self, quote: char, start: usize, text: &mut String) -> Result<(), QueryError> {
        loop {
            match self.take() {
                None => return Err(QueryError::new(Span::new(start, self.text.len()), Kind::UnclosedQuote)),
                Some(c) if c == quote => return Ok(()),
                Some('\\') if quote == '"' && matches!(self.peek(), Some('"' | '\\')) => {
                    text.extend(self.take());
                }
                Some(c) => text.push(c),
            }
        }
    }
}
