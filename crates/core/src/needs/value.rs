//! Values of abilities: a bare flag, a number, a word, or a list of numbers and words.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use super::number::{Number, NumberFault};

/// One number or word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// A number, written bare.
    Number(Number),
    /// A word, written bare or in quotes.
    Word(Box<str>),
}

/// The value of an ability as the worker declares it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// The name alone: it is present.
    Flag,
    /// A number, as in `gpu=2`.
    Number(Number),
    /// A word, as in `os=linux`.
    Word(Box<str>),
    /// Sorted, each entry once, never empty, as in `lang=[python,rust]`.
    List(Box<[Scalar]>),
}

/// A borrowed [`Value`], so that facts that are not stored as values can be evaluated without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact<'a> {
    Flag,
    Number(Number),
    Word(&'a str),
    List(&'a [Scalar]),
}

impl Value {
    pub(super) fn fact(&self) -> Fact<'_> {
        match self {
            Self::Flag => Fact::Flag,
            Self::Number(number) => Fact::Number(*number),
            Self::Word(word) => Fact::Word(word),
            Self::List(entries) => Fact::List(entries),
        }
    }
}

impl Scalar {
    /// How it compares with a word, in the order of scalars.
    fn cmp_word(&self, word: &str) -> Ordering {
        match self {
            Self::Number(_) => Ordering::Less,
            Self::Word(own) => (**own).cmp(word),
        }
    }
}

impl From<Scalar> for Value {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Number(number) => Self::Number(number),
            Scalar::Word(word) => Self::Word(word),
        }
    }
}

impl Fact<'_> {
    /// Whether it is this scalar, or a list that holds it.
    pub(super) fn is(self, scalar: &Scalar) -> bool {
        match (self, scalar) {
            (Self::Number(number), Scalar::Number(wanted)) => number == *wanted,
            (Self::Word(word), Scalar::Word(wanted)) => *word == **wanted,
            (Self::List(entries), _) => entries.binary_search(scalar).is_ok(),
            _ => false,
        }
    }

    /// Whether it is one of these scalars, or a list that holds one of them. The scalars are sorted.
    pub(super) fn is_one_of(self, scalars: &[Scalar]) -> bool {
        match self {
            Self::Flag => false,
            Self::Number(number) => scalars.binary_search(&Scalar::Number(number)).is_ok(),
            Self::Word(word) => scalars.binary_search_by(|scalar| scalar.cmp_word(word)).is_ok(),
            Self::List(entries) => {
                let (few, many) =
                    if entries.len() < scalars.len() { (entries, scalars) } else { (scalars, entries) };
                few.iter().any(|scalar| many.binary_search(scalar).is_ok())
            }
        }
    }

    pub(super) fn to_value(self) -> Value {
        match self {
            Self::Flag => Value::Flag,
            Self::Number(number) => Value::Number(number),
            Self::Word(word) => Value::Word(word.into()),
            Self::List(entries) => Value::List(entries.into()),
        }
    }
}

/// An ability as it is written: `spot`, `gpu=2`, `lang=[python,rust]`.
pub(super) struct Named<'a>(pub &'a str, pub &'a Value);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, usize::MAX)
    }
}

impl Named<'_> {
    /// Writes it with at most this many entries of a list.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, entries: usize) -> fmt::Result {
        f.write_str(self.0)?;
        match self.1 {
            Value::Flag => Ok(()),
            Value::Number(number) => write!(f, "={number}"),
            Value::Word(word) => f.write_char('=').and_then(|()| write_word(f, word)),
            Value::List(list) => write!(f, "=[{}]", Joined(list, entries)),
        }
    }
}

/// Scalars with commas between them, at most this many; the number of the others follows.
pub(super) struct Joined<'a>(pub &'a [Scalar], pub usize);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.0.iter().take(self.1).enumerate() {
            write!(f, "{}{entry}", if index == 0 { "" } else { "," })?;
        }
        match self.0.len().saturating_sub(self.1) {
            0 => Ok(()),
            more => write!(f, ",… {more} more"),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => write_word(f, word),
        }
    }
}

/// Whether a character may occur in a value without quotes.
pub(super) fn is_bare(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_.-/:@+".contains(character)
}

/// Bare where that reads back as the same word, otherwise in quotes.
fn write_word(f: &mut fmt::Formatter<'_>, word: &str) -> fmt::Result {
    let looks_like_word = Number::parse(word) == Err(NumberFault::NotANumber);
    if !word.is_empty() && word.chars().all(is_bare) && looks_like_word {
        return f.write_str(word);
    }
    f.write_char('"')?;
    for character in word.chars() {
        if matches!(character, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(character)?;
    }
    f.write_char('"')
}
