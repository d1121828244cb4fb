//! A store that reports what each pass of retention read and removed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jobhall_core::{Group, GroupId, Job, JobId, Key, PastAttempt, RecordKind, TypeName};
use jobhall_store::{
    AuditRow, Block, BlockChange, CommitError, Committed, CompletedPage, FeedPage, GroupFilter, GroupPage,
    JobCounts, JobFilter, JobPage, Later, Link, Member, Prune, Pruned, Record, RecordFilter, RecordPage,
    Setting, SettingKind, Store, StoreError, Unit,
};
use jobhall_store_sqlite::Sqlite;
use tokio::sync::mpsc;

/// What one pass did.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    pub begun: Instant,
    pub seconds: f64,
    /// Completed jobs that were read, and in how many pages.
    pub read: u64,
    pub pages: u64,
    pub removed: u64,
    /// Completed jobs that were counted since the start.
    counted: u64,
}

impl Pass {
    fn begin(counted: u64) -> Pass {
        Pass { begun: Instant::now(), seconds: 0.0, read: 0, pages: 0, removed: 0, counted }
    }
}

/// The store of an engine. A pass begins with the prune of the feed and ends with the list of groups.
pub struct Observed {
    store: Arc<Sqlite>,
    pass: Arc<Mutex<Pass>>,
    ended: mpsc::UnboundedSender<Pass>,
}

impl Observed {
    /// The store, and the passes that end.
    pub fn new(store: Arc<Sqlite>) -> (Arc<Observed>, mpsc::UnboundedReceiver<Pass>) {
        let (ended, passes) = mpsc::unbounded_channel();
        let pass = Arc::new(Mutex::new(Pass::begin(0)));
        (Arc::new(Observed { store, pass, ended }), passes)
    }

    /// Completed jobs that were counted so far.
    pub fn counted(&self) -> u64 {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner).counted
    }

    /// Passes a result on and notes it.
    fn noting<T: Send + 'static>(
        &self,
        result: Later<T>,
        note: impl FnOnce(&mut Pass, &T) + Send + 'static,
    ) -> Later<T> {
        let pass = self.pass.clone();
        Box::pin(async move {
            let result = result.await;
            note(&mut pass.lock().unwrap_or_else(PoisonError::into_inner), &result);
            result
        })
    }
}

impl Store for Observed {
    fn prune(&self, prune: Prune) -> Later<Result<Pruned, CommitError>> {
        if prune.feed_before.is_some() {
            let mut pass = self.pass.lock().unwrap_or_else(PoisonError::into_inner);
            *pass = Pass::begin(pass.counted);
        }
        self.noting(self.store.prune(prune), |pass, pruned| {
            pass.removed += pruned.as_ref().map_or(0, |pruned| pruned.jobs.len() as u64);
        })
    }
    fn completed(&self, after: Option<JobId>, limit: usize) -> Later<Result<CompletedPage, StoreError>> {
        self.noting(self.store.completed(after, limit), |pass, page| {
            pass.pages += 1;
            pass.read += page.as_ref().map_or(0, |page| page.jobs.len() as u64);
        })
    }
    fn count_completed(
        &self,
        after: Option<JobId>,
        last: JobId,
        except: Vec<JobId>,
    ) -> Later<Result<JobCounts, StoreError>> {
        self.noting(self.store.count_completed(after, last, except), |pass, found| {
            pass.counted +=
                found.as_ref().map_or(0, |found| found.counts.iter().map(|count| count.jobs).sum());
        })
    }
    fn group_page(
        &self,
        filter: GroupFilter,
        before: Option<GroupId>,
        limit: usize,
    ) -> Later<Result<GroupPage, StoreError>> {
        let (ended, open) = (self.ended.clone(), filter.open);
        self.noting(self.store.group_page(filter, before, limit), move |pass, page| {
            if !open && page.as_ref().is_ok_and(|page| page.groups.is_empty()) {
                let seconds = pass.begun.elapsed().as_secs_f64();
                // The receiver may have been dropped at the end of the measurement.
                let _ = ended.send(Pass { seconds, ..*pass });
            }
        })
    }
    fn commit(&self, units: Vec<Unit>) -> Later<Result<Committed, CommitError>> {
        self.store.commit(units)
    }
    fn take_block(&self, size: u64) -> Later<Result<Block, CommitError>> {
        self.store.take_block(size)
    }
    fn settle_blocks(&self, changes: Vec<BlockChange>) -> Later<Result<(), CommitError>> {
        self.store.settle_blocks(changes)
    }
    fn jobs(&self, ids: Vec<JobId>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.store.jobs(ids)
    }
    fn attempts(&self, id: JobId, skip: usize, limit: usize) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        self.store.attempts(id, skip, limit)
    }
    fn attempts_of_jobs(
        &self,
        ids: Vec<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Vec<PastAttempt>>, StoreError>> {
        self.store.attempts_of_jobs(ids, limit)
    }
    fn successes(&self, keys: Vec<(TypeName, Key)>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.store.successes(keys)
    }
    fn feed_end(&self) -> Later<Result<u64, StoreError>> {
        self.store.feed_end()
    }
    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>> {
        self.store.open_jobs(after, limit)
    }
    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>> {
        self.store.blocks()
    }
    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Later<Result<JobPage, StoreError>> {
        self.store.list(filter, before, limit)
    }
    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>> {
        self.store.groups(ids)
    }
    fn members(
        &self,
        group: GroupId,
        after: Option<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Member>, StoreError>> {
        self.store.members(group, after, limit)
    }
    fn links(&self, after: Option<(JobId, String)>, limit: usize) -> Later<Result<Vec<Link>, StoreError>> {
        self.store.links(after, limit)
    }
    fn settings(&self, kind: Option<SettingKind>) -> Later<Result<Vec<Setting>, StoreError>> {
        self.store.settings(kind)
    }
    fn records(&self, keys: Vec<(RecordKind, Key)>) -> Later<Result<Vec<Option<Record>>, StoreError>> {
        self.store.records(keys)
    }
    fn record_page(
        &self,
        filter: RecordFilter,
        after: Option<Key>,
        limit: usize,
    ) -> Later<Result<RecordPage, StoreError>> {
        self.store.record_page(filter, after, limit)
    }
    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        self.store.audit(before, limit)
    }
    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        self.store.feed(after, limit)
    }
}
