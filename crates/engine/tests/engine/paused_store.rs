//! An in-memory store whose commits a test can pause and whose leadership it can end.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use jobhall_core::{Group, GroupId, Job, JobId, Key, PastAttempt, RecordKind, TypeName};
use jobhall_store::{
    AuditRow, Block, BlockChange, CommitError, Committed, CompletedPage, FeedPage, GroupFilter, GroupPage,
    JobCounts, JobFilter, JobPage, Later, Link, Member, Memory, Prune, Pruned, Record, RecordFilter,
    RecordPage, Setting, SettingKind, Store, StoreError, Unit,
};
use tokio::sync::Semaphore;

/// The reference, until someone else may speak for the hall; its commits can be held up.
pub struct PausedStore {
    memory: Memory,
    fallen: AtomicBool,
    commits: Arc<Semaphore>,
    rows: Mutex<Vec<usize>>,
}

impl PausedStore {
    pub fn new() -> Arc<PausedStore> {
        let commits = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Arc::new(PausedStore {
            memory: Memory::new(),
            fallen: AtomicBool::new(false),
            commits,
            rows: Mutex::default(),
        })
    }

    pub fn lose_leadership(&self) {
        self.fallen.store(true, Ordering::SeqCst);
    }

    /// From now on no commit ends.
    pub fn hold_commits(&self) {
        self.commits.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Lets one commit that is held up end.
    pub fn end_one(&self) {
        self.commits.add_permits(1);
    }

    /// How many rows each commit so far had.
    pub fn rows(&self) -> Vec<usize> {
        self.rows.lock().unwrap().clone()
    }
}

impl Store for PausedStore {
    fn may_lead(&self) -> bool {
        !self.fallen.load(Ordering::SeqCst)
    }
    fn commit(&self, units: Vec<Unit>) -> Later<Result<Committed, CommitError>> {
        self.rows.lock().unwrap().push(units.iter().map(Unit::rows).sum());
        let (done, commits) = (self.memory.commit(units), self.commits.clone());
        Box::pin(async move {
            commits.acquire_owned().await.unwrap().forget();
            done.await
        })
    }
    fn take_block(&self, size: u64) -> Later<Result<Block, CommitError>> {
        self.memory.take_block(size)
    }
    fn settle_blocks(&self, changes: Vec<BlockChange>) -> Later<Result<(), CommitError>> {
        self.memory.settle_blocks(changes)
    }
    fn prune(&self, prune: Prune) -> Later<Result<Pruned, CommitError>> {
        self.memory.prune(prune)
    }
    fn jobs(&self, ids: Vec<JobId>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.memory.jobs(ids)
    }
    fn attempts(&self, id: JobId, skip: usize, limit: usize) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        self.memory.attempts(id, skip, limit)
    }
    fn attempts_of_jobs(
        &self,
        ids: Vec<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Vec<PastAttempt>>, StoreError>> {
        self.memory.attempts_of_jobs(ids, limit)
    }

    fn successes(&self, keys: Vec<(TypeName, Key)>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.memory.successes(keys)
    }

    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>> {
        self.memory.open_jobs(after, limit)
    }
    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>> {
        self.memory.blocks()
    }
    fn completed(&self, after: Option<JobId>, limit: usize) -> Later<Result<CompletedPage, StoreError>> {
        self.memory.completed(after, limit)
    }

    fn count_completed(
        &self,
        after: Option<JobId>,
        last: JobId,
        except: Vec<JobId>,
    ) -> Later<Result<JobCounts, StoreError>> {
        self.memory.count_completed(after, last, except)
    }
    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Later<Result<JobPage, StoreError>> {
        self.memory.list(filter, before, limit)
    }
    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>> {
        self.memory.groups(ids)
    }
    fn group_page(
        &self,
        filter: GroupFilter,
        before: Option<GroupId>,
        limit: usize,
    ) -> Later<Result<GroupPage, StoreError>> {
        self.memory.group_page(filter, before, limit)
    }
    fn members(
        &self,
        group: GroupId,
        after: Option<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Member>, StoreError>> {
        self.memory.members(group, after, limit)
    }
    fn links(&self, after: Option<(JobId, String)>, limit: usize) -> Later<Result<Vec<Link>, StoreError>> {
        self.memory.links(after, limit)
    }
    fn settings(&self, kind: Option<SettingKind>) -> Later<Result<Vec<Setting>, StoreError>> {
        self.memory.settings(kind)
    }
    fn records(&self, keys: Vec<(RecordKind, Key)>) -> Later<Result<Vec<Option<Record>>, StoreError>> {
        self.memory.records(keys)
    }
    fn record_page(
        &self,
        filter: RecordFilter,
        after: Option<Key>,
        limit: usize,
    ) -> Later<Result<RecordPage, StoreError>> {
        self.memory.record_page(filter, after, limit)
    }
    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        self.memory.audit(before, limit)
    }
    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        self.memory.feed(after, limit)
    }

    fn feed_end(&self) -> Later<Result<u64, StoreError>> {
        self.memory.feed_end()
    }
}
