//! What a job takes from its worker while it runs: amounts of numeric abilities.
//!
//! Needs ask and leave things as they are; uses take. `gpu>=1` is true of a worker for every job at once, `gpu=1`
//! only until its GPUs are spoken for. A worker that does not speak of a resource has none of it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::parse;
use super::value::Value;
use super::{Abilities, Holder, Number, Reason, SelectorError, Unmet};

/// What a job uses of the worker that runs it. Cheap to clone; equal when the canonical texts are equal.
///
/// Only made by [`Uses::parse`]: each name stands once, in order, and every amount is above zero.
#[derive(Debug, Clone, Default)]
pub struct Uses(Option<Arc<Amounts>>);

/// The text decides the amounts, so identity is the text alone.
#[derive(Debug)]
struct Amounts {
    text: Box<str>,
    amounts: Box<[(Box<str>, Number)]>,
}

impl Uses {
    /// Reads `gpu=1, mem_gb=8`; an empty text uses nothing.
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
        parse::check_canonical(text, canonical.len())?;
        Ok(Self(Some(Arc::new(Amounts { text: canonical.into(), amounts }))))
    }

    /// The canonical text: sorted by name, numbers and spacing normalised.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", |amounts| &amounts.text)
    }

    /// Whether nothing is used, so that a free slot is all it takes.
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

    /// Whether a worker with these abilities has all of it while it does nothing else. Does not allocate.
    #[must_use]
    pub fn fits(&self, abilities: &Abilities) -> bool {
        self.iter().all(|(name, amount)| failure(amount, abilities.get(name)).is_none())
    }

    /// What such a worker has too little of even while it does nothing else, by name.
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

/// Why this amount is not to be had of an ability.
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
            // Nearly all use nothing, and a comparison of texts that are not there is slow on some machines.
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
