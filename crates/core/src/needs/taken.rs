//! What the jobs of one worker use together, and what that leaves of its abilities.
//!
//! It is counted per worker and not per session: a worker may hold attempts in several sessions and comes back in a new
//! one after a crash, and its GPUs are the same. What it has in all is what it says of itself each time; so taking is
//! only counting, and whether something is left is asked before.
//!
//! An old job that is passed over again and again is given a worker to itself: beside it only what leaves enough for it
//! is taken ([`Taken::leaves_beside`]). What it lacks is then only given back and what it has stays, so it starts at the
//! latest when the jobs that ran at that moment have ended.

use std::collections::BTreeMap;
use std::fmt;

use super::value::Value;
use super::{Abilities, Number, Uses};

/// How much is in use of each resource of one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken(BTreeMap<Box<str>, Thousandths>);

/// Wide enough that no number of attempts overflows it.
type Thousandths = i128;

/// One resource that a job would use and of which too little is left.
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
    /// Counts what one more job uses. Attempts that come back are counted even where the worker has less by now.
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

    /// Gives back all that a job used; says false and changes nothing where less than that is in use.
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

    /// Whether all that a job uses is left of these abilities. Does not allocate.
    #[must_use]
    pub fn leaves(&self, abilities: &Abilities, uses: &Uses) -> bool {
        uses.iter().all(|(name, amount)| self.left(abilities, name) >= wide(amount))
    }

    /// Whether a job can be taken without touching what another one waits for: of each resource that both use, so much
    /// is left that the other still has enough of it.
    #[must_use]
    pub fn leaves_beside(&self, abilities: &Abilities, uses: &Uses, other: &Uses) -> bool {
        uses.iter().all(|(name, amount)| {
            let kept = other.get(name).map_or(0, wide);
            self.left(abilities, name) >= wide(amount) + kept
        })
    }

    /// Of which resources too little is left for a job, by name.
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

    /// Every resource in use, with how much of it is, by name.
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

    /// Never below zero, even where more is in use than there is.
    fn left(&self, abilities: &Abilities, name: &str) -> Thousandths {
        (total(abilities, name) - self.of(name)).max(0)
    }
}

/// What there is of a resource; nothing where it is not a number above zero.
fn total(abilities: &Abilities, name: &str) -> Thousandths {
    match abilities.get(name) {
        Some(Value::Number(total)) => wide(*total).max(0),
        _ => 0,
    }
}

fn wide(number: Number) -> Thousandths {
    Thousandths::from(number.thousandths())
}

/// The nearest number that can be written.
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
