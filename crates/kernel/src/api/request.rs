//! Requests to the kernel.

use std::sync::Arc;

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{
    AttemptId, Failure, GroupId, Indicator, JobId, LeaseId, NewJob, QueueConfig, QueueName, Report,
    ScheduleName, TypeConfig, TypeName, WorkerName,
};

use crate::api::effect::{SessionId, VacancyId};
use crate::groups::NewGroup;
use crate::jobs::edit::Edit;
use crate::settings::schedules::ScheduleConfig;

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
    pub jobs: Vec<NewJob>,
    /// The idempotency key, if there is one.
    pub name: Option<IdempotencyKey>,
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
        job: Box<NewJob>,
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
