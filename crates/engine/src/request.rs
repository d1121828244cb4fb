//! What can be asked of the kernel.

use std::sync::Arc;

use jobhall_core::needs::{Abilities, Accepts, Needs, Uses};
use jobhall_core::{
    AttemptId, Failure, GroupId, JobId, Json, Key, LeaseId, Owner, QueueConfig, QueueName, Report,
    RetryPolicy, ScheduleName, Scope, Tag, Time, Timeouts, TypeConfig, TypeName, Windows, WorkerName,
};

use serde::{Deserialize, Serialize};

use crate::edit::Edit;
use crate::effect::{SessionId, VacancyId};
use crate::groups::NewGroup;
use crate::schedules::ScheduleConfig;

/// What to do when a live job has the same (type, key).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// Answer with that job.
    #[default]
    Join,
    /// Refuse.
    Reject,
    /// Cancel that job and wait as its successor.
    Supersede,
    /// Run once more when that job has ended, with these params.
    RunAgain,
}

/// A job that must end before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// This one.
    Job(JobId),
    /// What comes of an earlier job of the same submit, at this position.
    Position(usize),
}

/// One job to be made. Its parts are checked values; what is none takes the type's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitJob {
    /// What kind of work.
    pub job_type: TypeName,
    /// Names the work within its type.
    pub key: Option<Key>,
    /// Where it stands in line.
    pub queue: QueueName,
    /// What the worker gets.
    pub params: Json,
    /// Which workers suit.
    pub needs: Needs,
    /// What it takes of its worker's numbers while it runs.
    pub uses: Uses,
    /// Whether another worker is preferred to those that had it before.
    pub avoid: bool,
    /// When on a day it may start.
    pub windows: Windows,
    /// What it weighs against limits; 0 is exempt from them.
    pub throttle_factor: u32,
    /// How long an attempt may take; what is none is as the type says.
    pub timeouts: Timeouts,
    /// The jobs that must end before it.
    pub after: Vec<After>,
    /// Whether any end of those will do.
    pub after_any: bool,
    /// The group it belongs to.
    pub group: Option<GroupId>,
    /// Whether it serves its group without being a member of it.
    pub attached: bool,
    /// The job that it is a speculative copy of.
    pub copy_of: Option<JobId>,
    /// Whose it is.
    pub owner: Option<Owner>,
    /// What it is found by.
    pub tags: Vec<Tag>,
    /// Lower goes first.
    pub priority: i32,
    /// Not before this moment; none: now.
    pub run_at: Option<Time>,
    /// None: the type's.
    pub retry: Option<RetryPolicy>,
    /// What to do about a live job of the same key.
    pub on_duplicate: OnDuplicate,
    /// A success at most this old answers instead; capped by the type's reuse window.
    pub reuse_max_age_ms: Option<u64>,
    /// Which queues the one who asks reaches: a job in another one answers nothing and is not touched.
    pub scope: Scope,
    /// The completed job that this one repeats.
    pub retry_of: Option<JobId>,
    /// The schedule that makes it.
    pub schedule: Option<ScheduleName>,
}

impl SubmitJob {
    /// A job of this type with every default: queue `default`, params `{}`, priority 100.
    pub fn new(job_type: TypeName) -> SubmitJob {
        SubmitJob {
            job_type,
            key: None,
            queue: QueueName::new("default").expect("a constant name"),
            params: Json::empty_object(),
            needs: Needs::default(),
            uses: Uses::default(),
            avoid: false,
            windows: Windows::default(),
            throttle_factor: 1,
            timeouts: Timeouts::default(),
            after: Vec::new(),
            after_any: false,
            group: None,
            attached: false,
            copy_of: None,
            owner: None,
            tags: Vec::new(),
            priority: 100,
            run_at: None,
            retry: None,
            on_duplicate: OnDuplicate::Join,
            reuse_max_age_ms: None,
            scope: Scope::default(),
            retry_of: None,
            schedule: None,
        }
    }
}

/// An idempotency key with the digest of the request it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Whose key.
    pub scope: String,
    /// The key.
    pub key: String,
    /// A digest of the request's body.
    pub body: u128,
}

/// One or many jobs, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submit {
    /// The jobs.
    pub jobs: Vec<SubmitJob>,
    /// The idempotency key, if there is one.
    pub name: Option<IdempotencyKey>,
}

/// One measure of progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indicator {
    /// Which measure, of several.
    pub name: String,
    /// How far.
    pub step: u64,
    /// Of how much, if that is known.
    pub total: Option<u64>,
    /// Words for people.
    pub message: String,
}

/// Everything that can be asked of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Make jobs.
    Submit(Submit),
    /// Make a group, and jobs in it.
    CreateGroup {
        /// The group.
        group: NewGroup,
        /// Its first jobs; there may be none.
        submit: Submit,
    },
    /// A group takes no more members.
    CloseGroup(GroupId),
    /// End all jobs of a group.
    CancelGroup {
        /// The group.
        id: GroupId,
        /// Why, as the errors of its jobs will say.
        failure: Failure,
    },
    /// Make a new group with what failed of an ended one.
    RetryGroup {
        /// The ended group.
        id: GroupId,
        /// The idempotency key, if there is one.
        name: Option<IdempotencyKey>,
    },
    /// Tell about a group that has not ended.
    ShowGroup(GroupId),
    /// End a job.
    Cancel {
        /// The job.
        id: JobId,
        /// Why, as its error will say.
        failure: Failure,
    },
    /// Change a job that no worker has.
    Edit {
        /// The job.
        id: JobId,
        /// What changes.
        edit: Box<Edit>,
    },
    /// Have a job that no worker has run at once, whatever its time, its backoff and its windows.
    RunNow(JobId),
    /// Keep a job from being claimed.
    Hold(JobId),
    /// Keep it no longer.
    Release(JobId),
    /// Make a new job like this completed one.
    Retry {
        /// The completed job.
        id: JobId,
        /// The idempotency key, if there is one.
        name: Option<IdempotencyKey>,
    },
    /// Forget these completed jobs; open ones are left alone.
    Remove(Vec<JobId>),
    /// Tell all about a job.
    Show(JobId),
    /// Tell why a job is not running.
    Explain(JobId),
    /// Tell everything that is counted.
    Counts,
    /// Tell what is in use of every worker.
    Workers,
    /// Tell about one queue, and who could take its jobs.
    Queue(QueueName),
    /// Tell about queues, by name.
    Queues {
        /// Those behind this one; none: from the first.
        after: Option<QueueName>,
        /// At most so many.
        limit: usize,
    },
    /// Tell what is configured for every type that is known.
    Types,
    /// Change what is configured for a type.
    SetType {
        /// The type.
        job_type: TypeName,
        /// The new configuration; none forgets it, and the type has the defaults again.
        config: Option<TypeConfig>,
        /// The rev that this was decided on, 0 for a type that must not be there; none overwrites any.
        expected: Option<u32>,
    },
    /// Tell about every schedule.
    Schedules,
    /// Make, change or remove a schedule.
    SetSchedule {
        /// What it is called.
        name: ScheduleName,
        /// The new configuration; none removes it. The jobs that it made stay.
        config: Option<Arc<ScheduleConfig>>,
        /// The version that this was decided on, 0 for one that must not be there; none overwrites any.
        expected: Option<u32>,
    },
    /// Make the job of a schedule now, beside its ticks.
    RunSchedule(ScheduleName),
    /// Tell what is configured for every queue that someone configured.
    QueueConfigs,
    /// Change what is configured for a queue.
    SetQueue {
        /// The queue.
        queue: QueueName,
        /// The new configuration; none forgets it, and the queue has the defaults again.
        config: Option<QueueConfig>,
        /// The rev that this was decided on, 0 for a queue that must not be configured; none overwrites any.
        expected: Option<u32>,
    },
    /// A worker comes, or comes back with the attempts that it still has.
    OpenSession {
        /// Who it is, from its credential.
        worker: WorkerName,
        /// What it can do.
        abilities: Abilities,
        /// Which jobs it takes.
        accepts: Accepts,
        /// What it still has.
        attempts: Vec<(AttemptId, LeaseId)>,
    },
    /// The worker is still there.
    Renew(SessionId),
    /// The connection is gone: nothing more is assigned to this session, its leases go on until they end.
    Disconnect(SessionId),
    /// The worker has left for good: its leases end now.
    CloseSession(SessionId),
    /// A worker can take jobs now.
    Vacancy {
        /// Whose vacancy.
        session: SessionId,
        /// How many jobs.
        slots: u32,
        /// For how long.
        wait_ms: u64,
    },
    /// A worker withdraws a vacancy: nothing more is assigned to it, what was assigned or is on its way stays.
    EndVacancy {
        /// Whose vacancy.
        session: SessionId,
        /// Which.
        vacancy: VacancyId,
    },
    /// So many jobs in all may be assigned to a session, counted from its beginning. Said again it changes nothing, and
    /// words that cross with an assignment do no harm. A lower number withdraws what was not used.
    Credit {
        /// Whose credit.
        session: SessionId,
        /// Jobs since the session began, those it has had included. Below zero where a worker came back with more
        /// attempts than it has slots, because some of them wait.
        total: i64,
    },
    /// A worker has the job it was assigned.
    Accept {
        /// Who says so, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
    },
    /// A worker tells how far it is.
    Progress {
        /// Who says so, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
        /// How far.
        indicators: Vec<Indicator>,
    },
    /// An attempt asks for a job, by a name of its own.
    Call {
        /// Who says so, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
        /// The name: asked again by the same, it gets the same job as long as that has not failed.
        call: String,
        /// The job.
        job: Box<SubmitJob>,
    },
    /// An attempt waits for jobs that it asked for. Answered when it goes on, or after this time.
    Wait {
        /// Who says so, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
        /// Which; none: all that it asked for.
        jobs: Option<Vec<JobId>>,
        /// How long the answer may take.
        wait_ms: u64,
    },
    /// A worker has started work that goes on outside.
    Started {
        /// Who says so, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
    },
    /// Someone outside tells the outcome of such work.
    Complete {
        /// The job.
        id: JobId,
        /// The number of the attempt that is meant; none: the current one.
        attempt: Option<u32>,
        /// How it ended.
        report: Report,
    },
    /// A worker's attempt has ended.
    Report {
        /// Who says so, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
        /// How it ended.
        report: Report,
    },
}

impl Request {
    /// Whether it is about many jobs at once, and so waits in line for none of them.
    pub(crate) fn is_overview(&self) -> bool {
        matches!(
            self,
            Request::ShowGroup(_)
                | Request::Counts
                | Request::Workers
                | Request::Queue(_)
                | Request::Queues { .. }
        )
    }
}
