//! A handle to an in-memory store that outlives the handle.

use std::sync::Arc;

use jobhall_core::{Group, GroupId, Job, JobId, Key, PastAttempt, RecordKind, TypeName};
use jobhall_store::{
    AuditRow, Block, BlockChange, CommitError, Committed, CompletedPage, FeedPage, GroupFilter, GroupPage,
    JobCounts, JobFilter, JobPage, Later, Link, Member, Memory, Prune, Pruned, Record, RecordFilter,
    RecordPage, Setting, SettingKind, Store, StoreError, Unit,
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

    fn attempts(&self, id: JobId, skip: usize, limit: usize) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        self.0.attempts(id, skip, limit)
    }

    fn attempts_of_jobs(
        &self,
        ids: Vec<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Vec<PastAttempt>>, StoreError>> {
        self.0.attempts_of_jobs(ids, limit)
    }

    fn successes(&self, keys: Vec<(TypeName, Key)>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.0.successes(keys)
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

    fn completed(&self, after: Option<JobId>, limit: usize) -> Later<Result<CompletedPage, StoreError>> {
        self.0.completed(after, limit)
    }

    fn count_completed(
        &self,
        after: Option<JobId>,
        last: JobId,
        except: Vec<JobId>,
    ) -> Later<Result<JobCounts, StoreError>> {
        self.0.count_completed(after, last, except)
    }

    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>> {
        self.0.groups(ids)
    }

    fn group_page(
        &self,
        filter: GroupFilter,
        before: Option<GroupId>,
        limit: usize,
    ) -> Later<Result<GroupPage, StoreError>> {
        self.0.group_page(filter, before, limit)
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

    fn settings(&self, kind: Option<SettingKind>) -> Later<Result<Vec<Setting>, StoreError>> {
        self.0.settings(kind)
    }

    fn records(&self, keys: Vec<(RecordKind, Key)>) -> Later<Result<Vec<Option<Record>>, StoreError>> {
        self.0.records(keys)
    }

    fn record_page(
        &self,
        filter: RecordFilter,
        after: Option<Key>,
        limit: usize,
    ) -> Later<Result<RecordPage, StoreError>> {
        self.0.record_page(filter, after, limit)
    }

    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        self.0.audit(before, limit)
    }

    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        self.0.feed(after, limit)
    }

    fn feed_end(&self) -> Later<Result<u64, StoreError>> {
        self.0.feed_end()
    }
}
