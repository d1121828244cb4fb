//! A handle to an in-memory store that outlives the handle.

use std::sync::Arc;

use jobhall_core::retention::Completed;
use jobhall_core::{Group, GroupId, Job, JobId, PastAttempt};
use jobhall_store::{
    AuditRow, Block, BlockChange, CommitError, Committed, FeedPage, JobFilter, JobPage, Later, Link, Member,
    Memory, Prune, Pruned, Setting, Store, StoreError, Unit,
};

pub struct Shared(pub Arc<Memory>);

impl Store for Shared {
    fn commit(&self, units: Vec<Unit>) -> Later<Result<Committed, CommitError>> {
        self.0.commit(units)
    }

    fn take_block(&self, size: u64) -> Later<Result<Block, CommitError>> {
        self.0.take_block(size)
    }

    fn settle_blocks(&self, changes: Vec<BlockChange>) -> Later<Result<(), CommitError>> {
        self.0.settle_blocks(changes)
    }

    fn prune(&self, prune: Prune) -> Later<Result<Pruned, CommitError>> {
        self.0.prune(prune)
    }

    fn jobs(&self, ids: Vec<JobId>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.0.jobs(ids)
    }

    fn attempts(&self, id: JobId) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        self.0.attempts(id)
    }

    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>> {
        self.0.open_jobs(after, limit)
    }

    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>> {
        self.0.blocks()
    }

    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Later<Result<JobPage, StoreError>> {
        self.0.list(filter, before, limit)
    }

    fn completed(&self, before: Option<JobId>, limit: usize) -> Later<Result<Vec<Completed>, StoreError>> {
        self.0.completed(before, limit)
    }

    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>> {
        self.0.groups(ids)
    }

    fn group_page(
        &self,
        before: Option<GroupId>,
        limit: usize,
        open: bool,
    ) -> Later<Result<Vec<Group>, StoreError>> {
        self.0.group_page(before, limit, open)
    }

    fn members(
        &self,
        group: GroupId,
        after: Option<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Member>, StoreError>> {
        self.0.members(group, after, limit)
    }

    fn links(&self, after: Option<(JobId, String)>, limit: usize) -> Later<Result<Vec<Link>, StoreError>> {
        self.0.links(after, limit)
    }

    fn settings(&self) -> Later<Result<Vec<Setting>, StoreError>> {
        self.0.settings()
    }

    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        self.0.audit(before, limit)
    }

    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        self.0.feed(after, limit)
    }
}
