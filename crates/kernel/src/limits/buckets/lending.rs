//! Lending of places. A job that waits for others keeps its places and lends them to the jobs it waits for.

use jobhall_core::JobId;

use crate::jobs::ids::IdMap;

/// Both directions of the same relation.
#[derive(Debug, Default)]
pub(crate) struct Lending {
    lenders: IdMap<JobId, Vec<JobId>>,
    borrowers: IdMap<JobId, Vec<JobId>>,
}

impl Lending {
    /// The jobs whose places this job may borrow.
    pub fn lenders(&self, borrower: JobId) -> &[JobId] {
        self.lenders.get(&borrower).map_or(&[], Vec::as_slice)
    }

    /// The jobs that may borrow the places of this job.
    pub fn borrowers(&self, lender: JobId) -> &[JobId] {
        self.borrowers.get(&lender).map_or(&[], Vec::as_slice)
    }

    /// The jobs that can borrow a place.
    pub fn all_borrowers(&self) -> Vec<JobId> {
        self.lenders.keys().copied().collect()
    }

    pub fn lend(&mut self, lender: JobId, borrower: JobId) {
        let lenders = self.lenders.entry(borrower).or_default();
        if lender != borrower && !lenders.contains(&lender) {
            lenders.push(lender);
            self.borrowers.entry(lender).or_default().push(borrower);
        }
    }

    /// Ends all lending by a job.
    pub fn end(&mut self, lender: JobId) {
        for borrower in self.borrowers.remove(&lender).unwrap_or_default() {
            remove(&mut self.lenders, borrower, lender);
        }
    }

    /// Removes a job as lender and as borrower.
    pub fn forget(&mut self, id: JobId) {
        self.end(id);
        for lender in self.lenders.remove(&id).unwrap_or_default() {
            remove(&mut self.borrowers, lender, id);
        }
    }
}

fn remove(map: &mut IdMap<JobId, Vec<JobId>>, of: JobId, gone: JobId) {
    if let Some(list) = map.get_mut(&of) {
        list.retain(|id| *id != gone);
        if list.is_empty() {
            map.remove(&of);
        }
    }
}
