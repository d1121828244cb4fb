//! Names, numbers, words and lists: the tokens of the grammar.

use super::cursor::is_name;
use super::number::{Number, NumberFault};
use super::parse::{Parser, Vocabulary};
use super::suggest::did_you_mean;
use super::value::{Scalar, is_bare};
use super::{NAME_CHARS_MAX, SelectorError, SelectorErrorKind as Kind, VALUE_CHARS_MAX};

/// The facts of a job that accepts can refer to.
const JOB_NAMES: [&str; 2] = ["queue", "type"];

/// How a list is written.
struct Brackets {
    open: &'static str,
    close: &'static str,
    expected: &'static str,
}

/// In a term.
const ROUND: Brackets = Brackets { open: "(", close: ")", expected: "\",\" or \")\"" };
/// In an ability.
const SQUARE: Brackets = Brackets { open: "[", close: "]", expected: "\",\" or \"]\"" };

impl Parser<'_> {
    /// A name, and the spaces after it.
    pub(super) fn name(&mut self) -> Result<Box<str>, SelectorError> {
        match self.cursor.peek() {
            None | Some(',') => return Err(self.cursor.error(Kind::MissingName)),
            Some(first) if first.is_ascii_alphabetic() => {}
            Some(_) => return Err(self.unexpected("a name")),
        }
        let start = self.cursor.offset();
        let name = self.cursor.take_while(is_name);
        check_name(name, self.vocabulary).map_err(|kind| self.cursor.error_at(start, kind))?;
        self.cursor.skip_spaces();
        Ok(name.into())
    }

    /// A bare number, after a comparison.
    pub(super) fn number(&mut self, after: &'static str) -> Result<Number, SelectorError> {
        self.cursor.skip_spaces();
        let start = self.cursor.offset();
        match self.bare()? {
            Scalar::Number(number) => Ok(number),
            Scalar::Word(_) => Err(self.cursor.error_at(start, Kind::NumberExpected { after })),
        }
    }

    /// The amount of a resource: a number above zero after `=`.
    pub(super) fn amount(&mut self, name: &str) -> Result<Number, SelectorError> {
        if !self.cursor.eat("=") {
            return Err(self.cursor.error(Kind::MissingAmount { name: name.into() }));
        }
        self.cursor.skip_spaces();
        let start = self.cursor.offset();
        let text = self.cursor.take_while(is_bare);
        if text.is_empty() {
            return Err(self.cursor.error(Kind::MissingAmount { name: name.into() }));
        }
        self.check_length(start, text.len())?;
        let number = Number::parse(text).ok().filter(|number| number.thousandths() > 0);
        number.ok_or_else(|| {
            let did_you_mean = unit_in_name(name, text);
            self.cursor.error_at(start, Kind::BadAmount { amount: text.into(), did_you_mean })
        })
    }

    /// A number or a word.
    pub(super) fn scalar(&mut self, after: &'static str) -> Result<Scalar, SelectorError> {
        self.cursor.skip_spaces();
        match self.cursor.peek() {
            Some('"') => self.quoted().map(Scalar::Word),
            Some(first) if is_bare(first) => self.bare(),
            None | Some(',' | ')' | ']') => Err(self.cursor.error(Kind::MissingValue { after })),
            Some(_) => Err(self.unexpected("a value")),
        }
    }

    /// A value without quotes: a number if numbers are allowed and it looks like one, or a word.
    fn bare(&mut self) -> Result<Scalar, SelectorError> {
        let start = self.cursor.offset();
        let text = self.cursor.take_while(is_bare);
        self.check_length(start, text.len())?;
        if self.as_words {
            return Ok(Scalar::Word(text.into()));
        }
        let kind = match Number::parse(text) {
            Ok(number) => return Ok(Scalar::Number(number)),
            Err(NumberFault::NotANumber) => return Ok(Scalar::Word(text.into())),
            Err(NumberFault::TooPrecise) => Kind::NumberTooPrecise { number: text.into() },
            Err(NumberFault::TooLarge) => Kind::NumberTooLarge { number: text.into() },
        };
        Err(self.cursor.error_at(start, kind))
    }

    /// A word from its opening quote to its closing one.
    fn quoted(&mut self) -> Result<Box<str>, SelectorError> {
        let start = self.cursor.offset();
        self.cursor.eat("\"");
        let mut word = String::new();
        loop {
            word.push_str(self.cursor.take_while(|character| !matches!(character, '"' | '\\')));
            match self.cursor.next() {
                None => return Err(self.cursor.error_at(start, Kind::UnclosedQuote)),
                Some('"') => break,
                Some(_) => word.push(self.escaped(start)?),
            }
        }
        self.check_length(start, word.chars().count())?;
        Ok(word.into())
    }

    /// The character after a backslash, in the quotes that start there.
    fn escaped(&mut self, start: usize) -> Result<char, SelectorError> {
        match self.cursor.peek() {
            None => Err(self.cursor.error_at(start, Kind::UnclosedQuote)),
            Some(found @ ('"' | '\\')) => {
                self.cursor.next();
                Ok(found)
            }
            Some(found) => Err(self.cursor.error(Kind::UnknownEscape { found })),
        }
    }

    fn check_length(&self, start: usize, chars: usize) -> Result<(), SelectorError> {
        if chars > VALUE_CHARS_MAX {
            return Err(self.cursor.error_at(start, Kind::ValueTooLong { chars }));
        }
        Ok(())
    }

    /// The list that must follow `in` and `notin`.
    pub(super) fn round_list(&mut self, after: &'static str) -> Result<Box<[Scalar]>, SelectorError> {
        self.list(&ROUND)?.ok_or_else(|| self.cursor.error(Kind::MissingList { after }))
    }

    /// The list that may be the value of an ability.
    pub(super) fn square_list(&mut self) -> Result<Option<Box<[Scalar]>>, SelectorError> {
        self.list(&SQUARE)
    }

    /// A list, sorted and each entry once, if the next character opens one.
    fn list(&mut self, brackets: &Brackets) -> Result<Option<Box<[Scalar]>>, SelectorError> {
        self.cursor.skip_spaces();
        let start = self.cursor.offset();
        if !self.cursor.eat(brackets.open) {
            return Ok(None);
        }
        let mut entries = Vec::new();
        while self.has_entry(brackets, start, entries.len())? {
            entries.push(self.scalar(if entries.is_empty() { brackets.open } else { "," })?);
        }
        entries.sort_unstable();
        entries.dedup();
        Ok(Some(entries.into()))
    }

    /// Whether another entry follows those already read; moves past the comma to it, or past the end.
    fn has_entry(&mut self, brackets: &Brackets, start: usize, read: usize) -> Result<bool, SelectorError> {
        self.cursor.skip_spaces();
        if self.cursor.eat(brackets.close) {
            let empty = || self.cursor.error_at(start, Kind::EmptyList);
            return if read == 0 { Err(empty()) } else { Ok(false) };
        }
        if read > 0 && !self.cursor.at_end() && !self.cursor.eat(",") {
            return Err(self.unexpected(brackets.expected));
        }
        self.cursor.skip_spaces();
        if self.cursor.at_end() {
            return Err(self.cursor.error_at(start, Kind::UnclosedList));
        }
        let most = self.bounds.entries;
        if read == most { Err(self.cursor.error(Kind::ListTooLong { most })) } else { Ok(true) }
    }

    fn unexpected(&self, expected: &'static str) -> SelectorError {
        let found = self.cursor.peek().unwrap_or_default();
        self.cursor.error(Kind::UnexpectedCharacter { found, expected })
    }
}

/// `mem=8GB` as it was probably meant: amounts have no units, so the unit belongs in the name.
fn unit_in_name(name: &str, amount: &str) -> Option<Box<str>> {
    let digits = amount.find(|letter: char| letter.is_ascii_alphabetic())?;
    let (number, unit) = amount.split_at(digits);
    let number = Number::parse(number).ok().filter(|number| number.thousandths() > 0)?;
    Some(format!("{name}_{}={number}", unit.to_ascii_lowercase()).into())
}

fn check_name(name: &str, vocabulary: Vocabulary) -> Result<(), Kind> {
    if name.len() > NAME_CHARS_MAX {
        return Err(Kind::NameTooLong { chars: name.len() });
    }
    if name.bytes().any(|letter| letter.is_ascii_uppercase()) {
        let did_you_mean = name.to_ascii_lowercase().into();
        return Err(Kind::UppercaseName { name: name.into(), did_you_mean });
    }
    if vocabulary == Vocabulary::Job && !JOB_NAMES.contains(&name) {
        let did_you_mean = did_you_mean(name, &JOB_NAMES);
        return Err(Kind::UnknownName { name: name.into(), did_you_mean });
    }
    Ok(())
}
