//! What plans are made from: data and recipes by key, and the answers of checks.

use std::sync::Arc;

use jobhall_core::Time;
use jobhall_core::query::{Facts, Identity, Query, SourceDigest, SourceKey};

use crate::checks::Checks;
use crate::recipes::Recipes;
use crate::sources::{Index, Sources};

/// Which answers of checks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// Those that are young enough, and those that came after this time.
    Current(Time),
    /// The last ones.
    Last,
}

/// What is known when a query is planned.
pub(crate) struct World<'a> {
    pub sources: &'a Index,
    pub recipes: &'a Recipes,
    pub checks: &'a Checks,
    pub answers: Answers,
}

impl Facts for World<'_> {
    fn data(&self, key: &SourceKey) -> Option<SourceDigest> {
        self.sources.digest(key)
    }

    fn recipe(&self, key: &SourceKey) -> Option<Arc<Query>> {
        self.recipes.query(key)
    }

    fn answer(&self, check: &Identity, every_ms: u64) -> Option<SourceDigest> {
        self.checks.answer(check, every_ms, self.answers)
    }
}

/// What is known without a read of records.
pub(crate) struct InMemory<'a> {
    pub sources: &'a Sources,
    pub recipes: &'a Recipes,
    pub checks: &'a Checks,
    pub now: Time,
}

impl Facts for InMemory<'_> {
    fn data(&self, key: &SourceKey) -> Option<SourceDigest> {
        self.sources.in_memory(key)
    }

    fn recipe(&self, key: &SourceKey) -> Option<Arc<Query>> {
        self.recipes.query(key).filter(|_| self.sources.is_absent(key))
    }

    fn answer(&self, check: &Identity, every_ms: u64) -> Option<SourceDigest> {
        self.checks.answer(check, every_ms, Answers::Current(self.now))
    }
}
