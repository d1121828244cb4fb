//! Up to which id the number of a rule has been applied.
//!
//! A pass goes from the oldest job up. To know how many newer jobs there are of those counted together, it needs the
//! number of all of them ([`CompletedCounts`](super::kept::CompletedCounts)) and the number of the older ones that were left.

use std::collections::HashMap;

use super::kept::CountOf;

/// All of these jobs with an id up to `id` are older than the number of the rule allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Floor {
    pub id: u64,
    /// How many of them are stored, because they are kept in any case.
    pub left: u64,
}

/// The floors of jobs that are counted together.
#[derive(Debug, Default)]
pub(super) struct Floors(HashMap<CountOf, Floor>);

impl Floors {
    pub fn get(&self, of: &CountOf) -> Floor {
        self.0.get(of).copied().unwrap_or_default()
    }

    /// How many jobs there are above the floor, of `count`.
    pub fn above(&self, of: &CountOf, count: u64) -> u64 {
        count.saturating_sub(self.get(of).left)
    }

    /// The rule's number was applied to this job.
    pub fn applied(&mut self, of: &CountOf, id: u64, stays: bool) {
        let floor = self.0.entry(of.clone()).or_default();
        if id > floor.id {
            floor.id = id;
            floor.left += u64::from(stays);
        }
    }

    /// A job that was left below the floor is removed now.
    pub fn leaves(&mut self, of: &CountOf, id: u64) {
        if let Some(floor) = self.0.get_mut(of)
            && id <= floor.id
        {
            floor.left = floor.left.saturating_sub(1);
        }
    }

    /// A job has ended; whether that was below the floor.
    pub fn ended(&mut self, of: &CountOf, id: u64) -> bool {
        match self.0.get_mut(of) {
            Some(floor) if id <= floor.id => {
                floor.left += 1;
                true
            }
            _ => false,
        }
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}
