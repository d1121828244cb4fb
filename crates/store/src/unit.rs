//! The content of a commit, and its result.

use std::sync::Arc;

use jobhall_core::{
    Group, GroupId, Job, JobId, JobSpec, JobStatus, PastAttempt, State, StateName, Submitted, Time,
};

use crate::audit::AuditEntry;

/// One request, all or nothing, looked at in four stages; the first stage with a conflict refuses the unit and lists
/// all its conflicts:
///
/// 1. the idempotency key;
/// 2. checks, settings, groups, and the revs of the changes;
/// 3. keys that the changes release and take: a successor left behind, a place already held;
/// 4. inserts, in order: an id that is used already (`Stale`), a reusable success, then the place on the key (an
///    earlier insert of the unit may hold it).
///
/// A job is changed at most once in a unit, and so are a setting and a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// What must be so.
    pub checks: Vec<Check>,
    /// Moves of stored jobs.
    pub changes: Vec<Change>,
    /// New jobs.
    pub inserts: Vec<Insert>,
    /// Settings that come with it.
    pub settings: Vec<SettingWrite>,
    /// Groups that come with it.
    pub groups: Vec<GroupWrite>,
    /// Sub-jobs that attempts ask for. A link of the same (parent, call) gives way.
    pub links: Vec<Link>,
    /// Parents whose links go away.
    pub unlinked: Vec<JobId>,
    /// Who did it and what it is, if anyone will ask.
    pub audit: Vec<AuditEntry>,
    /// The idempotency key it is done under.
    pub idempotency_key: Option<StoredIdempotencyKey>,
}

impl Unit {
    /// About how many rows it writes.
    pub fn rows(&self) -> usize {
        self.changes.len() + self.inserts.len()
    }
}

/// What must hold when the unit is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The job exists and is not completed.
    Open(JobId),
    /// The group exists and takes members.
    Joinable(GroupId),
}

/// A decided move of one stored job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The job.
    pub id: JobId,
    /// The rev it was decided on.
    pub expected: u32,
    /// What the job becomes.
    pub life: JobStatus,
    /// What is asked for from now on, if that changes. Type, key, queue, group, parent and creation never do.
    pub spec: Option<Arc<JobSpec>>,
    /// An ended attempt, for the history.
    pub past: Option<Box<PastAttempt>>,
    /// Whether the job's spec is wanted back: the caller does not have it.
    pub want_spec: bool,
}

/// A new job. It takes the place of its key that [`key_place`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    /// The job.
    pub job: Job,
    /// A success of the same (type, key) that ended at this moment or later makes the insert needless.
    pub reuse_since: Option<Time>,
}

/// Which claim on its (type, key) a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPlace {
    /// The live job of its key.
    Live,
    /// The one successor that waits for the live one's end.
    Next,
    /// None: completed.
    Free,
}

/// Which place a state has on its job's key.
pub fn key_place(state: &State) -> KeyPlace {
    match state {
        State::Blocked(blocked) if blocked.holder.is_some() => KeyPlace::Next,
        state if state.is_terminal() => KeyPlace::Free,
        _ => KeyPlace::Live,
    }
}

/// What a setting is about, in the order of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingKind {
    /// A change of many jobs.
    Operation,
    /// A queue.
    Queue,
    /// A schedule.
    Schedule,
    /// A credential.
    Token,
    /// A job type.
    Type,
}

impl SettingKind {
    /// All kinds.
    pub const ALL: [SettingKind; 5] = [
        SettingKind::Operation,
        SettingKind::Queue,
        SettingKind::Schedule,
        SettingKind::Token,
        SettingKind::Type,
    ];

    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            SettingKind::Operation => "operation",
            SettingKind::Queue => "queue",
            SettingKind::Schedule => "schedule",
            SettingKind::Token => "token",
            SettingKind::Type => "type",
        }
    }
}

/// A stored setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What it is about.
    pub kind: SettingKind,
    /// Which one.
    pub name: String,
    /// Rises at every write, from 1.
    pub rev: u32,
    /// The content, as JSON.
    pub value: String,
}

/// A write of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingWrite {
    /// What it is about.
    pub kind: SettingKind,
    /// Which one.
    pub name: String,
    /// The stored rev it was decided on; 0 means that there must be none.
    pub expected: u32,
    /// The new content, as JSON; none removes the setting.
    pub value: Option<String>,
}

/// A write of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWrite {
    /// The stored rev it was decided on; 0 means that there must be none.
    pub expected: u32,
    /// What the group becomes; its rev is one above the expected one.
    pub group: Group,
}

/// A sub-job by the name that its parent gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// The job whose attempt asked.
    pub parent: JobId,
    /// What it calls the answer: a retried parent asks again by the same name.
    pub call: String,
    /// The job that answers: its own, or one that it joined.
    pub job: JobId,
}

/// A job of a group, as far as counting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The job.
    pub id: JobId,
    /// The job that it is a copy of.
    pub copy_of: Option<JobId>,
    /// Whether it serves the group without being a member.
    pub attached: bool,
    /// Its stored state.
    pub state: StateName,
}

/// An idempotency key, stored with the answer in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredIdempotencyKey {
    /// Whose key it is; [`crate::INBOX_SCOPE`] takes the row of the inbox with it.
    pub scope: String,
    /// The key.
    pub key: String,
    /// A digest of its request.
    pub body: u128,
    /// What was answered.
    pub answer: Vec<Submitted>,
    /// When.
    pub at: Time,
    /// Keys stored before this moment count as forgotten.
    pub forget_before: Time,
}

/// A unit that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The specs that were asked for, in the order of the changes that asked.
    pub specs: Vec<Arc<JobSpec>>,
}

/// What a commit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The number of its feed row; none if no job changed.
    pub feed: Option<u64>,
    /// One result per unit, in order. A refused unit lists every conflict that was found.
    pub results: Vec<Result<Done, Vec<Conflict>>>,
}

/// Why a unit was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The job's rev differs from the expected one; this is the stored job, if it exists.
    Stale {
        /// The job that was to change.
        id: JobId,
        /// As stored.
        job: Option<Job>,
    },
    /// A checked job is completed or does not exist.
    NotOpen(JobId),
    /// A checked group takes no members, or does not exist.
    NotJoinable(GroupId),
    /// The place on the key is taken.
    KeyHeld {
        /// The job that wants it.
        id: JobId,
        /// The holder.
        job: Job,
    },
    /// A young enough success exists.
    Reusable {
        /// The job that was to be inserted.
        id: JobId,
        /// The newest such success.
        job: Job,
    },
    /// The job gives up its key, but a successor waits for it and the unit does not release or end that one.
    Successor {
        /// The job that was to end.
        id: JobId,
        /// The one that waits.
        job: Job,
    },
    /// The idempotency key was used for the same request: this was the answer.
    Repeated(Vec<Submitted>),
    /// The idempotency key was used for another request.
    IdempotencyKeyReused,
    /// The group has another rev; here it is, if it exists.
    Group {
        /// Position among the groups.
        write: usize,
        /// As stored.
        stored: Option<Box<Group>>,
    },
    /// The setting has another rev; here it is, if it exists.
    Setting {
        /// Position among the settings.
        write: usize,
        /// As stored.
        stored: Option<Setting>,
    },
}
