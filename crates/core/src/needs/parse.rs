//! The grammar, by recursive descent. Nothing nests deeper than a list.
//!
//! ```text
//! selector  = [ term { "," term } ]
//! term      = "!" name | name [ operator scalar | ("in" | "notin") "(" scalars ")" ]
//! abilities = [ ability { "," ability } ]
//! ability   = name [ "=" ( scalar | "[" scalars "]" ) ]
//! uses      = [ name "=" number { "," name "=" number } ]
//! scalars   = scalar { "," scalar }
//! ```

use std::collections::BTreeMap;

use super::cursor::Cursor;
use super::number::Number;
use super::term::{Comparison, Condition, Term};
use super::value::{Scalar, Value};
use super::{
    ABILITIES_MAX, JOB_BOUNDS, Position, SERVER, SelectorError, SelectorErrorKind as Kind, TERMS_MAX,
    TextBounds, WORKER, WORKER_BOUNDS,
};

/// In the order of matching: a longer symbol before its prefix.
const COMPARISONS: [Comparison; 4] =
    [Comparison::AtLeast, Comparison::MoreThan, Comparison::AtMost, Comparison::LessThan];

/// Which facts a text refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vocabulary {
    /// Any name, with numbers.
    Abilities,
    /// The queue and type of a job, which are words only.
    Job,
}

/// Parses the terms of a selector in the order they are written.
pub(super) fn terms(
    text: &str,
    vocabulary: Vocabulary,
    bounds: TextBounds,
) -> Result<Vec<Term>, SelectorError> {
    let mut parser = Parser::new(text, vocabulary, bounds)?;
    let mut terms = Vec::new();
    while parser.has_another(terms.len(), TERMS_MAX, Kind::TooManyTerms)? {
        terms.push(parser.term()?);
    }
    Ok(terms)
}

/// Parses the abilities of a worker.
pub(super) fn abilities(text: &str) -> Result<BTreeMap<Box<str>, Value>, SelectorError> {
    let mut parser = Parser::new(text, Vocabulary::Abilities, WORKER_BOUNDS)?;
    let mut abilities = BTreeMap::new();
    while parser.has_another(abilities.len(), ABILITIES_MAX, Kind::TooManyAbilities)? {
        let start = parser.cursor.offset();
        let name = parser.name()?;
        if [WORKER, SERVER].contains(&&*name) {
            return Err(parser.cursor.error_at(start, Kind::ReservedAbility { name }));
        }
        if abilities.contains_key(&name) {
            return Err(parser.cursor.error_at(start, Kind::DuplicateAbility { name }));
        }
        abilities.insert(name, parser.ability_value()?);
    }
    Ok(abilities)
}

/// Parses what a job uses, by name.
pub(super) fn uses(text: &str) -> Result<BTreeMap<Box<str>, Number>, SelectorError> {
    let mut parser = Parser::new(text, Vocabulary::Abilities, JOB_BOUNDS)?;
    let mut uses = BTreeMap::new();
    while parser.has_another(uses.len(), TERMS_MAX, Kind::TooManyTerms)? {
        let start = parser.cursor.offset();
        let name = parser.name()?;
        if uses.contains_key(&name) {
            return Err(parser.cursor.error_at(start, Kind::DuplicateResource { name }));
        }
        let amount = parser.amount(&name)?;
        uses.insert(name, amount);
    }
    Ok(uses)
}

/// Rejects a text whose canonical form would be too long to be parsed again, because it has more spaces.
pub(super) fn check_canonical(text: &str, bytes: usize, bounds: TextBounds) -> Result<(), SelectorError> {
    if bytes <= bounds.bytes {
        return Ok(());
    }
    let kind = Kind::TextTooLong { bytes, most: bounds.bytes };
    Err(SelectorError { position: Position::of(text, text.len()), kind })
}

fn check_text(text: &str, most: usize) -> Result<(), SelectorError> {
    if text.len() > most {
        let end = text.floor_char_boundary(most);
        let kind = Kind::TextTooLong { bytes: text.len(), most };
        return Err(SelectorError { position: Position::of(text, end), kind });
    }
    match text.char_indices().find(|(_, character)| character.is_control()) {
        None => Ok(()),
        Some((offset, found)) => Err(SelectorError {
            position: Position::of(text, offset),
            kind: Kind::ControlCharacter { found },
        }),
    }
}

/// Parses one text. Names, values and lists are defined in `token.rs`.
pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) vocabulary: Vocabulary,
    pub(super) bounds: TextBounds,
    /// Whether the values of the current term are words, whatever they look like.
    pub(super) as_words: bool,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, vocabulary: Vocabulary, bounds: TextBounds) -> Result<Self, SelectorError> {
        check_text(text, bounds.bytes)?;
        Ok(Self { cursor: Cursor::new(text), vocabulary, bounds, as_words: vocabulary == Vocabulary::Job })
    }

    /// Whether another item follows those already read; moves past the comma to it.
    fn has_another(&mut self, read: usize, limit: usize, too_many: Kind) -> Result<bool, SelectorError> {
        self.cursor.skip_spaces();
        if self.cursor.at_end() {
            return Ok(false);
        }
        if read > 0 {
            self.comma()?;
        }
        if read == limit { Err(self.cursor.error(too_many)) } else { Ok(true) }
    }

    fn comma(&mut self) -> Result<(), SelectorError> {
        self.end_of_item("\",\"")?;
        self.cursor.eat(",");
        self.cursor.skip_spaces();
        Ok(())
    }

    fn end_of_item(&self, expected: &'static str) -> Result<(), SelectorError> {
        match self.cursor.peek() {
            None | Some(',') => Ok(()),
            Some(found) => Err(self.cursor.error(Kind::UnexpectedCharacter { found, expected })),
        }
    }

    fn term(&mut self) -> Result<Term, SelectorError> {
        if self.cursor.eat("!") {
            self.cursor.skip_spaces();
            return Ok(Term { name: self.name()?, condition: Condition::Absent });
        }
        let name = self.name()?;
        self.as_words = self.vocabulary == Vocabulary::Job || *name == *WORKER;
        let condition = self.condition(&name)?;
        Ok(Term { name, condition })
    }

    fn condition(&mut self, name: &str) -> Result<Condition, SelectorError> {
        let start = self.cursor.offset();
        if self.cursor.eat("=") {
            return self.scalar("=").map(Condition::Equal);
        }
        if self.cursor.eat("!=") {
            return self.scalar("!=").map(Condition::NotEqual);
        }
        if self.cursor.eat_word("in") {
            return self.round_list("in").map(Condition::In);
        }
        if self.cursor.eat_word("notin") {
            return self.round_list("notin").map(Condition::NotIn);
        }
        match COMPARISONS.into_iter().find(|comparison| self.cursor.eat(comparison.symbol())) {
            Some(comparison) => self.compare(name, start, comparison),
            None => self.end_of_item("an operator or \",\"").map(|()| Condition::Exists),
        }
    }

    fn compare(
        &mut self,
        name: &str,
        start: usize,
        comparison: Comparison,
    ) -> Result<Condition, SelectorError> {
        if self.as_words {
            let kind = Kind::NotComparable { name: name.into(), operator: comparison.symbol() };
            return Err(self.cursor.error_at(start, kind));
        }
        self.number(comparison.symbol()).map(|bound| Condition::Compare(comparison, bound))
    }

    fn ability_value(&mut self) -> Result<Value, SelectorError> {
        if !self.cursor.eat("=") {
            return self.end_of_item("\"=\" or \",\"").map(|()| Value::Flag);
        }
        match self.square_list()? {
            Some(entries) => Ok(Value::List(entries)),
            None => self.scalar("=").map(Scalar::into),
        }
    }
}
