//! Which jobs a worker takes: the grammar of needs, turned around, over two facts of the job.
//!
//! The queue and the type of a job are words, whatever they look like: `queue=7` is the queue named 7, and
//! comparing either as a number is refused.

use std::fmt;
use std::sync::Arc;

use super::parse::Vocabulary;
use super::selector::Selector;
use super::value::Fact;
use super::{Holder, SelectorError, Unmet};

/// A worker's statement which jobs it takes. Cheap to clone; equal when the canonical texts are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Accepts(Arc<Selector>);

impl Accepts {
    /// Reads comma separated terms over `queue` and `type`; an empty text takes every job.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where; another name than these two is one.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Selector::parse(text, Vocabulary::Job).map(|selector| Self(Arc::new(selector)))
    }

    /// The canonical text: terms sorted, each once, spacing normalised.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.text()
    }

    /// Whether a job of this type in this queue is taken. Does not allocate.
    #[must_use]
    pub fn admits(&self, queue: &str, job_type: &str) -> bool {
        self.0.holds(|name| fact(name, queue, job_type))
    }

    /// The terms that keep a job of this type in this queue from being taken, in canonical order.
    #[must_use]
    pub fn unmet(&self, queue: &str, job_type: &str) -> Vec<Unmet> {
        self.0.unmet(Holder::Job, |name| fact(name, queue, job_type))
    }
}

fn fact<'a>(name: &str, queue: &'a str, job_type: &'a str) -> Option<Fact<'a>> {
    match name {
        "queue" => Some(Fact::Word(queue)),
        "type" => Some(Fact::Word(job_type)),
        _ => None,
    }
}

impl Default for Accepts {
    /// Every job is taken.
    fn default() -> Self {
        Self(Arc::new(Selector::default()))
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
