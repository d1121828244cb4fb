//! The port to durable storage. It is deliberately small: one commit operation for decided changes, three bulk
//! operations for maintenance, and reads.
//!
//! Stores decide nothing. The engine decides in `core` on its copy of a job. A store applies the result if the
//! stored `rev` is still the one that was decided on; otherwise it refuses and returns the stored row. [`Memory`]
//! is the reference: its behaviour defines the rules, and `store-conformance` compares every other store with it.
//!
//! ```text
//!   engine ── commit([Unit, Unit, …]) ──▶ one durable transaction, one feed row
//!                 each Unit: all or nothing          │
//!          ◀── [Done | Refused([Conflict…]), …] ─────┘  a refused unit does not affect the others
//! ```
#![forbid(unsafe_code)]

mod audit;
mod error;
mod export_chunk;
mod feed;
mod group_page;
mod inbox;
mod memory;
mod record;
mod unit;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use jobhall_core::retention::Completed;
use jobhall_core::{
    Group, GroupId, Job, JobId, Key, Owner, PastAttempt, QueueName, RecordKind, Scope, StateName, Tag, Time,
    TypeName,
};

pub use audit::{AuditEntry, AuditRow};
pub use error::{CommitError, StoreError};
pub use export_chunk::{ExportChunk, Holdings, Marks};
pub use feed::{FeedEntry, FeedPage, FeedRow, News, pack, unpack};
pub use group_page::{GROUP_SCAN, GroupFilter, GroupPage};
pub use inbox::{INBOX_SCOPE, Inbox, InboxRow};
pub use memory::{Excerpt, Memory};
pub use record::{RECORD_PAGE_BYTES, Record, RecordFilter, RecordGroup, RecordPage, RecordWrite};
pub use unit::{
    Change, Check, Committed, Conflict, Done, GroupWrite, Insert, KeyPlace, Link, Member, ReuseRange,
    Setting, SettingKind, SettingWrite, StoredIdempotencyKey, Unit, key_place,
};

/// An asynchronous result.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A range of ids assigned to this node. Its row remains until every job in it is completed, so that open jobs are
/// found by key ranges at the start and no index over the state is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub first: JobId,
    pub last: JobId,
    /// All jobs of the block that may still be open, once they are few; none if any job may be open.
    pub live: Option<Vec<JobId>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockChange {
    /// Every id is used and every job is completed: remove the block that begins with this id.
    Close(JobId),
    /// Every id is used and only these jobs are open.
    Shrink(JobId, Vec<JobId>),
}

/// The rows that maintenance removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// These jobs with their attempts and links, if they are completed; an open job is not removed.
    pub jobs: Vec<JobId>,
    /// These groups, if they have ended; an open group is not removed.
    pub groups: Vec<GroupId>,
    /// Feed rows older than this.
    pub feed_before: Option<Time>,
    /// Idempotency keys older than this.
    pub idempotency_keys_before: Option<Time>,
    /// Audit entries older than this.
    pub audit_before: Option<Time>,
    /// Records of these kinds that were written before these times.
    pub records: Vec<(RecordKind, Time)>,
}

/// What a prune removed: the jobs in the requested order, and the number of other rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub jobs: Vec<RemovedJob>,
    pub feed: u64,
    pub idempotency_keys: u64,
    pub audit: u64,
    pub records: u64,
}

/// A job that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedJob {
    pub id: JobId,
    pub job_type: TypeName,
    pub queue: QueueName,
}

/// Completed jobs, oldest id first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletedPage {
    pub jobs: Vec<Completed>,
    /// The last job that was examined, completed or not, and when it was submitted; none if there was none.
    pub last: Option<(JobId, Time)>,
}

/// The number of completed jobs of a type in a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobCount {
    pub job_type: TypeName,
    pub queue: QueueName,
    pub jobs: u64,
}

/// Completed jobs in a range of ids, by type and queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Ordered by type and queue, none is 0.
    pub counts: Vec<JobCount>,
    /// The lowest id of a job above the range.
    pub next: Option<JobId>,
}

/// The filter of a list; a field that is none or empty does not restrict it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Stored states; a store has `scheduled` and `retrying` jobs as `queued`.
    pub states: Vec<StateName>,
    pub job_type: Option<TypeName>,
    pub key: Option<Key>,
    pub queue: Option<QueueName>,
    /// Jobs in queues of this scope.
    pub scope: Scope,
    pub group: Option<GroupId>,
    pub owner: Option<Owner>,
    /// The job has this tag.
    pub tag: Option<Tag>,
    /// Submitted at this time or later.
    pub created_after: Option<Time>,
    pub created_before: Option<Time>,
}

impl JobFilter {
    /// Type and key, if the filter restricts nothing else. Stores find these jobs by their index of both.
    pub fn only_key(&self) -> Option<(&TypeName, &Key)> {
        let (job_type, key) = self.job_type.as_ref().zip(self.key.as_ref())?;
        let rest = JobFilter { job_type: None, key: None, ..self.clone() };
        (rest == JobFilter::default()).then_some((job_type, key))
    }

    /// Whether the job matches the filter.
    pub fn shows(&self, job: &Job) -> bool {
        (self.states.is_empty() || self.states.contains(&job.status.state.name()))
            && self.job_type.as_ref().is_none_or(|job_type| *job_type == job.spec.job_type)
            && self.key.as_ref().is_none_or(|key| job.spec.key.as_ref() == Some(key))
            && self.queue.as_ref().is_none_or(|queue| *queue == job.spec.queue)
            && self.scope.reaches(job.spec.queue.as_str())
            && self.group.is_none_or(|group| job.spec.group == Some(group))
            && self.owner.as_ref().is_none_or(|owner| job.spec.owner.as_ref() == Some(owner))
            && self.tag.as_ref().is_none_or(|tag| job.spec.tags.contains(tag))
            && self.created_after.is_none_or(|after| job.spec.created_at >= after)
            && self.created_before.is_none_or(|before| job.spec.created_at < before)
    }
}

/// A page of a list, newest id first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPage {
    pub jobs: Vec<Job>,
    /// The list continues below this id; none at its end.
    pub next: Option<JobId>,
}

/// Durable storage of one hall.
pub trait Store: Send + Sync + 'static {
    /// Applies the units in order in one durable transaction; a refused unit changes nothing, the others are applied.
    /// The result is available after the transaction is durable. Calls take effect in the order they were made.
    fn commit(&self, units: Vec<Unit>) -> Later<Result<Committed, CommitError>>;

    /// Assigns the next `size` ids durably before any of them is used.
    fn take_block(&self, size: u64) -> Later<Result<Block, CommitError>>;

    fn settle_blocks(&self, changes: Vec<BlockChange>) -> Later<Result<(), CommitError>>;

    fn prune(&self, prune: Prune) -> Later<Result<Pruned, CommitError>>;

    /// The jobs with these ids, in the requested order; none for an unknown id.
    fn jobs(&self, ids: Vec<JobId>) -> Later<Result<Vec<Option<Job>>, StoreError>>;

    /// Ended attempts of a job, without the last one of a completed job: at most `limit` of those before the newest
    /// `skip`, oldest first.
    fn attempts(&self, id: JobId, skip: usize, limit: usize) -> Later<Result<Vec<PastAttempt>, StoreError>>;

    /// The newest ended attempts of each of these jobs in the requested order, at most `limit` of each, oldest first;
    /// without the last one of a completed job.
    fn attempts_of_jobs(
        &self,
        ids: Vec<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Vec<PastAttempt>>, StoreError>>;

    /// The newest success of each of these (type, key), in the requested order.
    fn successes(&self, keys: Vec<(TypeName, Key)>) -> Later<Result<Vec<Option<Job>>, StoreError>>;

    /// Open jobs in id order from the blocks, after `after`, at most `limit`.
    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>>;

    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>>;

    /// The completed ones among the first `limit` jobs after `after`, oldest id first.
    fn completed(&self, after: Option<JobId>, limit: usize) -> Later<Result<CompletedPage, StoreError>>;

    /// Counts the completed jobs with ids after `after` and up to `last`, except these.
    fn count_completed(
        &self,
        after: Option<JobId>,
        last: JobId,
        except: Vec<JobId>,
    ) -> Later<Result<JobCounts, StoreError>>;

    /// Jobs that match the filter, newest id first, below `before`, at most `limit`. A store bounds how many rows it
    /// scans at once, so a page may be short although the list continues.
    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Later<Result<JobPage, StoreError>>;

    /// The groups with these ids, in the requested order; none for an unknown id.
    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>>;

    /// Groups that match the filter, newest id first, below `before`, at most `limit`. A store bounds how many rows it
    /// scans at once, so a page may be short although the list continues.
    fn group_page(
        &self,
        filter: GroupFilter,
        before: Option<GroupId>,
        limit: usize,
    ) -> Later<Result<GroupPage, StoreError>>;

    /// The jobs of a group in id order, after `after`, at most `limit`.
    fn members(
        &self,
        group: GroupId,
        after: Option<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Member>, StoreError>>;

    /// Links in the order of (parent, call), after this one, at most `limit`.
    fn links(&self, after: Option<(JobId, String)>, limit: usize) -> Later<Result<Vec<Link>, StoreError>>;

    /// The settings of one kind, or all of them, by kind and name.
    fn settings(&self, kind: Option<SettingKind>) -> Later<Result<Vec<Setting>, StoreError>>;

    /// The records with these kinds and keys, in the requested order; none for an unknown one.
    fn records(&self, keys: Vec<(RecordKind, Key)>) -> Later<Result<Vec<Option<Record>>, StoreError>>;

    /// Records that match the filter, by key, after `after`, at most `limit` and about [`RECORD_PAGE_BYTES`].
    fn record_page(
        &self,
        filter: RecordFilter,
        after: Option<Key>,
        limit: usize,
    ) -> Later<Result<RecordPage, StoreError>>;

    /// Audit entries with a number below `before`, newest first, at most `limit`.
    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>>;

    /// Feed rows after `after`, at most `limit`, and up to which number rows were pruned.
    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>>;

    /// The number of the last feed row ever written, whether it was pruned or not; 0 if there was none.
    fn feed_end(&self) -> Later<Result<u64, StoreError>>;

    /// Whether this store may still write for the hall. If several nodes share the store, another node may lead by now;
    /// cached state is then no longer valid.
    fn may_lead(&self) -> bool {
        true
    }

    /// Jobs that other programs submitted in their own transactions, if the store supports that.
    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_l6_a_filter_of_type_and_key_alone_is_known_as_such() {
        let (job_type, key) = (TypeName::new("t").ok(), Key::new("k").ok());
        let both = JobFilter { job_type: job_type.clone(), key: key.clone(), ..JobFilter::default() };
        assert_eq!(both.only_key(), job_type.as_ref().zip(key.as_ref()));
        let others = [
            JobFilter { key: None, ..both.clone() },
            JobFilter { job_type: None, ..both.clone() },
            JobFilter { states: vec![StateName::Succeeded], ..both.clone() },
            JobFilter { queue: QueueName::new("q").ok(), ..both.clone() },
            JobFilter { created_after: Some(Time::EPOCH), ..both },
        ];
        assert!(others.iter().all(|filter| filter.only_key().is_none()));
    }
}
