//! Lending in the life of a job: a waiting attempt lends its places, and resumes when none of them is borrowed.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::JobId;

use crate::jobs::entry::Placed;
use crate::jobs::load::rank;
use crate::kernel::Kernel;
use crate::limits::BucketId;

impl Kernel {
    /// Lends the places of a job that waits for others to those jobs; each place has one borrower at a time. Call it
    /// again when the job waits for more.
    pub(crate) fn lend(&mut self, lender: JobId, borrowers: &[JobId]) {
        self.admission.limits.lend(lender, borrowers);
        self.help(lender);
    }

    /// At start, once all waits are known: leased jobs borrow the places that are lent to them, as before.
    pub(crate) fn restore_borrowed(&mut self) {
        let borrowers = self.admission.limits.all_borrowers();
        let buckets = self.buckets_of_leased(&borrowers);
        self.admission.limits.borrow_again(&buckets);
    }

    /// The buckets in which the leased ones of these jobs have places.
    pub(super) fn buckets_of_leased(&self, ids: &[JobId]) -> BTreeSet<BucketId> {
        let leased = ids.iter().filter_map(|id| self.jobs.get(*id)).filter(|entry| entry.taken);
        leased
            .filter_map(|entry| entry.share().get())
            .flat_map(|share| share.buckets.iter().copied())
            .collect()
    }

    /// The jobs whose places this job may borrow.
    pub(crate) fn lenders(&self, id: JobId) -> Vec<JobId> {
        self.admission.limits.lenders(id)
    }

    /// Returns the job that has borrowed a place of this job and must leave it before this job resumes.
    pub(crate) fn borrower(&self, lender: JobId) -> Option<JobId> {
        let share = self.jobs.get(lender).and_then(|entry| entry.share().get())?;
        self.admission.limits.lent_to(lender, share)
    }

    /// Ends the lending of a job that resumes or no longer waits.
    pub(crate) fn end_lending(&mut self, lender: JobId) {
        self.admission.limits.end_lending(lender);
    }

    /// A job left its places, and `free` are the jobs whose places it had borrowed. It can have taken over a place that
    /// was never lent to it, from a job before it in the chain.
    pub(super) fn help_borrowers(&mut self, id: JobId, free: Vec<JobId>) {
        let mut lenders = self.admission.limits.lenders(id);
        lenders.extend(free);
        self.help_lenders(lenders);
    }

    /// Places of these jobs are no longer borrowed: they may resume, or other jobs may borrow the places.
    pub(crate) fn help_lenders(&mut self, mut lenders: Vec<JobId>) {
        let mut seen = BTreeSet::new();
        lenders.retain(|lender| seen.insert(*lender));
        for lender in lenders {
            self.look_at_wait(lender);
            self.help(lender);
        }
    }

    /// Of the jobs that wait where a place of this job is free, the first of each class looks for a vacancy.
    pub(crate) fn help(&mut self, lender: JobId) {
        let mut first = BTreeMap::new();
        for &id in self.admission.limits.borrowers(lender) {
            let Some(entry) = self.jobs.get(id) else { continue };
            let Placed::Limited(at) = entry.placed() else { continue };
            if self.admission.limits.has_free_place(at, lender) {
                let rank = rank(id, entry);
                first
                    .entry(entry.class)
                    .and_modify(|known: &mut _| *known = rank.min(*known))
                    .or_insert(rank);
            }
        }
        first.into_values().for_each(|rank| self.replace(rank.id));
    }
}
