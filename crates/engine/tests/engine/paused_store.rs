//! An in-memory store whose commits a test can pause and whose leadership it can end.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use jobhall_core::retention::Completed;
use jobhall_core::{Group, GroupId, Job, JobId, PastAttempt};
use jobhall_store::{
    AuditRow, Block, BlockChange, CommitError, Committed, FeedPage, JobFilter, JobPage, Later, Link, Member,
    Memory, Prune, Pruned, Setting, Store, StoreError, Unit,
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
    fn attempts(&self, id: JobId) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        self.memory.attempts(id)
    }
    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>> {
        self.memory.open_jobs(after, limit)
    }
    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>> {
        self.memory.blocks()
    }
    fn completed(&self, before: Option<JobId>, limit: usize) -> Later<Result<Vec<Completed>, StoreError>> {
        self.memory.completed(before, limit)
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
        before: Option<GroupId>,
        limit: usize,
        open: bool,
    ) -> Later<Result<Vec<Group>, StoreError>> {
        self.memory.group_page(before, limit, open)
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
    fn settings(&self) -> Later<Result<Vec<Setting>, StoreError>> {
        self.memory.settings()
    }
    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        self.memory.audit(before, limit)
    }
    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        self.memory.feed(after, limit)
    }
}
