//! Removing completed jobs on request, before retention would.

use jobhall_core::JobId;
use jobhall_store::{CommitError, Pruned};

use crate::api::ticket::Ticket;
use crate::kernel::{Kernel, StoreRequest};

impl Kernel {
    /// Open jobs are skipped here, and again by the store. So are jobs that open jobs come after, and sub-jobs that an
    /// open parent may ask for.
    pub(crate) fn remove(&mut self, ids: Vec<JobId>, ticket: Ticket<u64>) {
        let over = |id: &JobId| {
            !self.jobs.contains(*id) && !self.relations.needs(*id) && !self.relations.is_wanted(*id)
        };
        let gone: Vec<_> = ids.into_iter().filter(over).collect();
        if gone.is_empty() {
            return self.answer(ticket, Ok(0));
        }
        self.relations.inputs.remove(&gone);
        self.want(StoreRequest::Remove(ticket, gone));
    }

    /// The store has removed the jobs: removes them from memory, and repeats reads that began before.
    pub(crate) fn removed(
        &mut self,
        ticket: Ticket<u64>,
        ids: &[JobId],
        result: Result<Pruned, CommitError>,
    ) {
        self.relations.inputs.removed(ids);
        let pruned = match result {
            Ok(pruned) => pruned,
            Err(error) => {
                self.storage_failed(&error);
                return self.answer(ticket, Err((&error).into()));
            }
        };
        self.jobs.removed(ids);
        self.removed_early(&pruned.jobs);
        self.answer(ticket, Ok(pruned.jobs.len() as u64));
    }
}
