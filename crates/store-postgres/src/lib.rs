//! The store that several nodes share: PostgreSQL, with one writer fenced by the leadership.
//!
//! ```text
//!   Database ── leadership(node) ──▶ Theirs(holder): this node follows
//!      │                  └──▶ Mine(Postgres): this node runs the engine
//!      │                            │ commit, take_block, … ──▶ channel ──▶ writer task ──▶ one transaction for all
//!      │                            │ jobs, feed, …         ──▶ pool of connections
//!      └── nodes, key               └ renews the leadership by itself; `lost` resolves when another node has it
//! ```
//!
//! At most one node leads at any time, according to a row of the database (`migrations/0002_desk.sql`). Every
//! commit locks that row at its epoch inside its transaction, so a node that was replaced cannot commit anything
//! (`writer`). The tables are those of the embedded store. Every statement is a file in `sql/`.
#![forbid(unsafe_code)]

mod apply;
mod connect;
mod database;
mod error;
mod groups;
mod import;
mod inbox;
mod leadership;
mod migrations;
mod options;
mod reads;
mod rows;
mod writer;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobhall_core::{Group, GroupId, Job, JobId, Key, PastAttempt, RecordKind, TypeName};
use jobhall_store::{
    AuditRow, Block, BlockChange, CommitError, Committed, CompletedPage, FeedPage, GroupFilter, GroupPage,
    Inbox, JobCounts, JobFilter, JobPage, Later, Link, Member, Prune, Pruned, Record, RecordFilter,
    RecordPage, Setting, SettingKind, Store, StoreError, Unit,
};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};

pub use connect::unencrypted_host;
pub use database::{Database, KeyRecord, Leadership, NewKey, NodeSeen};
pub use import::Import;
pub use leadership::{LeaderSeen, Node};
pub use options::{Fault, Hook, Options, Point};

use error::PgError;
use leadership::Term;
use reads::Reads;
use writer::Writer;
use writer::call::{Batch, Call, Reply};

/// A read in progress.
type Reading<'r, T> = Pin<Box<dyn Future<Output = Result<T, PgError>> + Send + 'r>>;

/// Pause before a read is retried.
const AGAIN: Duration = Duration::from_millis(50);

/// The store of the leader. Dropping it lets all waiting calls finish, then releases the leadership; this takes a
/// moment.
pub struct Postgres {
    database: Database,
    epoch: u64,
    term: Arc<Term>,
    calls: mpsc::Sender<Call>,
    /// One permit per read that runs or waits.
    reads: Arc<Semaphore>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Postgres {
    pub(crate) async fn begin(
        database: Database,
        epoch: u64,
        term: Arc<Term>,
    ) -> Result<Postgres, StoreError> {
        let Database { connector, options, home, .. } = &database;
        let writer = Writer::begin(connector.clone(), options.clone(), epoch, term.clone()).await;
        let writer = writer.map_err(|trouble| trouble.while_doing("begin on the leader"))?;
        let (calls, receiver) = mpsc::channel(options.waiting);
        tokio::spawn(leadership::renew(connector.clone(), options.clone(), epoch, term.clone()));
        let home = home.clone();
        tokio::spawn(async move {
            writer.serve(receiver).await;
            // The runtime lives until the last call was answered.
            drop(home);
        });
        let reads = Arc::new(Semaphore::new(options.waiting));
        Ok(Postgres { database, epoch, term, calls, reads })
    }

    /// The epoch of this node's leadership.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Resolves with the reason once the leadership is lost: taken over, released, or not renewed in time by the
    /// monotonic clock.
    pub fn lost(&self) -> Later<String> {
        let term = self.term.clone();
        let losing = self.database.home.run(async move { term.lost().await });
        Box::pin(async move { losing.await.unwrap_or_else(|| "the store ended".to_owned()) })
    }

    /// The error after which this store cannot continue. None while it leads, and after the leadership was lost or
    /// released.
    pub fn failure(&self) -> Option<String> {
        self.term.failure().map(str::to_owned)
    }

    /// Releases the leadership after all previous calls, so that another node can take it immediately.
    pub fn leave(&self) -> Later<()> {
        let (reply, left) = oneshot::channel();
        let (calls, term) = (self.calls.clone(), self.term.clone());
        let leaving = self.database.home.run(async move {
            if calls.send(Call::Leave(reply)).await.is_ok() {
                // A writer that ended has already released it.
                let _ = left.await;
            }
            term.lose("the leadership was given back");
        });
        Box::pin(async move { leaving.await.unwrap_or(()) })
    }

    /// Passes a call to the writer immediately, so that calls take effect in the order they were made.
    fn call<T: Send + 'static>(&self, call: impl FnOnce(Reply<T>) -> Call) -> Later<Result<T, CommitError>> {
        let (reply, answer) = oneshot::channel();
        let sent = self.calls.try_send(call(reply));
        let (term, waiting) = (self.term.clone(), self.database.options.waiting);
        Box::pin(async move {
            if let Err(TrySendError::Full(_)) = sent {
                let message = format!("{waiting} calls are waiting for the database already");
                return Err(CommitError::NotCommitted { full: false, message });
            }
            answer.await.unwrap_or_else(|_| Err(CommitError::Stopped { message: term.why() }))
        })
    }

    /// Reads on a connection of the pool, and retries on another if it broke.
    fn read<T: Send + 'static>(
        &self,
        read: impl for<'r> Fn(Reads<'r>) -> Reading<'r, T> + Send + Sync + 'static,
    ) -> Later<Result<T, StoreError>> {
        let Ok(permit) = self.reads.clone().try_acquire_owned() else {
            let message =
                format!("{} reads are waiting for the database already", self.database.options.waiting);
            return Box::pin(std::future::ready(Err(StoreError::new(message))));
        };
        let database = self.database.clone();
        let reading = self.database.home.run(async move {
            let _permit = permit;
            let begun = Instant::now();
            loop {
                let trouble = match database.client().await {
                    Ok(client) => match read(Reads(database.connector.wire(&client))).await {
                        Ok(found) => return Ok(found),
                        Err(trouble) => trouble,
                    },
                    Err(trouble) => trouble,
                };
                if !trouble.is_broken() || begun.elapsed() > database.options.patience {
                    return Err(trouble.while_doing("read the database"));
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
        Box::pin(async move { reading.await.unwrap_or_else(|| Err(database::ended())) })
    }
}

impl Store for Postgres {
    fn commit(&self, units: Vec<Unit>) -> Later<Result<Committed, CommitError>> {
        self.call(|reply| Call::Commit(Batch::of(units, reply)))
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
        self.read(move |reads| {
            let ids = ids.clone();
            Box::pin(async move { reads.jobs(&ids).await })
        })
    }

    fn attempts(&self, id: JobId, skip: usize, limit: usize) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        self.read(move |reads| Box::pin(async move { reads.attempts_of(id, skip, limit).await }))
    }

    fn attempts_of_jobs(
        &self,
        ids: Vec<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Vec<PastAttempt>>, StoreError>> {
        self.read(move |reads| {
            let ids = ids.clone();
            Box::pin(async move { reads.attempts_of_jobs(&ids, limit).await })
        })
    }

    fn successes(&self, keys: Vec<(TypeName, Key)>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.read(move |reads| {
            let keys = keys.clone();
            Box::pin(async move { reads.successes(&keys).await })
        })
    }

    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>> {
        self.read(move |reads| Box::pin(async move { reads.open(after, limit).await }))
    }

    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>> {
        self.read(move |reads| Box::pin(async move { reads.all_blocks().await }))
    }

    fn completed(&self, after: Option<JobId>, limit: usize) -> Later<Result<CompletedPage, StoreError>> {
        self.read(move |reads| Box::pin(async move { reads.ended(after, limit).await }))
    }

    fn count_completed(
        &self,
        after: Option<JobId>,
        last: JobId,
        except: Vec<JobId>,
    ) -> Later<Result<JobCounts, StoreError>> {
        self.read(move |reads| {
            let except = except.clone();
            Box::pin(async move { reads.count_ended(after, last, &except).await })
        })
    }

    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Later<Result<JobPage, StoreError>> {
        self.read(move |reads| {
            let filter = filter.clone();
            Box::pin(async move { reads.page(&filter, before, limit).await })
        })
    }

    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>> {
        self.read(move |reads| {
            let ids = ids.clone();
            Box::pin(async move { reads.groups(&ids).await })
        })
    }

    fn group_page(
        &self,
        filter: GroupFilter,
        before: Option<GroupId>,
        limit: usize,
    ) -> Later<Result<GroupPage, StoreError>> {
        self.read(move |reads| {
            let filter = filter.clone();
            Box::pin(async move { reads.groups_below(&filter, before, limit).await })
        })
    }

    fn members(
        &self,
        group: GroupId,
        after: Option<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Member>, StoreError>> {
        self.read(move |reads| Box::pin(async move { reads.members_of(group, after, limit).await }))
    }

    fn links(&self, after: Option<(JobId, String)>, limit: usize) -> Later<Result<Vec<Link>, StoreError>> {
        self.read(move |reads| {
            let after = after.clone();
            Box::pin(async move { reads.links_after(after.as_ref(), limit).await })
        })
    }

    fn settings(&self, kind: Option<SettingKind>) -> Later<Result<Vec<Setting>, StoreError>> {
        self.read(move |reads| Box::pin(async move { reads.all_settings(kind).await }))
    }

    fn records(&self, keys: Vec<(RecordKind, Key)>) -> Later<Result<Vec<Option<Record>>, StoreError>> {
        self.read(move |reads| {
            let keys = keys.clone();
            Box::pin(async move { reads.records_of(&keys).await })
        })
    }

    fn record_page(
        &self,
        filter: RecordFilter,
        after: Option<Key>,
        limit: usize,
    ) -> Later<Result<RecordPage, StoreError>> {
        self.read(move |reads| {
            let (filter, after) = (filter.clone(), after.clone());
            Box::pin(async move { reads.records_after(&filter, after.as_ref(), limit).await })
        })
    }

    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        self.read(move |reads| Box::pin(async move { reads.acts(before, limit).await }))
    }

    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        self.read(move |reads| Box::pin(async move { reads.feed_page(after, limit).await }))
    }

    fn feed_end(&self) -> Later<Result<u64, StoreError>> {
        self.read(move |reads| Box::pin(async move { reads.feed_end().await }))
    }

    fn may_lead(&self) -> bool {
        self.term.may_lead()
    }

    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        Some(Arc::new(inbox::Rows::open(&self.database, self.epoch)))
    }
}
