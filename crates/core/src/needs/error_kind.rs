//! The kinds of errors in a text, and their messages.

use std::fmt;

use super::{ABILITIES_MAX, DECIMALS_MAX, NAME_CHARS_MAX, Number, SERVER, TERMS_MAX, VALUE_CHARS_MAX};

/// What can be wrong with a text of needs, uses, accepts or abilities.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SelectorErrorKind {
    /// Another character is expected here.
    UnexpectedCharacter {
        /// The character found.
        found: char,
        /// What is expected, in words.
        expected: &'static str,
    },
    /// A term or ability is empty.
    MissingName,
    /// An operator, bracket or comma without its value.
    MissingValue {
        /// What precedes it.
        after: &'static str,
    },
    /// `in` or `notin` without its list.
    MissingList {
        /// What precedes it.
        after: &'static str,
    },
    /// A comparison with something that is not a number.
    NumberExpected {
        /// What precedes it.
        after: &'static str,
    },
    /// More decimals than are supported.
    NumberTooPrecise {
        /// As it was written.
        number: Box<str>,
    },
    /// Beyond the range of numbers.
    NumberTooLarge {
        /// As it was written.
        number: Box<str>,
    },
    /// The list that starts here does not end.
    UnclosedList,
    /// The quote that starts here does not end.
    UnclosedQuote,
    /// The list that starts here has no entries.
    EmptyList,
    /// This entry is one too many.
    ListTooLong {
        /// The limit.
        most: usize,
    },
    /// In quotes, a backslash may precede only a quote or a backslash.
    UnknownEscape {
        /// The character found.
        found: char,
    },
    /// This name is too long.
    NameTooLong {
        /// How long it is.
        chars: usize,
    },
    /// This value is too long.
    ValueTooLong {
        /// How long it is.
        chars: usize,
    },
    /// The text, or its canonical form, is too long.
    TextTooLong {
        /// How long it is.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// This term is one too many.
    TooManyTerms,
    /// This ability is one too many.
    TooManyAbilities,
    /// A control character: NUL, tab, line end, escape.
    ControlCharacter {
        /// The character found.
        found: char,
    },
    /// A fact of every worker, or the ability of the server, is given as an ability.
    ReservedAbility {
        /// The name as it was written.
        name: Box<str>,
    },
    /// An ability is given twice.
    DuplicateAbility {
        /// The name as it was written.
        name: Box<str>,
    },
    /// A resource is given twice.
    DuplicateResource {
        /// The name as it was written.
        name: Box<str>,
    },
    /// A resource without an amount.
    MissingAmount {
        /// The name as it was written.
        name: Box<str>,
    },
    /// The amount of a resource is not a number above zero.
    BadAmount {
        /// As it was written.
        amount: Box<str>,
        /// The resource and amount that were probably meant.
        did_you_mean: Option<Box<str>>,
    },
    /// Names are lowercase.
    UppercaseName {
        /// The name as it was written.
        name: Box<str>,
        /// The same in lowercase.
        did_you_mean: Box<str>,
    },
    /// Only `queue` and `type` can be used in accepts.
    UnknownName {
        /// The name as it was written.
        name: Box<str>,
        /// The name that was probably meant.
        did_you_mean: Option<&'static str>,
    },
    /// A queue and a type are words and cannot be compared as numbers.
    NotComparable {
        /// The name as it was written.
        name: Box<str>,
        /// The comparison.
        operator: &'static str,
    },
}

impl SelectorErrorKind {
    /// How to correct it, if the message does not show it.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NumberTooPrecise { .. } | Self::NumberTooLarge { .. } => {
                "; put it in quotes to make it a word".to_owned()
            }
            Self::ReservedAbility { name } if **name == *SERVER => "; only the server has it".to_owned(),
            Self::ReservedAbility { .. } => "; it is the name of the worker, from its token".to_owned(),
            Self::UppercaseName { did_you_mean, .. } => format!("; did you mean \"{did_you_mean}\"?"),
            Self::UnknownName { did_you_mean: Some(name), .. } => format!("; did you mean \"{name}\"?"),
            Self::UnknownName { did_you_mean: None, .. } => "; use \"queue\" or \"type\"".to_owned(),
            Self::MissingAmount { name } => format!("; did you mean \"{name}=1\"?"),
            Self::BadAmount { did_you_mean: Some(meant), .. } => format!("; did you mean \"{meant}\"?"),
            _ => String::new(),
        }
    }
}

impl fmt::Display for SelectorErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedCharacter { found, expected } => {
                write!(f, "expected {expected}, found {found:?},")
            }
            Self::MissingName => f.write_str("expected a name"),
            Self::MissingValue { after } => write!(f, "expected a value after \"{after}\""),
            Self::MissingList { after } => write!(f, "expected a list in ( ) after \"{after}\""),
            Self::NumberExpected { after } => write!(f, "expected a number after \"{after}\""),
            Self::NumberTooPrecise { number } => {
                write!(f, "number {number} has more than {DECIMALS_MAX} decimals")
            }
            Self::NumberTooLarge { number } => write!(f, "number {number} is out of range"),
            Self::UnclosedList => f.write_str("unclosed list"),
            Self::UnclosedQuote => f.write_str("unclosed quote"),
            Self::EmptyList => f.write_str("empty list"),
            Self::ListTooLong { most } => write!(f, "more than {most} entries in a list"),
            Self::UnknownEscape { found } => write!(f, "unknown escape {found:?} after \"\\\""),
            Self::NameTooLong { chars } => {
                write!(f, "name of {chars} characters, over the limit of {NAME_CHARS_MAX},")
            }
            Self::ValueTooLong { chars } => {
                write!(f, "value of {chars} characters, over the limit of {VALUE_CHARS_MAX},")
            }
            Self::TextTooLong { bytes, most } => {
                write!(f, "text of {bytes} bytes, over the limit of {most},")
            }
            Self::TooManyTerms => write!(f, "more than {TERMS_MAX} terms"),
            Self::TooManyAbilities => write!(f, "more than {ABILITIES_MAX} abilities"),
            Self::ControlCharacter { found } => write!(f, "control character U+{:04X}", u32::from(*found)),
            Self::ReservedAbility { name } => write!(f, "ability \"{name}\" is reserved"),
            Self::DuplicateAbility { name } => write!(f, "ability \"{name}\" is given a second time"),
            Self::DuplicateResource { name } => write!(f, "resource \"{name}\" is given a second time"),
            Self::MissingAmount { name } => write!(f, "expected \"=\" and an amount after \"{name}\""),
            Self::BadAmount { amount, .. } => {
                let largest = Number::from_thousandths(i64::MAX);
                write!(
                    f,
                    "amount {amount} is not a number from 0.001 to {largest} with {DECIMALS_MAX} decimals at most"
                )
            }
            Self::UppercaseName { name, .. } => write!(f, "name \"{name}\" is not lowercase"),
            Self::UnknownName { name, .. } => write!(f, "unknown name \"{name}\""),
            Self::NotComparable { name, operator } => {
                write!(f, "\"{name}\" is a word and cannot be compared by \"{operator}\"")
            }
        }
    }
}
