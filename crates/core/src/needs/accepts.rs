//! Which jobs a worker accepts: the grammar of needs, applied to two facts of the job.
//!
//! The queue and the type of a job are always words: `queue=7` is the queue named 7, and a comparison of either as a
//! number is rejected.

use std::fmt;
use std::sync::Arc;

use super::parse::Vocabulary;
use super::selector::Selector;
use super::value::Fact;
use super::{Holder, Reason, SelectorError, Unmet, WORKER_BOUNDS};
use crate::scope::Scope;

/// A worker's statement of which jobs it accepts. Cheap to clone; equal when the canonical texts are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Accepts {
    selector: Arc<Selector>,
    /// The queues that the worker's token may access, regardless of the statement.
    scope: Scope,
}

impl Accepts {
    /// Parses comma-separated terms over `queue` and `type`; an empty text accepts every job.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where; another name than these two is one.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Selector::parse(text, Vocabulary::Job, WORKER_BOUNDS).map(Self::of)
    }

    fn of(selector: Selector) -> Self {
        Self { selector: Arc::new(selector), scope: Scope::default() }
    }

    /// The same, restricted to these queues.
    #[must_use]
    pub fn within(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The canonical text: terms sorted, each once, spacing normalised.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.selector.text()
    }

    /// Whether a job of this type in this queue is accepted. Does not allocate.
    #[must_use]
    pub fn admits(&self, queue: &str, job_type: &str) -> bool {
        self.scope.reaches(queue) && self.selector.holds(|_| true, |name| fact(name, queue, job_type))
    }

    /// The terms that reject a job of this type in this queue, in canonical order.
    #[must_use]
    pub fn unmet(&self, queue: &str, job_type: &str) -> Vec<Unmet> {
        let mut unmet = self.selector.unmet(Holder::Job, |_| true, |name| fact(name, queue, job_type));
        if !self.scope.reaches(queue) {
            let term = format!("queues of its token ({})", self.scope).into();
            let reason = Reason::Different { has: Fact::Word(queue).to_value() };
            unmet.push(Unmet { term, name: "queue".into(), holder: Holder::Job, reason });
        }
        unmet
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
    /// Every job is accepted.
    fn default() -> Self {
        Self::of(Selector::default())
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
