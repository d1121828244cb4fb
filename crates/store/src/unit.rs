//! The content of a commit, and its result.

use std::sync::Arc;

use jobhall_core::{
    Group, GroupId, Job, JobId, JobSpec, JobStatus, PastAttempt, State, StateName, Submitted, Time,
};

use crate::audit::AuditEntry;
use crate::record::{Record, RecordWrite};

/// One request, all or nothing, checked in four stages; the first stage with a conflict refuses the unit and lists
/// all its conflicts:
///
/// 1. the idempotency key;
/// 2. checks, settings, groups, records, and the revs of the changes;
/// 3. keys that the changes release and take: an abandoned successor, a place already held;
/// 4. inserts, in order: an id that is in use (`Stale`), a reusable success, then the place on the key (an earlier
///    insert of the unit may hold it).
///
/// A job is changed at most once in a unit, and so are a setting, a group and a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Conditions.
    pub checks: Vec<Check>,
    /// Changes of stored jobs.
    pub changes: Vec<Change>,
    pub inserts: Vec<Insert>,
    pub settings: Vec<SettingWrite>,
    pub groups: Vec<GroupWrite>,
    pub records: Vec<RecordWrite>,
    /// Sub-jobs that attempts request. A link replaces an existing one of the same (parent, call).
    pub links: Vec<Link>,
    /// Parents whose links are removed.
    pub unlinked: Vec<JobId>,
    pub audit: Vec<AuditEntry>,
    pub idempotency_key: Option<StoredIdempotencyKey>,
}

impl Unit {
    /// The approximate number of rows it writes.
    pub fn rows(&self) -> usize {
        self.changes.len() + self.inserts.len()
    }
}

/// What must hold when the unit is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// The job exists and is not completed.
    Open(JobId),
    /// The group exists and accepts members.
    Joinable(GroupId),
    /// The group exists, has not ended and is not being cancelled; it may be closed to members.
    GroupOpen(GroupId),
}

/// A decided change of one stored job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub id: JobId,
    /// The rev it was decided on.
    pub expected: u32,
    /// The status after the change.
    pub status: JobStatus,
    /// The new spec, if it changes. Type, key, queue, group, parent and creation never change.
    pub spec: Option<Arc<JobSpec>>,
    /// An ended attempt, for the history.
    pub past: Option<Box<PastAttempt>>,
    /// Whether to return the job's spec, which the caller does not have.
    pub want_spec: bool,
}

/// A new job. It takes the place on its key that [`key_place`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    pub job: Job,
    /// A success of the same (type, key) in this range makes the insert unnecessary.
    pub reuse: Option<ReuseRange>,
}

/// Which successes of a key answer an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReuseRange {
    /// They ended at this time or later.
    pub since: Time,
    /// They have a higher id than this job.
    pub above: Option<JobId>,
}

impl ReuseRange {
    /// Successes that ended at this time or later.
    pub fn since(since: Time) -> ReuseRange {
        ReuseRange { since, above: None }
    }

    /// Successes with a higher id than this job.
    pub fn above(id: JobId) -> ReuseRange {
        ReuseRange { since: Time::EPOCH, above: Some(id) }
    }

    /// Whether this success is in the range.
    pub fn contains(&self, success: &Job) -> bool {
        success.status.state.ended_at() >= Some(self.since) && Some(success.id) > self.above
    }
}

/// The place of a job on its (type, key).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPlace {
    /// The live job of its key.
    Live,
    /// The successor that waits for the end of the live job.
    Next,
    /// No place: the job is completed.
    Free,
}

/// The place of a state on its job's key.
pub fn key_place(state: &State) -> KeyPlace {
    match state {
        State::Blocked(blocked) if blocked.holder.is_some() => KeyPlace::Next,
        state if state.is_terminal() => KeyPlace::Free,
        _ => KeyPlace::Live,
    }
}

/// The kind of a setting, ordered by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingKind {
    /// A change of many jobs.
    Operation,
    Queue,
    /// The server's rule for completed jobs.
    Retention,
    Schedule,
    /// An API token.
    Token,
    Type,
    /// What an operator has ordered of a worker.
    Worker,
}

impl SettingKind {
    pub const ALL: [SettingKind; 7] = [
        SettingKind::Operation,
        SettingKind::Queue,
        SettingKind::Retention,
        SettingKind::Schedule,
        SettingKind::Token,
        SettingKind::Type,
        SettingKind::Worker,
    ];

    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            SettingKind::Operation => "operation",
            SettingKind::Queue => "queue",
            SettingKind::Retention => "retention",
            SettingKind::Schedule => "schedule",
            SettingKind::Token => "token",
            SettingKind::Type => "type",
            SettingKind::Worker => "worker",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub kind: SettingKind,
    pub name: String,
    /// Incremented by every write, from 1.
    pub rev: u32,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingWrite {
    pub kind: SettingKind,
    pub name: String,
    /// The stored rev it was decided on; 0 if the setting must not exist.
    pub expected: u32,
    /// The new content as JSON; none removes the setting.
    pub value: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWrite {
    /// The stored rev it was decided on; 0 if the group must not exist.
    pub expected: u32,
    /// The group after the write; its rev is one above the expected one.
    pub group: Group,
}

/// A sub-job by the name that its parent uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// The job whose attempt requested it.
    pub parent: JobId,
    /// The name: a retried parent requests the same name again.
    pub call: String,
    /// The sub-job: a new one, or an existing one that the request joined.
    pub job: JobId,
}

/// A job of a group, with the fields needed for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: JobId,
    /// The job that this one is a copy of.
    pub copy_of: Option<JobId>,
    /// Whether it belongs to the group without being a member.
    pub attached: bool,
    /// Its stored state.
    pub state: StateName,
}

/// An idempotency key, stored with the answer in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredIdempotencyKey {
    /// The owner of the key; [`crate::INBOX_SCOPE`] also deletes the inbox row.
    pub scope: String,
    pub key: String,
    /// A digest of the request.
    pub body: u128,
    pub answer: Vec<Submitted>,
    pub at: Time,
    /// Keys stored before this time have expired.
    pub forget_before: Time,
}

/// A unit that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The requested specs, in the order of the changes.
    pub specs: Vec<Arc<JobSpec>>,
}

/// The result of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The number of its feed row; none if no job changed.
    pub feed: Option<u64>,
    /// One result per unit, in order. A refused unit lists every conflict found.
    pub results: Vec<Result<Done, Vec<Conflict>>>,
}

/// Why a unit was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The job's rev differs from the expected one; this is the stored job, if it exists.
    Stale { id: JobId, job: Option<Job> },
    /// A checked job is completed or does not exist.
    NotOpen(JobId),
    /// A checked group does not accept such jobs, or does not exist.
    NotJoinable(GroupId),
    /// The place on the key is taken.
    KeyHeld {
        /// The job that needs the place.
        id: JobId,
        job: Job,
    },
    /// A recent enough success exists.
    Reusable {
        /// The job to insert.
        id: JobId,
        /// The newest such success.
        job: Job,
    },
    /// The job releases its key, but a successor waits for it and the unit does not release or end that one.
    Successor { id: JobId, job: Job },
    /// The idempotency key was used for the same request; this is the stored answer.
    Repeated(Vec<Submitted>),
    /// The idempotency key was used for another request.
    IdempotencyKeyReused,
    /// The group has another rev; the stored group is included, if it exists.
    Group {
        /// Position among the groups.
        write: usize,
        stored: Option<Box<Group>>,
    },
    /// The setting has another rev; the stored setting is included, if it exists.
    Setting {
        /// Position among the settings.
        write: usize,
        stored: Option<Setting>,
    },
    /// The record has another rev; the stored record is included, if it exists.
    Record {
        /// Position among the records.
        write: usize,
        stored: Option<Box<Record>>,
    },
}
