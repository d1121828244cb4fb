//! Requests to the kernel.

use std::sync::Arc;

use jobhall_core::needs::{Abilities, Accepts, Needs, Uses};
use jobhall_core::{
    AttemptId, Failure, GroupId, JobId, Json, Key, LeaseId, Owner, QueueConfig, QueueName, Report,
    RetryPolicy, ScheduleName, Scope, Tag, Time, Timeouts, TypeConfig, TypeName, Windows, WorkerName,
};

use serde::{Deserialize, Serialize};

use crate::api::effect::{SessionId, VacancyId};
use crate::groups::NewGroup;
use crate::jobs::edit::Edit;
use crate::settings::schedules::ScheduleConfig;

/// What to do when a live job has the same (type, key).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// Return that job.
    #[default]
    Join,
    /// Reject the submit.
    Reject,
    /// Cancel that job and wait as its successor.
    Supersede,
    /// Run again with these params when that job has ended.
    RunAgain,
}

/// A dependency of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// This job.
    Job(JobId),
    /// The result of the earlier job of the same submit at this position.
    Position(usize),
}

/// One job to be submitted. Its fields are validated values; a field that is none takes the type's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitJob {
    /// The type of work.
    pub job_type: TypeName,
    /// Identifies the work within its type.
    pub key: Option<Key>,
    /// The queue.
    pub queue: QueueName,
    /// The parameters for the worker.
    pub params: Json,
    /// Requirements that a worker must match.
    pub needs: Needs,
    /// What it uses of its worker's resources while it runs.
    pub uses: Uses,
    /// Whether retries prefer workers that did not have it before.
    pub avoid: bool,
    /// The time windows in which it may start.
    pub windows: Windows,
    /// Its weight against limits; 0 is exempt from them.
    pub throttle_factor: u32,
    /// The time limits of an attempt; a field that is none takes the type's value.
    pub timeouts: Timeouts,
    /// Jobs that must end before it starts.
    pub after: Vec<After>,
    /// Whether a dependency may end in any state.
    pub after_any: bool,
    /// The group it belongs to.
    pub group: Option<GroupId>,
    /// Whether it serves its group without being a member.
    pub attached: bool,
    /// The job that it is a speculative copy of.
    pub copy_of: Option<JobId>,
    /// The owner.
    pub owner: Option<Owner>,
    /// Tags for filtering.
    pub tags: Vec<Tag>,
    /// The priority; lower values go first.
    pub priority: i32,
    /// The earliest start; none: now.
    pub run_at: Option<Time>,
    /// The retry policy; none: the type's.
    pub retry: Option<RetryPolicy>,
    /// What to do if a live job has the same key.
    pub on_duplicate: OnDuplicate,
    /// A success at most this old is returned instead; limited by the type's reuse window.
    pub reuse_max_age_ms: Option<u64>,
    /// The queues that the caller may access: a job in another queue is neither returned nor changed.
    pub scope: Scope,
    /// The completed job that this one repeats.
    pub retry_of: Option<JobId>,
    /// The schedule that creates it.
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

/// An idempotency key with the digest of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The scope of the key.
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
    /// The name of the indicator.
    pub name: String,
    /// The current step.
    pub step: u64,
    /// The number of steps, if known.
    pub total: Option<u64>,
    /// A message for users.
    pub message: String,
}

/// A request to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Submit jobs.
    Submit(Submit),
    /// Create a group with jobs in it.
    CreateGroup {
        /// The group.
        group: NewGroup,
        /// Its first jobs; may be empty.
        submit: Submit,
    },
    /// Close a group for new members.
    CloseGroup(GroupId),
    /// Cancel all jobs of a group.
    CancelGroup {
        /// The group.
        id: GroupId,
        /// The reason, which becomes the error of its jobs.
        failure: Failure,
    },
    /// Create a new group from the failed members of an ended one.
    RetryGroup {
        /// The ended group.
        id: GroupId,
        /// The idempotency key, if there is one.
        name: Option<IdempotencyKey>,
    },
    /// Return a group that has not ended.
    ShowGroup(GroupId),
    /// Cancel a job.
    Cancel {
        /// The job.
        id: JobId,
        /// The reason, which becomes its error.
        failure: Failure,
    },
    /// Change a job that no worker holds.
    Edit {
        /// The job.
        id: JobId,
        /// The changes.
        edit: Box<Edit>,
    },
    /// Run a job that no worker holds immediately, regardless of its start time, backoff and windows.
    RunNow(JobId),
    /// Hold a job: it is not claimed.
    Hold(JobId),
    /// Release a held job.
    Release(JobId),
    /// Submit a new job that repeats this completed one.
    Retry {
        /// The completed job.
        id: JobId,
        /// The idempotency key, if there is one.
        name: Option<IdempotencyKey>,
    },
    /// Remove these completed jobs; open ones are not affected.
    Remove(Vec<JobId>),
    /// Return everything that is known about a job.
    Show(JobId),
    /// Return why a job is not running.
    Explain(JobId),
    /// Return all counts.
    Counts,
    /// Return the resources in use of every worker.
    Workers,
    /// Return one queue, and the workers that could take its jobs.
    Queue(QueueName),
    /// Return queues, by name.
    Queues {
        /// Start after this name; none: from the first.
        after: Option<QueueName>,
        /// Maximum number of queues.
        limit: usize,
    },
    /// Return the configuration of every known type.
    Types,
    /// Change the configuration of a type.
    SetType {
        /// The type.
        job_type: TypeName,
        /// The new configuration; none removes it, and the type has the defaults again.
        config: Option<TypeConfig>,
        /// The revision that the change is based on, 0 for a type that must not exist; none overwrites any.
        expected: Option<u32>,
    },
    /// Return every schedule.
    Schedules,
    /// Create, change or remove a schedule.
    SetSchedule {
        /// Its name.
        name: ScheduleName,
        /// The new configuration; none removes the schedule. The jobs that it created remain.
        config: Option<Arc<ScheduleConfig>>,
        /// The version that the change is based on, 0 for a schedule that must not exist; none overwrites any.
        expected: Option<u32>,
    },
    /// Create the job of a schedule now, in addition to its ticks.
    RunSchedule(ScheduleName),
    /// Return the configuration of every configured queue.
    QueueConfigs,
    /// Change the configuration of a queue.
    SetQueue {
        /// The queue.
        queue: QueueName,
        /// The new configuration; none removes it, and the queue has the defaults again.
        config: Option<QueueConfig>,
        /// The revision that the change is based on, 0 for a queue that must not be configured; none overwrites any.
        expected: Option<u32>,
    },
    /// Open a session for a worker, which may bring the attempts that it still has.
    OpenSession {
        /// The worker's name, from its credential.
        worker: WorkerName,
        /// Its abilities.
        abilities: Abilities,
        /// The jobs it accepts.
        accepts: Accepts,
        /// The attempts it still has.
        attempts: Vec<(AttemptId, LeaseId)>,
    },
    /// Renew the session of a worker.
    Renew(SessionId),
    /// The connection is lost: nothing more is assigned to this session; its leases remain valid until they expire.
    Disconnect(SessionId),
    /// The worker has left: its leases end now.
    CloseSession(SessionId),
    /// Open a vacancy: the worker can take jobs now.
    Vacancy {
        /// The session.
        session: SessionId,
        /// The number of jobs.
        slots: u32,
        /// The lifetime of the vacancy.
        wait_ms: u64,
    },
    /// Withdraw a vacancy: nothing more is assigned to it; assignments made or in flight remain.
    EndVacancy {
        /// The session.
        session: SessionId,
        /// The vacancy.
        vacancy: VacancyId,
    },
    /// Set the total number of jobs that may be assigned to a session, counted from its beginning. The request is
    /// idempotent and may cross with an assignment. A lower number withdraws unused credit.
    Credit {
        /// The session.
        session: SessionId,
        /// The number of jobs since the session began, including those it has had. Negative if a worker reconnected
        /// with more attempts than it has slots, because some of them wait.
        total: i64,
    },
    /// Accept an assignment.
    Accept {
        /// The worker's name, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
    },
    /// Report progress.
    Progress {
        /// The worker's name, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
        /// The indicators.
        indicators: Vec<Indicator>,
    },
    /// Request a sub-job from an attempt, by a name that the attempt chooses.
    Call {
        /// The worker's name, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
        /// The name: a repeated request with it returns the same job unless that job has failed.
        call: String,
        /// The job.
        job: Box<SubmitJob>,
    },
    /// Suspend an attempt until sub-jobs have ended. Answered when it resumes, or after this time.
    Wait {
        /// The worker's name, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
        /// The jobs; none: all sub-jobs.
        jobs: Option<Vec<JobId>>,
        /// Maximum time until the answer.
        wait_ms: u64,
    },
    /// Report that the work was started and continues outside.
    Started {
        /// The worker's name, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
    },
    /// Report from outside the outcome of such work.
    Complete {
        /// The job.
        id: JobId,
        /// The number of the attempt; none: the current one.
        attempt: Option<u32>,
        /// The outcome.
        report: Report,
    },
    /// Report the outcome of an attempt.
    Report {
        /// The worker's name, from its credential.
        worker: WorkerName,
        /// The attempt.
        attempt: AttemptId,
        /// Its lease.
        lease: LeaseId,
        /// The outcome.
        report: Report,
    },
}

impl Request {
    /// Whether it concerns many jobs at once, and so waits for none of them.
    pub fn is_overview(&self) -> bool {
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
