//! What the jobs of one worker use together, and what that leaves of its abilities.
//!
//! It is counted per worker and not per session: a worker may hold attempts in several sessions and reconnects in a
//! new one after a crash, with the same GPUs. The worker declares its total each time, so taking only counts; whether
//! enough is left is checked before.
//!
//! A worker is reserved for a job that is passed over repeatedly: other jobs may take only what leaves enough for it
//! ([`Taken::leaves_beside`]). From then on, what it lacks is only returned and what is free for it stays free, so it
//! starts at the latest when the jobs that ran at that time have ended.

use std::collections::BTreeMap;
use std::fmt;

use super::value::Value;
use super::{Abilities, Number, Uses};

/// How much is in use of each resource of one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken(BTreeMap<Box<str>, Thousandths>);

/// Wide enough that no number of attempts overflows it.
type Thousandths = i128;

/// A resource of which too little is left for a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shortage {
    /// The resource.
    pub name: Box<str>,
    /// How much the job uses.
    pub asked: Number,
    /// How much is left now.
    pub left: Number,
    /// How much the worker has in all.
    pub total: Number,
}

impl Taken {
    /// Adds what one more job uses. Attempts of a reconnecting worker are counted even if the worker now has less.
    pub fn take(&mut self, uses: &Uses) {
        for (name, amount) in uses.iter() {
            match self.0.get_mut(name) {
                Some(taken) => *taken += wide(amount),
                None => {
                    self.0.insert(name.into(), wide(amount));
                }
            }
        }
    }

    /// Returns everything that a job used; returns false and changes nothing if less than that is in use.
    #[must_use]
    pub fn give_back(&mut self, uses: &Uses) -> bool {
        if !uses.iter().all(|(name, amount)| self.of(name) >= wide(amount)) {
            return false;
        }
        for (name, amount) in uses.iter() {
            match self.0.get_mut(name) {
                Some(taken) if *taken > wide(amount) => *taken -= wide(amount),
                _ => {
                    self.0.remove(name);
                }
            }
        }
        true
    }

    /// Whether enough is left of these abilities for a job. Does not allocate.
    #[must_use]
    pub fn leaves(&self, abilities: &Abilities, uses: &Uses) -> bool {
        uses.iter().all(|(name, amount)| self.left(abilities, name) >= wide(amount))
    }

    /// Whether a job can be taken without using what another one waits for: of each resource that both use, enough is
    /// left for the other.
    #[must_use]
    pub fn leaves_beside(&self, abilities: &Abilities, uses: &Uses, other: &Uses) -> bool {
        uses.iter().all(|(name, amount)| {
            let kept = other.get(name).map_or(0, wide);
            self.left(abilities, name) >= wide(amount) + kept
        })
    }

    /// The resources of which too little is left for a job, by name.
    #[must_use]
    pub fn missing(&self, abilities: &Abilities, uses: &Uses) -> Vec<Shortage> {
        let short = uses.iter().filter_map(|(name, asked)| {
            let left = self.left(abilities, name);
            let shortage = || Shortage {
                name: name.into(),
                asked,
                left: narrow(left),
                total: narrow(total(abilities, name)),
            };
            (left < wide(asked)).then(shortage)
        });
        short.collect()
    }

    /// Every resource in use, with its amount, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Number)> {
        self.0.iter().map(|(name, taken)| (&**name, narrow(*taken)))
    }

    /// Whether nothing is in use.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, name: &str) -> Thousandths {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Never below zero, even if more is in use than the worker has.
    fn left(&self, abilities: &Abilities, name: &str) -> Thousandths {
        (total(abilities, name) - self.of(name)).max(0)
    }
}

/// The total of a resource; zero if it is not a number above zero.
fn total(abilities: &Abilities, name: &str) -> Thousandths {
    match abilities.get(name) {
        Some(Value::Number(total)) => wide(*total).max(0),
        _ => 0,
    }
}

fn wide(number: Number) -> Thousandths {
    Thousandths::from(number.thousandths())
}

/// The nearest number that can be represented.
fn narrow(thousandths: Thousandths) -> Number {
    let largest = Thousandths::from(i64::MAX);
    Number::from_thousandths(i64::try_from(thousandths.min(largest)).unwrap_or(i64::MAX))
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, taken)) in self.iter().enumerate() {
            write!(f, "{}{name}={taken}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}: {} of {} left", self.name, self.asked, self.left, self.total)
    }
}
