//! The embedded store: SQLite with one writer thread and group commit.
//!
//! ```text
//!   commit, take_block, … ──▶ bounded channel ──▶ writer thread ──▶ one transaction for all waiting calls
//!   jobs, feed, …         ──▶ bounded channel ──▶ reader threads ─▶ one snapshot per read
//! ```
//!
//! One process has the file open, guarded by a lock file beside it (`data_dir`). The file is in WAL mode with full
//! syncs, so a reply means that the data is on disk (`database`, `writer`). A job is two rows: its spec, and a
//! narrow row that the two or three later writes replace (`migrations/0001_jobs.sql`). Every statement is a file in
//! `sql/`.
#![forbid(unsafe_code)]

mod apply;
mod data_dir;
mod database;
mod error;
mod export;
mod groups;
mod migrations;
mod options;
mod readers;
mod reads;
mod rows;
mod statements;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use jobhall_core::{Group, GroupId, Job, JobId, Key, PastAttempt, RecordKind, TypeName};
use jobhall_store::{
    AuditRow, Block, BlockChange, CommitError, Committed, CompletedPage, FeedPage, GroupFilter, GroupPage,
    JobCounts, JobFilter, JobPage, Later, Link, Member, Prune, Pruned, Record, RecordFilter, RecordPage,
    Setting, SettingKind, Store, StoreError, Unit,
};
use tokio::sync::oneshot;

pub use data_dir::LOCKED;
pub use export::Export;
pub use options::{Fault, Hook, Options, Point};
pub use writer::stats::Stats;

use data_dir::DataDir;
use readers::Readers;
use writer::call::Call;
use writer::{Shared, Task};

/// A store in one file. Dropping it lets all waiting calls finish, then closes the file; this takes a moment.
#[derive(Debug)]
pub struct Sqlite {
    calls: Option<SyncSender<Call>>,
    writer: Option<JoinHandle<()>>,
    readers: Readers,
    shared: Arc<Shared>,
    waiting: usize,
    /// Dropped last: the file must be closed before another process may lock it.
    _place: DataDir,
}

impl Sqlite {
    /// Opens the store in this file, which is created if it does not exist, and migrates its schema. A file that was
    /// moved is refused.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Sqlite, StoreError> {
        let place = DataDir::take(path.as_ref(), &options)?;
        data_dir::moved::refuse(&place.path)?;
        let conn = database::open_writer(&place.path, migrations::ALL, &mut || ())?;
        let readers = Readers::start(&place.path, &options)?;
        let shared = Arc::new(Shared::default());
        let waiting = options.waiting;
        let (calls, receiver) = sync_channel(waiting);
        let path = place.path.clone();
        let task = Task { conn, path, calls: receiver, shared: shared.clone(), options };
        let writer = start(task, &place)?;
        Ok(Sqlite { calls: Some(calls), writer: Some(writer), readers, shared, waiting, _place: place })
    }

    /// Counters of the writer since the store was opened.
    pub fn stats(&self) -> Stats {
        self.shared.counters.read()
    }

    /// Passes a call to the writer immediately, so that calls take effect in the order they were made.
    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(oneshot::Sender<Result<T, CommitError>>) -> Call,
    ) -> Later<Result<T, CommitError>> {
        let (reply, answer) = oneshot::channel();
        let is_full =
            |calls: &SyncSender<Call>| matches!(calls.try_send(call(reply)), Err(TrySendError::Full(_)));
        let full = self.calls.as_ref().is_some_and(is_full);
        let shared = self.shared.clone();
        let waiting = self.waiting;
        Box::pin(async move {
            if full {
                let message = format!("{waiting} calls are waiting for the disk already");
                return Err(CommitError::NotCommitted { full: false, message });
            }
            // A call without a reply was never part of a transaction that could have been committed.
            answer.await.unwrap_or_else(|_| Err(stopped(&shared)))
        })
    }
}

fn stopped(shared: &Shared) -> CommitError {
    let message = shared.stopped.get().map_or("the writer ended unexpectedly", String::as_str);
    CommitError::Stopped { message: message.to_owned() }
}

fn start(task: Task, place: &DataDir) -> Result<JoinHandle<()>, StoreError> {
    let (ready, begun) = sync_channel(1);
    let thread = thread::Builder::new().name("store-write".to_owned());
    let writer = thread.spawn(move || writer::serve(task, &ready));
    let writer = writer.map_err(|error| StoreError::new(format!("failed to start: {error}")))?;
    match begun.recv() {
        Ok(Ok(())) => Ok(writer),
        Ok(Err(trouble)) => Err(database::failed("open", &place.path, &trouble)),
        Err(_) => Err(StoreError::new("failed to start: the writer ended unexpectedly")),
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // Readers first, so that the writer closes last and leaves no write-ahead log.
        self.readers.stop();
        self.calls = None;
        if let Some(writer) = self.writer.take() {
            // The panic was printed, and the callers were informed that the writer stopped.
            let _ = writer.join();
        }
    }
}

impl Store for Sqlite {
    fn commit(&self, units: Vec<Unit>) -> Later<Result<Committed, CommitError>> {
        self.call(|reply| Call::Commit(units, reply))
    }

    fn take_block(&self, size: u64) -> Later<Result<Block, CommitError>> {
        self.call(|reply| Call::TakeBlock(size, reply))
    }

    fn settle_blocks(&self, changes: Vec<BlockChange>) -> Later<Result<(), CommitError>> {
        self.call(|reply| Call::SettleBlocks(changes, reply))
    }

    fn prune(&self, prune: Prune) -> Later<Result<Pruned, CommitError>> {
        self.call(|reply| Call::Prune(prune, reply))
    }

    fn jobs(&self, ids: Vec<JobId>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.readers.read(move |reads| reads.jobs(&ids))
    }

    fn attempts(&self, id: JobId, skip: usize, limit: usize) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        self.readers.read(move |reads| reads.attempts_of(id, skip, limit))
    }

    fn attempts_of_jobs(
        &self,
        ids: Vec<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Vec<PastAttempt>>, StoreError>> {
        self.readers.read(move |reads| reads.attempts_of_jobs(&ids, limit))
    }

    fn successes(&self, keys: Vec<(TypeName, Key)>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.readers.read(move |reads| reads.successes(&keys))
    }

    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>> {
        self.readers.read(move |reads| reads.open(after, limit))
    }

    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>> {
        self.readers.read(|reads| reads.all_blocks())
    }

    fn completed(&self, after: Option<JobId>, limit: usize) -> Later<Result<CompletedPage, StoreError>> {
        self.readers.read(move |reads| reads.ended(after, limit))
    }

    fn count_completed(
        &self,
        after: Option<JobId>,
        last: JobId,
        except: Vec<JobId>,
    ) -> Later<Result<JobCounts, StoreError>> {
        self.readers.read(move |reads| reads.count_ended(after, last, &except))
    }

    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Later<Result<JobPage, StoreError>> {
        self.readers.read(move |reads| reads.page(&filter, before, limit))
    }

    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>> {
        self.readers.read(move |reads| reads.groups(&ids))
    }

    fn group_page(
        &self,
        filter: GroupFilter,
        before: Option<GroupId>,
        limit: usize,
    ) -> Later<Result<GroupPage, StoreError>> {
        self.readers.read(move |reads| reads.groups_below(&filter, before, limit))
    }

    fn members(
        &self,
        group: GroupId,
        after: Option<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Member>, StoreError>> {
        self.readers.read(move |reads| reads.members_of(group, after, limit))
    }

    fn links(&self, after: Option<(JobId, String)>, limit: usize) -> Later<Result<Vec<Link>, StoreError>> {
        self.readers.read(move |reads| reads.links_after(after.as_ref(), limit))
    }

    fn settings(&self, kind: Option<SettingKind>) -> Later<Result<Vec<Setting>, StoreError>> {
        self.readers.read(move |reads| reads.all_settings(kind))
    }

    fn records(&self, keys: Vec<(RecordKind, Key)>) -> Later<Result<Vec<Option<Record>>, StoreError>> {
        self.readers.read(move |reads| reads.records_of(&keys))
    }

    fn record_page(
        &self,
        filter: RecordFilter,
        after: Option<Key>,
        limit: usize,
    ) -> Later<Result<RecordPage, StoreError>> {
        self.readers.read(move |reads| reads.records_after(&filter, after.as_ref(), limit))
    }

    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        self.readers.read(move |reads| reads.acts(before, limit))
    }

    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        self.readers.read(move |reads| reads.feed_page(after, limit))
    }

    fn feed_end(&self) -> Later<Result<u64, StoreError>> {
        self.readers.read(|reads| reads.feed_end())
    }
}
