//! Requests to the kernel.

use std::sync::Arc;

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{
    Application, AttemptId, Failure, GroupId, Indicator, JobId, Key, LeaseId, NewJob, QueueConfig, QueueName,
    RecordKind, Report, Retention, ScheduleName, Scope, StateName, Submitted, TypeConfig, TypeName,
    WorkerName,
};

use crate::api::answer::{GroupCreated, Noted, OpenedSession, Rejected, Reply, Shown, TypedAnswer, Waited};
use crate::api::effect::{SessionId, VacancyId};
use crate::api::ticket::Ticket;
use crate::explain::Explanation;
use crate::groups::{NewGroup, ShownGroup};
use crate::jobs::edit::Edit;
use crate::matching::pause::{WorkerChange, WorkerConfig};
use crate::matching::resources::WorkerUse;
use crate::settings::schedules::{ScheduleConfig, ShownSchedule};
use crate::settings::types::KnownType;
use crate::stats::counts::{Counts, Takers};
use crate::stats::queues::Tally;

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

/// Jobs and records, at least one of either, all or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submit {
    /// The jobs.
    pub jobs: Vec<NewJob>,
    /// The idempotency key, if there is one.
    pub name: Option<IdempotencyKey>,
    /// The application that submits them; none for a user.
    pub by: Option<Application>,
    /// Records that are written in the same commit.
    pub records: Vec<NewRecord>,
}

/// A record that is written with a request. The kernel adds the time, and the group that the request creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// What it is.
    pub kind: RecordKind,
    /// Which one.
    pub key: Key,
    /// The stored rev it was decided on; 0 if the record must not exist.
    pub expected: u32,
    /// The group that it belongs to.
    pub group: NewRecordGroup,
    /// The new content as JSON; none removes the record.
    pub value: Option<String>,
}

/// The group of a record that is written with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewRecordGroup {
    /// As stored; none for a new record.
    Keep,
    /// The group that the request creates.
    Made,
    /// No group.
    None,
}

/// An attempt, as its worker refers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRef {
    /// The worker's name, from its credential.
    pub worker: WorkerName,
    /// The attempt.
    pub attempt: AttemptId,
    /// Its lease.
    pub lease: LeaseId,
}

impl AttemptRef {
    pub(crate) fn job(&self) -> JobId {
        self.attempt.job
    }
}

/// Defines all requests, with and without the tickets for their answers. A request names in parentheses what it is
/// about, in braces its fields, and then the type of its answer.
macro_rules! requests {
    ($($(#[$about:meta])* $group:ident $typed:ident {
        $($(#[$doc:meta])* $name:ident($($key:ident: $key_type:ty)?)
        { $($(#[$field_doc:meta])* $field:ident: $kind:ty),* $(,)? } -> $reply:ty,)*
    })*) => {
        /// A request of any type, without the ticket for its answer.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Request {
            $($($(#[$doc])* $name {
                $(
                    /// What it is about.
                    $key: $key_type,
                )?
                $($(#[$field_doc])* $field: $kind,)*
            },)*)*
        }

        impl Request {
            /// The same request with the ticket of this number.
            pub fn typed(self, number: u64) -> TypedRequest {
                match self {
                    $($(Request::$name { $($key,)? $($field,)* } => {
                        let to = Ticket::new(number);
                        TypedRequest::$group($($key,)? $typed::$name { $($field,)* to })
                    })*)*
                }
            }
        }

        $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub enum $typed {
                $($(#[$doc])* $name {
                    $($(#[$field_doc])* $field: $kind,)*
                    /// The ticket for the answer.
                    to: Ticket<$reply>,
                },)*
            }

            impl $typed {
                /// The answer that rejects it.
                pub(crate) fn rejected(&self, why: Rejected) -> TypedAnswer {
                    match self {
                        $($typed::$name { to, .. } => Reply::answer(*to, Err(why)),)*
                    }
                }
            }
        )*
    };
}

/// A request to the kernel, with the ticket for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedRequest {
    /// About one job.
    Job(JobId, JobRequest),
    /// About an attempt, from its worker.
    Attempt(AttemptRef, AttemptRequest),
    /// About a worker's session.
    Session(SessionId, SessionRequest),
    /// About more than one job, or about settings.
    Hall(HallRequest),
}

impl TypedRequest {
    /// The answer that rejects it.
    pub fn rejected(&self, why: Rejected) -> TypedAnswer {
        match self {
            TypedRequest::Job(_, request) => request.rejected(why),
            TypedRequest::Attempt(_, request) => request.rejected(why),
            TypedRequest::Session(_, request) => request.rejected(why),
            TypedRequest::Hall(request) => request.rejected(why),
        }
    }

    /// Whether it concerns many jobs at once, and so waits for none of them.
    pub fn is_overview(&self) -> bool {
        matches!(
            self,
            TypedRequest::Hall(
                HallRequest::ShowGroup { .. }
                    | HallRequest::Counts { .. }
                    | HallRequest::Workers { .. }
                    | HallRequest::Queue { .. }
                    | HallRequest::Queues { .. }
            )
        )
    }
}

requests! {
    /// A request about one job.
    Job JobRequest {
        /// Cancel a job.
        Cancel(id: JobId) {
            /// The reason, which becomes its error.
            failure: Failure,
        } -> StateName,
        /// Change a job that no worker holds.
        Edit(id: JobId) {
            /// The changes.
            edit: Box<Edit>,
        } -> StateName,
        /// Run a job that no worker holds immediately, regardless of its start time, backoff and windows.
        RunNow(id: JobId) {} -> StateName,
        /// Hold a job: it is not claimed.
        Hold(id: JobId) {} -> StateName,
        /// Release a held job.
        Release(id: JobId) {} -> StateName,
        /// Report from outside the outcome of work that continues there.
        Complete(id: JobId) {
            /// The number of the attempt; none: the current one.
            attempt: Option<u32>,
            /// The outcome.
            report: Report,
        } -> StateName,
        /// Submit a new job that repeats this completed one.
        Retry(id: JobId) {
            /// The idempotency key, if there is one.
            name: Option<IdempotencyKey>,
        } -> Vec<Submitted>,
        /// Return a job, without its ended attempts.
        Show(id: JobId) {} -> Box<Shown>,
        /// Return why a job is not running.
        Explain(id: JobId) {} -> Box<Explanation>,
    }

    /// A request of a worker about one of its attempts.
    Attempt AttemptRequest {
        /// Accept an assignment.
        Accept(of: AttemptRef) {} -> StateName,
        /// Report progress.
        Progress(of: AttemptRef) {
            /// The indicators.
            indicators: Vec<Indicator>,
        } -> StateName,
        /// Request sub-jobs from an attempt, all or nothing, by names that the attempt chooses.
        Call(of: AttemptRef) {
            /// The jobs, each with its name: a repeated request with a name returns the same job unless that job has
            /// failed.
            jobs: Vec<(String, NewJob)>,
            /// The application that requests them; none for the process of a job.
            by: Option<Application>,
        } -> Vec<Submitted>,
        /// Suspend an attempt until sub-jobs have ended. Answered when it resumes, or after this time.
        Wait(of: AttemptRef) {
            /// The jobs; none: all sub-jobs.
            jobs: Option<Vec<JobId>>,
            /// Maximum time until the answer.
            wait_ms: u64,
        } -> Waited,
        /// Check that a job is a sub-job of the attempt's job.
        CheckSubJob(of: AttemptRef) {
            /// The job.
            job: JobId,
        } -> Noted,
        /// Report that the work was started and continues outside.
        Started(of: AttemptRef) {} -> StateName,
        /// Report the outcome of an attempt.
        Report(of: AttemptRef) {
            /// The outcome.
            report: Report,
            /// Records that are written in the same commit.
            records: Vec<NewRecord>,
        } -> StateName,
    }

    /// A request about a worker's session.
    Session SessionRequest {
        /// Renew the session of a worker.
        Renew(session: SessionId) {} -> Noted,
        /// The connection is lost: nothing more is assigned to this session; its leases remain valid until they expire.
        Disconnect(session: SessionId) {} -> Noted,
        /// The worker has left: its leases end now.
        CloseSession(session: SessionId) {} -> Noted,
        /// Open a vacancy: the worker can take jobs now.
        Vacancy(session: SessionId) {
            /// The number of jobs.
            slots: u32,
            /// The lifetime of the vacancy.
            wait_ms: u64,
        } -> VacancyId,
        /// Withdraw a vacancy: nothing more is assigned to it; assignments made or in flight remain.
        EndVacancy(session: SessionId) {
            /// The vacancy.
            vacancy: VacancyId,
        } -> Noted,
        /// Set the total number of jobs that may be assigned to a session, counted from its beginning. The request is
        /// idempotent and may cross with an assignment. A lower number withdraws unused credit.
        Credit(session: SessionId) {
            /// The number of jobs since the session began, including those it has had. Negative if a worker
            /// reconnected with more attempts than it has slots, because some of them wait.
            total: i64,
        } -> Noted,
        /// Replace what a session offers. Its attempts, its leases and its credit remain; an assignment in flight was
        /// decided on what it offered before.
        SetAbilities(session: SessionId) {
            /// The abilities of its worker.
            abilities: Abilities,
            /// The jobs that its worker accepts.
            accepts: Accepts,
        } -> Noted,
    }

    /// A request about more than one job, or about settings.
    Hall HallRequest {
        /// Submit jobs.
        Submit() {
            /// The jobs.
            submit: Submit,
        } -> Vec<Submitted>,
        /// Create a group with jobs in it.
        CreateGroup() {
            /// The group.
            group: NewGroup,
            /// Its first jobs; may be empty.
            submit: Submit,
        } -> GroupCreated,
        /// Close a group for new members.
        CloseGroup() {
            /// The group.
            id: GroupId,
        } -> Box<ShownGroup>,
        /// Cancel all jobs of a group.
        CancelGroup() {
            /// The group.
            id: GroupId,
            /// The reason, which becomes the error of its jobs.
            failure: Failure,
            /// Whether it is stopped as failed, whatever becomes of its members.
            fails: bool,
        } -> Box<ShownGroup>,
        /// Create a new group from the failed members of an ended one.
        RetryGroup() {
            /// The ended group.
            id: GroupId,
            /// The idempotency key, if there is one.
            name: Option<IdempotencyKey>,
        } -> GroupCreated,
        /// Return a group that has not ended.
        ShowGroup() {
            /// The group.
            id: GroupId,
        } -> Box<ShownGroup>,
        /// Remove these completed jobs; open ones are not affected.
        Remove() {
            /// The jobs.
            ids: Vec<JobId>,
        } -> u64,
        /// Return all counts.
        Counts() {} -> Box<Counts>,
        /// Return the resources in use of every worker.
        Workers() {} -> Vec<WorkerUse>,
        /// End all sessions of a worker, including one that is known only by its leases: its leases end now.
        EndWorker() {
            /// The worker.
            worker: WorkerName,
        } -> Noted,
        /// Return what operators have ordered of a worker, or of all workers.
        WorkerConfigs() {
            /// The worker; none: all.
            worker: Option<WorkerName>,
        } -> Vec<(WorkerName, WorkerConfig)>,
        /// Pause, resume or drain a worker, which need not be connected.
        ChangeWorker() {
            /// The worker.
            worker: WorkerName,
            /// The change.
            change: WorkerChange,
        } -> Noted,
        /// Return one queue, and the workers that could take its jobs.
        Queue() {
            /// The queue.
            name: QueueName,
        } -> Option<(Tally, Takers)>,
        /// Return queues, by name.
        Queues() {
            /// Start after this name; none: from the first.
            after: Option<QueueName>,
            /// Only queues of this scope.
            scope: Scope,
            /// Maximum number of queues.
            limit: usize,
        } -> Vec<(QueueName, Tally)>,
        /// Return known types, by name: those configured, and those used recently.
        Types() {
            /// Start after this name; none: from the first.
            after: Option<TypeName>,
            /// Maximum number of types.
            limit: usize,
        } -> Vec<KnownType>,
        /// Return the known ones among these types.
        TypesByName() {
            /// The types.
            names: Vec<TypeName>,
        } -> Vec<KnownType>,
        /// Change the configuration of a type.
        SetType() {
            /// The type.
            job_type: TypeName,
            /// The new configuration; none removes it, and the type has the defaults again.
            config: Option<TypeConfig>,
            /// The revision that the change is based on, 0 for a type that must not exist; none overwrites any.
            expected: Option<u32>,
        } -> u32,
        /// Return schedules, by name.
        Schedules() {
            /// Start after this name; none: from the first.
            after: Option<ScheduleName>,
            /// Maximum number of schedules.
            limit: usize,
        } -> Vec<ShownSchedule>,
        /// Return one schedule; none if there is none of this name.
        Schedule() {
            /// Its name.
            name: ScheduleName,
        } -> Option<ShownSchedule>,
        /// Create, change or remove a schedule.
        SetSchedule() {
            /// Its name.
            name: ScheduleName,
            /// The new configuration; none removes the schedule. The jobs that it created remain.
            config: Option<Arc<ScheduleConfig>>,
            /// The version that the change is based on, 0 for a schedule that must not exist; none overwrites any.
            expected: Option<u32>,
            /// The application that changes it; none for a user.
            by: Option<Application>,
        } -> u32,
        /// Create the job of a schedule now, in addition to its ticks.
        RunSchedule() {
            /// The schedule.
            name: ScheduleName,
            /// The idempotency key, if there is one.
            key: Option<IdempotencyKey>,
        } -> Vec<Submitted>,
        /// Return the configuration of every configured queue.
        QueueConfigs() {} -> Vec<(QueueName, u32, QueueConfig)>,
        /// Change the configuration of a queue.
        SetQueue() {
            /// The queue.
            queue: QueueName,
            /// The new configuration; none removes it, and the queue has the defaults again.
            config: Option<QueueConfig>,
            /// The revision that the change is based on, 0 for a queue that must not be configured; none overwrites
            /// any.
            expected: Option<u32>,
        } -> u32,
        /// Return the server's rule for completed jobs, with its revision.
        Retention() {} -> (u32, Retention),
        /// Change the server's rule for completed jobs.
        SetRetention() {
            /// The new rule.
            rule: Retention,
            /// The revision that the change is based on, 0 for a rule that was never set; none overwrites any.
            expected: Option<u32>,
        } -> u32,
        /// Open a session for a worker, which may bring the attempts that it still has.
        OpenSession() {
            /// The worker's name, from its credential.
            worker: WorkerName,
            /// Its abilities.
            abilities: Abilities,
            /// The jobs it accepts.
            accepts: Accepts,
            /// The attempts it still has.
            attempts: Vec<(AttemptId, LeaseId)>,
            /// How long the session lives without a renewal, at most the server's lease; none: as long as that.
            lease_ms: Option<u64>,
            /// Whether the worker's process began anew: its sessions without a connection end at once.
            fresh: bool,
        } -> OpenedSession,
    }
}
