//! Terms that must all hold, with their canonical text: the common part of needs and accepts.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::parse::{self, Vocabulary};
use super::term::Term;
use super::value::Fact;
use super::{Holder, Reason, SelectorError, TextBounds, Unmet};

/// The text determines the terms, so only the text is compared.
#[derive(Debug, Default)]
pub(super) struct Selector {
    text: Box<str>,
    terms: Box<[Term]>,
}

impl Selector {
    pub(super) fn parse(
        text: &str,
        vocabulary: Vocabulary,
        bounds: TextBounds,
    ) -> Result<Self, SelectorError> {
        let mut terms = parse::terms(text, vocabulary, bounds)?;
        terms.sort_unstable();
        terms.dedup();
        let canonical = terms.iter().map(Term::to_string).collect::<Vec<_>>().join(", ");
        parse::check_canonical(text, canonical.len(), bounds)?;
        Ok(Self { text: canonical.into(), terms: terms.into() })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The number of entries of the longest list.
    pub(super) fn longest_list(&self) -> usize {
        self.terms.iter().map(Term::list_len).max().unwrap_or(0)
    }

    /// Whether a term is about this name.
    pub(super) fn names(&self, name: &str) -> bool {
        self.terms.iter().any(|term| &*term.name == name)
    }

    /// Whether the terms about such names hold.
    pub(super) fn holds<'a>(
        &self,
        about: impl Fn(&str) -> bool,
        lookup: impl Fn(&str) -> Option<Fact<'a>>,
    ) -> bool {
        self.failing(about, lookup).next().is_none()
    }

    /// The terms about such names that do not hold.
    pub(super) fn unmet<'a>(
        &self,
        holder: Holder,
        about: impl Fn(&str) -> bool,
        lookup: impl Fn(&str) -> Option<Fact<'a>>,
    ) -> Vec<Unmet> {
        let failing = self.failing(about, lookup);
        failing.map(|(term, reason)| Unmet::new(term, holder, reason.map(Fact::to_value))).collect()
    }

    fn failing<'a>(
        &self,
        about: impl Fn(&str) -> bool,
        lookup: impl Fn(&str) -> Option<Fact<'a>>,
    ) -> impl Iterator<Item = (&Term, Reason<Fact<'a>>)> {
        let terms = self.terms.iter().filter(move |term| about(&term.name));
        terms.filter_map(move |term| term.failure(lookup(&term.name)).map(|reason| (term, reason)))
    }
}

impl PartialEq for Selector {
    fn eq(&self, other: &Self) -> bool {
        // Nearly all are empty, and a comparison of empty texts is slow on some machines.
        self.text.len() == other.text.len() && (self.text.is_empty() || self.text == other.text)
    }
}

impl Eq for Selector {}

impl Hash for Selector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for Selector {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Selector {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}
