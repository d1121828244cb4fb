//! The places of one concurrency limit: which jobs have them, and which jobs have lent theirs.
//!
//! A job that waits for others keeps its place, and would wait forever if those needed a place of the same bucket.
//! Therefore it lends the place: one job at a time borrows it, and that job may itself wait and lend. A chain of jobs
//! on one place takes as much as its heaviest job, and only the last job of a chain runs.
//!
//! ```text
//!   grandparent (waits) ◀── parent (waits, on lent place) ◀── child (runs, on lent place)     one place
//! ```

use std::collections::BTreeMap;

use super::holders::{Holders, Place};
use crate::id::JobId;

/// The places of one bucket.
#[derive(Clone, Debug, Default)]
pub struct Places {
    taken: u64,
    jobs: Holders,
}

impl Places {
    /// The sum of the weights taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether no job has a place.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The jobs that have a place, with their weights, by id.
    pub fn holders(&self) -> Vec<(JobId, u32)> {
        let mut holders: Vec<_> = self.jobs.iter().map(|(id, place)| (id, place.weight)).collect();
        holders.sort_unstable();
        holders
    }

    /// Whether this job has a place.
    pub fn has(&self, id: JobId) -> bool {
        self.jobs.get(id).is_some()
    }

    /// The borrowed places: the lender, by borrower.
    pub fn borrowed(&self) -> BTreeMap<JobId, JobId> {
        self.jobs.iter().filter_map(|(id, place)| Some((id, place.on?))).collect()
    }

    /// The job that has borrowed the place of this job.
    pub fn lent_to(&self, lender: JobId) -> Option<JobId> {
        self.jobs.get(lender)?.lent_to
    }

    /// Whether a job of this weight can take a separate place under this limit.
    pub fn fits(&self, weight: u32, limit: u32) -> bool {
        weight == 0 || self.taken == 0 || self.taken + u64::from(weight) <= u64::from(limit)
    }

    /// Whether a job of this weight can borrow the place of a waiting job.
    pub fn fits_on(&self, lender: JobId, weight: u32, limit: u32) -> bool {
        if self.jobs.get(lender).is_none_or(|place| place.lent_to.is_some()) {
            return false;
        }
        let chain = self.chain(lender);
        let others = self.taken - chain;
        let together = chain.max(u64::from(weight));
        // A chain that does not grow is always allowed, even if a lowered limit is already exceeded.
        together == chain || others == 0 || others + together <= u64::from(limit)
    }

    /// Takes a place. Weight 0 takes none.
    pub fn take(&mut self, id: JobId, weight: u32) {
        if weight > 0 && self.jobs.get(id).is_none() {
            self.jobs.insert(id, Place::alone(weight));
            self.taken += u64::from(weight);
        }
    }

    /// Borrows the place of a waiting job.
    pub fn take_on(&mut self, lender: JobId, id: JobId, weight: u32) {
        if weight == 0 || self.jobs.get(id).is_some() {
            return;
        }
        let before = self.chain(lender);
        match self.jobs.get_mut(lender) {
            Some(place) if place.lent_to.is_none() => place.lent_to = Some(id),
            _ => return self.take(id, weight),
        }
        self.jobs.insert(id, Place { weight, on: Some(lender), lent_to: None });
        self.taken = self.taken - before + self.chain(id);
    }

    /// Leaves its place. The job that has borrowed it keeps it from now on. Returns the job whose place is no longer
    /// borrowed.
    pub fn leave(&mut self, id: JobId) -> Option<JobId> {
        let place = self.jobs.remove(id)?;
        let parts = [place.on, place.lent_to].into_iter().flatten().map(|id| self.chain(id));
        let before = parts.fold(u64::from(place.weight), u64::max);
        if let Some(below) = place.on.and_then(|on| self.jobs.get_mut(on)) {
            below.lent_to = place.lent_to;
        }
        if let Some(above) = place.lent_to.and_then(|above| self.jobs.get_mut(above)) {
            above.on = place.on;
        }
        let rest = place.on.or(place.lent_to).map_or(0, |id| self.chain(id));
        self.taken = self.taken - before + rest;
        place.on.filter(|_| place.lent_to.is_none())
    }

    /// Replaces which job has borrowed the place of which: the lender, by borrower. A lender has one borrower, and
    /// there is no cycle.
    pub fn set_borrowed(&mut self, lender_of: &BTreeMap<JobId, JobId>) {
        let holders = self.holders();
        for &(id, weight) in &holders {
            let on = lender_of.get(&id).copied();
            self.jobs.insert(id, Place { weight, on, lent_to: None });
        }
        for (&borrower, &lender) in lender_of {
            if let Some(place) = self.jobs.get_mut(lender) {
                place.lent_to = Some(borrower);
            }
        }
        let first = holders.iter().filter(|(id, _)| !lender_of.contains_key(id));
        self.taken = first.map(|(id, _)| self.chain(*id)).sum();
    }

    /// What the chain of this job takes: the weight of its heaviest job.
    fn chain(&self, id: JobId) -> u64 {
        let down = std::iter::successors(self.jobs.get(id), |place| self.jobs.get(place.on?));
        let up = std::iter::successors(self.jobs.get(id), |place| self.jobs.get(place.lent_to?));
        down.chain(up).map(|place| u64::from(place.weight)).max().unwrap_or(0)
    }
}
