//! What a job takes from its worker while it runs: amounts of numeric abilities.
//!
//! Needs only check; uses take. `gpu>=1` is true of a worker for every job at once, `gpu=1` only until its GPUs are in
//! use. A worker that does not declare a resource has none of it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::parse;
use super::value::Value;
use super::{Abilities, Holder, JOB_BOUNDS, Number, Reason, SelectorError, Unmet};
use crate::name::as_text;

/// What a job uses of the worker that runs it. Cheap to clone; equal when the canonical texts are equal.
///
/// Only created by [`Uses::parse`]: each name occurs once, in order, and every amount is above zero.
#[derive(Debug, Clone, Default)]
pub struct Uses(Option<Arc<Amounts>>);

/// The text determines the amounts, so only the text is compared.
#[derive(Debug)]
struct Amounts {
    text: Box<str>,
    amounts: Box<[(Box<str>, Number)]>,
}

as_text!(Uses, Uses::parse);

impl Uses {
    /// Parses `gpu=1, mem_gb=8`; an empty text uses nothing.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let amounts: Box<[_]> = parse::uses(text)?.into_iter().collect();
        if amounts.is_empty() {
            return Ok(Self(None));
        }
        let written = amounts.iter().map(|(name, amount)| format!("{name}={amount}"));
        let canonical = written.collect::<Vec<_>>().join(", ");
        parse::check_canonical(text, canonical.len(), JOB_BOUNDS)?;
        Ok(Self(Some(Arc::new(Amounts { text: canonical.into(), amounts }))))
    }

    /// The canonical text: sorted by name, numbers and spacing normalised.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", |amounts| &amounts.text)
    }

    /// Whether nothing is used, so that a free slot is sufficient.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Names and amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Number)> {
        let amounts = self.0.as_ref().map_or(&[][..], |amounts| &amounts.amounts);
        amounts.iter().map(|(name, amount)| (&**name, *amount))
    }

    /// How much of this resource is used, if any.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Number> {
        self.iter().find(|(used, _)| *used == name).map(|(_, amount)| amount)
    }

    /// Whether an idle worker with these abilities has enough of everything. Does not allocate.
    #[must_use]
    pub fn fits(&self, abilities: &Abilities) -> bool {
        self.iter().all(|(name, amount)| failure(amount, abilities.get(name)).is_none())
    }

    /// What an idle worker with these abilities has too little of, by name.
    #[must_use]
    pub fn unmet(&self, abilities: &Abilities) -> Vec<Unmet> {
        let failing = self.iter().filter_map(|(name, amount)| {
            let reason = failure(amount, abilities.get(name))?;
            let term = format!("{name}={amount}").into();
            Some(Unmet { term, name: name.into(), holder: Holder::Worker, reason })
        });
        failing.collect()
    }
}

/// Why an ability does not provide this amount.
fn failure(amount: Number, ability: Option<&Value>) -> Option<Reason> {
    match ability {
        None => Some(Reason::Absent),
        Some(Value::Number(has)) if *has >= amount => None,
        Some(has @ Value::Number(_)) => Some(Reason::TooSmall { has: has.clone() }),
        Some(has) => Some(Reason::NotANumber { has: has.clone() }),
    }
}

impl fmt::Display for Uses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Uses {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // Nearly all use nothing, and a comparison of missing texts is slow on some machines.
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.text == other.text,
            _ => false,
        }
    }
}

impl Eq for Uses {}

impl Hash for Uses {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialOrd for Uses {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uses {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}
