//! Matching: the abilities of a worker, the needs and uses of a job, and what a worker accepts.
//!
//! Matching is decided per class of jobs, so two needs that differ only in order or spacing must be one class.
//! Therefore every text here has one canonical form, and [`Needs`] is equal, ordered and hashed by it. The same
//! evaluator decides whether a worker matches and why it does not: it matches if there is no reason against it, so an
//! explanation cannot disagree with a decision.
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
//! `!=` and `notin` hold for an absent ability, as in Kubernetes selectors: "not on Windows" is true of a worker that
//! does not declare its system. Write `os, os!=windows` to require both.
//!
//! The name `worker` is no ability: it is a fact of every worker, its name from its credential. It is a word, so
//! `worker=7` is the worker named 7. It is not part of what makes workers equal, so terms about it are evaluated apart.
//!
//! A bare value made of digits (`2`, `-1`, `0.5`) is a number; in quotes (`"2"`) it is a word, and the two are never
//! equal. Names are lowercase; values keep their case. Only spaces separate: tabs and line ends are control
//! characters, which are not allowed.

mod ability;
mod accepts;
pub(crate) mod class;
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

use crate::name::{WorkerName, as_text};
use parse::Vocabulary;
use selector::Selector;
use value::Fact;

/// How long a text and the lists in it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextBounds {
    /// The longest text in bytes, as it was written and in its canonical form.
    pub bytes: usize,
    /// Maximum number of entries of a list, counted as written.
    pub entries: usize,
}

/// The bounds of the needs of a job and of what it uses.
pub const JOB_BOUNDS: TextBounds = TextBounds { bytes: 1_024, entries: 32 };
/// The bounds of the needs of a job whose type belongs to an application. Needs are parsed with these; the kernel,
/// which knows the type, refuses the needs of other jobs that are beyond [`JOB_BOUNDS`].
pub const RESERVED_BOUNDS: TextBounds = TextBounds { bytes: 16 << 10, entries: 256 };
/// The bounds of the abilities of a worker and of what it accepts.
pub const WORKER_BOUNDS: TextBounds = TextBounds { bytes: 128 << 10, entries: 2_048 };
/// Maximum number of terms in needs, uses or accepts, counted as written.
pub const TERMS_MAX: usize = 32;
/// Maximum number of abilities of one worker.
pub const ABILITIES_MAX: usize = 64;
/// The fact of every worker that is none of its abilities: its name.
pub const WORKER: &str = "worker";
/// The ability that only the server's own worker has.
pub const SERVER: &str = "jobhall-server";
/// The longest name, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// The longest word or number, in characters, without its quotes.
pub const VALUE_CHARS_MAX: usize = 128;
/// Maximum number of decimals of a number.
pub const DECIMALS_MAX: usize = 3;

/// The requirements of a job on its worker. Cheap to clone; equal when the canonical texts are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Needs(Arc<Selector>);

impl Needs {
    /// Parses comma-separated terms within [`RESERVED_BOUNDS`]; an empty text requires nothing.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let selector = Selector::parse(text, Vocabulary::Abilities, RESERVED_BOUNDS)?;
        Ok(Self(Arc::new(selector)))
    }

    /// The number of entries of the longest list.
    #[must_use]
    pub fn longest_list(&self) -> usize {
        self.0.longest_list()
    }

    /// The canonical text: terms sorted, each once, numbers and spacing normalised.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// Whether nothing is required, so that every worker matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    /// Whether every term about abilities holds for these. Does not allocate.
    #[must_use]
    pub fn satisfied_by(&self, abilities: &Abilities) -> bool {
        self.0.holds(|name| name != WORKER, |name| abilities.fact(name))
    }

    /// The terms about abilities that do not hold for these, in canonical order, each with its reason.
    #[must_use]
    pub fn unmet(&self, abilities: &Abilities) -> Vec<Unmet> {
        self.0.unmet(Holder::Worker, |name| name != WORKER, |name| abilities.fact(name))
    }

    /// Whether a term is about the name of the worker.
    #[must_use]
    pub fn names_worker(&self) -> bool {
        self.0.names(WORKER)
    }

    /// Whether every term about the name of the worker holds for this one. Does not allocate.
    #[must_use]
    pub fn admits(&self, worker: &WorkerName) -> bool {
        self.0.holds(|name| name == WORKER, |_| Some(Fact::Word(worker.as_str())))
    }

    /// The terms about the name of the worker that do not hold for this one.
    #[must_use]
    pub fn unmet_by(&self, worker: &WorkerName) -> Vec<Unmet> {
        self.0.unmet(Holder::Worker, |name| name == WORKER, |_| Some(Fact::Word(worker.as_str())))
    }
}

as_text!(Needs, Needs::parse);

impl Default for Needs {
    /// Nothing is required.
    fn default() -> Self {
        Self(Arc::new(Selector::default()))
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
