//! Who can do what: the abilities of a worker, the needs and uses of a job, and what a worker accepts.
//!
//! Matching is decided per class of jobs, so two needs that say the same in another order or spacing must be
//! one class. That is why every text here has one canonical form, and why [`Needs`] is equal, ordered and
//! hashed by it. The same evaluator answers "does it match" and "why not": the first is "the second has
//! nothing to say", so an explanation can never disagree with a decision.
//!
//! ```text
//! abilities   os=linux, gpu=2, lang=[rust,python], spot
//! needs       os=linux, gpu>=1, region in (eu,us), !spot
//! uses        gpu=1, mem_gb=8
//! accepts     queue in (mail,sms), type!=deploy
//! ```
//!
//! | term | holds when the ability | absent |
//! |---|---|---|
//! | `a=v` | is `v`, or is a list with `v` in it | no |
//! | `a!=v` | is anything else | yes |
//! | `a in (v,w)` | is one of these, or is a list with one of these in it | no |
//! | `a notin (v,w)` | is anything else | yes |
//! | `a>=1` `a>1` `a<=1` `a<1` | is a number, and compares so | no |
//! | `a` | is there, with any value or none | no |
//! | `!a` | | yes |
//!
//! `!=` and `notin` hold for an absent ability, as in Kubernetes selectors: "not on Windows" is true of a
//! worker that does not speak of its system. Write `os, os!=windows` to ask for both.
//!
//! A bare value made of digits (`2`, `-1`, `0.5`) is a number; in quotes (`"2"`) it is a word, and the two are
//! never equal. Names are lowercase; values keep their case. Only spaces separate: tabs and line ends are
//! control characters, which no text may hold.

mod ability;
mod accepts;
mod cursor;
mod error;
mod error_kind;
mod number;
mod parse;
mod selector;
mod suggest;
mod taken;
mod term;
mod token;
mod unmet;
mod uses;
mod value;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use ability::Abilities;
pub use accepts::Accepts;
pub use error::{Position, SelectorError};
pub use error_kind::SelectorErrorKind;
pub use number::Number;
pub use taken::{Shortage, Taken};
pub use unmet::{Holder, Reason, Unmet};
pub use uses::Uses;
pub use value::{Scalar, Value};

pub(crate) use suggest::{did_you_mean, slips};

use parse::Vocabulary;
use selector::Selector;

/// The longest text in bytes, as it was written and in its canonical form.
pub const TEXT_BYTES_MAX: usize = 1_024;
/// The most terms in needs, uses or accepts, counted as written.
pub const TERMS_MAX: usize = 32;
/// The most abilities of one worker.
pub const ABILITIES_MAX: usize = 64;
/// The longest name, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// The longest word or number, in characters, without its quotes.
pub const VALUE_CHARS_MAX: usize = 128;
/// The most entries of a list, counted as written.
pub const LIST_ENTRIES_MAX: usize = 32;
/// The most decimals of a number.
pub const DECIMALS_MAX: usize = 3;

/// What a job asks of the worker that runs it. Cheap to clone; equal when the canonical texts are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Needs(Arc<Selector>);

impl Needs {
    /// Reads comma separated terms; an empty text asks for nothing.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Selector::parse(text, Vocabulary::Abilities).map(|selector| Self(Arc::new(selector)))
    }

    /// The canonical text: terms sorted, each once, numbers and spacing normalised.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// Whether nothing is asked, so that every worker will do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    /// Whether every term holds for these abilities. Does not allocate.
    #[must_use]
    pub fn satisfied_by(&self, abilities: &Abilities) -> bool {
        self.0.holds(|name| abilities.fact(name))
    }

    /// The terms that do not hold for these abilities, in canonical order, each with its reason.
    #[must_use]
    pub fn unmet(&self, abilities: &Abilities) -> Vec<Unmet> {
        self.0.unmet(Holder::Worker, |name| abilities.fact(name))
    }
}

impl Default for Needs {
    /// Nothing is asked.
    fn default() -> Self {
        Self(Arc::new(Selector::default()))
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
