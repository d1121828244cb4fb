//! Why a term does not hold, as data and in words that name the thing to change.

use std::fmt;

use super::WORKER;
use super::term::Term;
use super::value::{Named, Value};

/// Maximum number of entries of a list in an explanation.
const ENTRIES_SHOWN: usize = 32;

/// Whose facts a selector was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The abilities of a worker, against the needs of a job.
    Worker,
    /// The queue and type of a job, against what a worker accepts.
    Job,
}

/// One term that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unmet {
    /// The term in its canonical text; of a long list, the first entries and the number of the others.
    pub term: Box<str>,
    /// The name the term is about.
    pub name: Box<str>,
    /// Whose facts fail it.
    pub holder: Holder,
    /// What is wrong with them.
    pub reason: Reason,
}

/// Why one term does not hold; `has` is what was found instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason<Has = Value> {
    /// It must be present and is not.
    Absent,
    /// It must be absent and is present.
    Present {
        /// What was found.
        has: Has,
    },
    /// It is none of the required values.
    Different {
        /// What was found.
        has: Has,
    },
    /// It is one of the values excluded by `!=` or `notin`.
    Excluded {
        /// What was found.
        has: Has,
    },
    /// The number is below what `>=` or `>` requires.
    TooSmall {
        /// What was found.
        has: Has,
    },
    /// The number is above what `<=` or `<` requires.
    TooLarge {
        /// What was found.
        has: Has,
    },
    /// A number is required; this is a word, a list or a bare flag.
    NotANumber {
        /// What was found.
        has: Has,
    },
}

impl<Has> Reason<Has> {
    /// The same in one word for machines: `absent`, `present`, `different`, `excluded`, `too_small`,
    /// `too_large` or `not_a_number`.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Present { .. } => "present",
            Self::Different { .. } => "different",
            Self::Excluded { .. } => "excluded",
            Self::TooSmall { .. } => "too_small",
            Self::TooLarge { .. } => "too_large",
            Self::NotANumber { .. } => "not_a_number",
        }
    }

    /// What was found instead; nothing when it is absent.
    #[must_use]
    pub const fn has(&self) -> Option<&Has> {
        match self {
            Self::Absent => None,
            Self::Present { has }
            | Self::Different { has }
            | Self::Excluded { has }
            | Self::TooSmall { has }
            | Self::TooLarge { has }
            | Self::NotANumber { has } => Some(has),
        }
    }

    pub(super) fn map<Other>(self, change: impl Fn(Has) -> Other) -> Reason<Other> {
        match self {
            Self::Absent => Reason::Absent,
            Self::Present { has } => Reason::Present { has: change(has) },
            Self::Different { has } => Reason::Different { has: change(has) },
            Self::Excluded { has } => Reason::Excluded { has: change(has) },
            Self::TooSmall { has } => Reason::TooSmall { has: change(has) },
            Self::TooLarge { has } => Reason::TooLarge { has: change(has) },
            Self::NotANumber { has } => Reason::NotANumber { has: change(has) },
        }
    }
}

impl Unmet {
    pub(super) fn new(term: &Term, holder: Holder, reason: Reason) -> Self {
        let text = fmt::from_fn(|f| term.write(f, ENTRIES_SHOWN)).to_string();
        Self { term: text.into(), name: term.name.clone(), holder, reason }
    }

    /// What was found instead, as it would be written: `gpu=2`. Nothing when it is absent.
    #[must_use]
    pub fn found(&self) -> Option<String> {
        self.reason.has().map(|has| self.named(has).to_string())
    }

    /// What was found, with the first entries of a long list.
    fn named(&self, has: &Value) -> impl fmt::Display {
        fmt::from_fn(move |f| Named(&self.name, has).write(f, ENTRIES_SHOWN))
    }

    /// A remark on the kind of value that was found.
    const fn remark(&self) -> &'static str {
        match &self.reason {
            Reason::NotANumber { has: Value::Flag } => ", which has no number",
            Reason::NotANumber { .. } => ", which is not a number",
            Reason::Different { has: Value::Flag } => ", which has no value",
            _ => "",
        }
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holder = match self.holder {
            Holder::Worker => "worker",
            Holder::Job => "job",
        };
        write!(f, "{}: this {holder} has ", self.term)?;
        match self.reason.has() {
            None => write!(f, "no {}", self.name),
            Some(Value::Word(name)) if *self.name == *WORKER => write!(f, "the name {name}"),
            Some(has) => write!(f, "{}{}", self.named(has), self.remark()),
        }
    }
}
