//! Which leased job has borrowed which place, where no claim decided it: after a restart, and after a change of
//! limits.
//!
//! As many jobs as possible borrow a place. If fewer did than before, a bucket would count more than its limit allows,
//! and a place that a running job had borrowed would be lent a second time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jobhall_core::JobId;

use super::bucket::Bucket;
use super::lending::Lending;
use super::{BucketId, Limits};

/// An assignment of borrowers to lenders, which grows along augmenting paths.
#[derive(Debug, Default)]
struct Borrowing {
    /// By borrower: the jobs whose places it can borrow, the best first.
    lenders: BTreeMap<JobId, Vec<JobId>>,
    /// By borrower: the job whose place it has borrowed; `lent_to` is the reverse.
    lender_of: BTreeMap<JobId, JobId>,
    lent_to: BTreeMap<JobId, JobId>,
}

impl Borrowing {
    /// Finds a place for a job. Other borrowers may change to other lenders for that, but none loses its place.
    fn find_place(&mut self, id: JobId) {
        // By lender: the borrower that would take its place.
        let mut takes = BTreeMap::new();
        let mut next = VecDeque::from([id]);
        while let Some(borrower) = next.pop_front() {
            for &lender in self.lenders.get(&borrower).into_iter().flatten() {
                if takes.contains_key(&lender) {
                    continue;
                }
                takes.insert(lender, borrower);
                match self.lent_to.get(&lender) {
                    Some(&other) => next.push_back(other),
                    None => return self.shift(lender, &takes),
                }
            }
        }
    }

    /// Moves the borrowers of a path that ends at a free place.
    fn shift(&mut self, free: JobId, takes: &BTreeMap<JobId, JobId>) {
        let mut next = Some(free);
        while let Some(lender) = next
            && let Some(&borrower) = takes.get(&lender)
        {
            self.lent_to.insert(lender, borrower);
            next = self.lender_of.insert(borrower, lender);
        }
    }

    /// Jobs that can borrow from each other may have been assigned in a circle: one of each circle gets a separate
    /// place.
    fn cut_cycles(&mut self) {
        let mut seen = BTreeSet::new();
        let borrowers: Vec<_> = self.lender_of.keys().copied().collect();
        for id in borrowers {
            let mut at = id;
            while seen.insert(at)
                && let Some(&lender) = self.lender_of.get(&at)
            {
                at = lender;
                if at == id {
                    self.lender_of.remove(&id);
                }
            }
        }
    }
}

impl Bucket {
    /// Lets as many leased jobs as possible borrow a place, the heaviest first.
    fn borrow_again(&mut self, lending: &Lending) {
        let weights: BTreeMap<_, _> = self.places.holders().into_iter().collect();
        let mut lenders = BTreeMap::new();
        for &id in weights.keys() {
            let of_job = lending.lenders(id).iter().copied();
            let mut of_job: Vec<_> = of_job.filter(|lender| weights.contains_key(lender)).collect();
            of_job.sort_by_key(|lender| (Reverse(weights.get(lender).copied()), *lender));
            if !of_job.is_empty() {
                lenders.insert(id, of_job);
            }
        }
        let mut borrowers: Vec<_> = lenders.iter().map(|(id, lenders)| (*id, lenders.len())).collect();
        borrowers.sort_by_key(|&(id, lenders)| (Reverse(weights.get(&id).copied()), lenders, id));
        let lender_of = self.places.borrowed();
        let lent_to = lender_of.iter().map(|(borrower, lender)| (*lender, *borrower)).collect();
        let mut borrowing = Borrowing { lenders, lender_of, lent_to };
        for (id, _) in borrowers {
            if !borrowing.lender_of.contains_key(&id) {
                borrowing.find_place(id);
            }
        }
        borrowing.cut_cycles();
        self.places.set_borrowed(&borrowing.lender_of);
    }
}

impl Limits {
    /// The jobs that can borrow places.
    pub fn all_borrowers(&self) -> Vec<JobId> {
        self.lending.all_borrowers()
    }

    /// Lets leased jobs borrow places in these buckets that no claim let them borrow.
    pub fn borrow_again(&mut self, buckets: &BTreeSet<BucketId>) {
        for &at in buckets {
            if let Some(bucket) = self.buckets.get_mut(&at).filter(|bucket| bucket.concurrency.is_some()) {
                bucket.borrow_again(&self.lending);
                self.mark_dirty(at);
            }
        }
    }

    /// Whether a bucket has more taken than its limit allows.
    pub fn is_exceeded(&self, at: BucketId) -> bool {
        self.buckets.get(&at).is_some_and(Bucket::is_exceeded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::id;

    /// Finds places for these borrowers, one after the other; each has the numbers of its lenders.
    fn borrowing(borrowers: &[(u64, &[u64])]) -> Borrowing {
        let of = |lenders: &[u64]| lenders.iter().copied().map(id).collect();
        let lenders = borrowers.iter().map(|(borrower, lenders)| (id(*borrower), of(lenders))).collect();
        let mut borrowing = Borrowing { lenders, ..Borrowing::default() };
        borrowers.iter().for_each(|(borrower, _)| borrowing.find_place(id(*borrower)));
        borrowing
    }

    fn pairs(borrowing: &Borrowing) -> Vec<(u64, u64)> {
        borrowing.lender_of.iter().map(|(borrower, lender)| (borrower.get(), lender.get())).collect()
    }

    #[test]
    fn a_borrower_changes_to_another_lender_if_a_later_one_has_no_choice() {
        let borrowing = borrowing(&[(11, &[1, 2]), (12, &[1, 3]), (13, &[1])]);
        assert_eq!(pairs(&borrowing), [(11, 2), (12, 3), (13, 1)]);
        let reverse: BTreeMap<_, _> = borrowing.lender_of.iter().map(|(one, other)| (*other, *one)).collect();
        assert_eq!(borrowing.lent_to, reverse);
    }

    #[test]
    fn without_a_free_place_nobody_changes() {
        let borrowing = borrowing(&[(11, &[1, 2]), (12, &[1, 2]), (13, &[2, 1])]);
        assert_eq!(pairs(&borrowing), [(11, 1), (12, 2)]);
    }

    #[test]
    fn one_job_of_a_circle_gets_a_separate_place() {
        let mut borrowing = borrowing(&[(1, &[2]), (2, &[3]), (3, &[1]), (5, &[4]), (6, &[5])]);
        borrowing.cut_cycles();
        assert_eq!(pairs(&borrowing), [(2, 3), (3, 1), (5, 4), (6, 5)]);
    }
}
