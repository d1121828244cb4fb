//! Answers of the kernel.

use jobhall_core::limits::LimitError;
use jobhall_core::{
    AttemptId, DelayError, Dependency, GroupId, IllegalTransition, Indicator, Job, JobId, Key, QueueName,
    RecordKind, RetryError, ScheduleError, ScheduleName, StateName, Submitted, TimeoutError, TypeName,
    WorkerName,
};
use jobhall_core::{QueueConfig, Retention};
use jobhall_store::Record;
use thiserror::Error;

use crate::api::effect::{SessionId, VacancyId};
use crate::api::ticket::Ticket;
use crate::explain::Explanation;
use crate::groups::ShownGroup;
use crate::matching::pause::WorkerConfig;
use crate::matching::resources::WorkerUse;
use crate::settings::schedules::ShownSchedule;
use crate::settings::types::KnownType;
use crate::stats::counts::{Counts, Takers};
use crate::stats::queues::Tally;

/// A job as shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The job; live attempts are in the kernel's state, which may be ahead of the store.
    pub job: Job,
    /// The latest progress of a live attempt.
    pub progress: Vec<Indicator>,
    /// The expected duration of a live attempt, if it has exceeded it.
    pub longer_than_ms: Option<u64>,
    /// Whether it was in memory (a completed job that is only stored is read into the cache).
    pub cached: bool,
}

/// A group that was created, with its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCreated {
    /// Its id.
    pub id: GroupId,
    /// One entry per job created with it, in order.
    pub jobs: Vec<Submitted>,
    /// Whether an earlier request with the same idempotency key had created it.
    pub repeated: bool,
}

/// A session that was opened, and which of the attempts that the worker brought it keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedSession {
    /// Its id.
    pub session: SessionId,
    /// How long it lives without a renewal.
    pub lease_ms: u64,
    /// These attempts continue.
    pub kept: Vec<AttemptId>,
    /// These attempts are lost: stop them.
    pub lost: Vec<AttemptId>,
}

/// The jobs that an attempt waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The jobs.
    pub jobs: Vec<JobId>,
    /// Whether they have ended, and the attempt resumes.
    pub over: bool,
}

/// The request was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted;

/// A type that answers a request.
pub trait Reply: Sized + Send + 'static {
    /// The answer to this ticket.
    fn answer(to: Ticket<Self>, result: Result<Self, Rejected>) -> TypedAnswer;

    /// The value for this type.
    fn of<F: ReplyFamily>(values: &mut ByReply<F>) -> &mut F::Of<Self>;

    /// This answer as an untyped [`Answer`].
    fn untyped(self) -> Answer;
}

/// A family of types, one for each type of answer; for example, the map of its waiters.
pub trait ReplyFamily {
    /// The member for answers of type `T`.
    type Of<T: Reply>: Default;
}

/// Receives an answer with its type.
pub trait AnswerVisitor {
    /// The answer to this ticket.
    fn visit<T: Reply>(&mut self, to: Ticket<T>, result: Result<T, Rejected>);
}

/// Defines all answers, with and without their tickets.
macro_rules! replies {
    ($($(#[$doc:meta])* $field:ident: $name:ident($kind:ty),)*) => {
        /// A successful answer of any type.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Answer {
            $($(#[$doc])* $name($kind),)*
        }

        /// The answer to a ticket.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum TypedAnswer {
            $($(#[$doc])* $name(Ticket<$kind>, Result<$kind, Rejected>),)*
        }

        /// One value for each type of reply.
        pub struct ByReply<F: ReplyFamily> {
            $($field: F::Of<$kind>,)*
        }

        impl<F: ReplyFamily> Default for ByReply<F> {
            fn default() -> ByReply<F> {
                ByReply { $($field: Default::default(),)* }
            }
        }

        impl TypedAnswer {
            /// The number of its ticket.
            pub fn number(&self) -> u64 {
                match self {
                    $(TypedAnswer::$name(to, _) => to.number(),)*
                }
            }

            /// The number of its ticket, and the answer as one of all.
            pub fn untyped(self) -> (u64, Result<Answer, Rejected>) {
                match self {
                    $(TypedAnswer::$name(to, result) => (to.number(), result.map(Answer::$name)),)*
                }
            }

            /// Passes it on with its type.
            pub fn visit(self, visitor: &mut impl AnswerVisitor) {
                match self {
                    $(TypedAnswer::$name(to, result) => visitor.visit(to, result),)*
                }
            }
        }

        $(impl Reply for $kind {
            fn answer(to: Ticket<$kind>, result: Result<$kind, Rejected>) -> TypedAnswer {
                TypedAnswer::$name(to, result)
            }

            fn of<F: ReplyFamily>(values: &mut ByReply<F>) -> &mut F::Of<$kind> {
                &mut values.$field
            }

            fn untyped(self) -> Answer {
                Answer::$name(self)
            }
        })*
    };
}

replies! {
    /// One entry per submitted job, in order.
    submitted: Submitted(Vec<Submitted>),
    /// A group was created.
    group_created: GroupCreated(GroupCreated),
    /// A group and its members.
    group: Group(Box<ShownGroup>),
    /// The job's state after the request.
    state: State(StateName),
    /// Everything that is known about a job.
    shown: Shown(Box<Shown>),
    /// Why a job is not running.
    explained: Explained(Box<Explanation>),
    /// All counts.
    counts: Counts(Box<Counts>),
    /// Every worker that is present or has resources in use, by name.
    workers: Workers(Vec<WorkerUse>),
    /// What operators have ordered of workers, by name.
    worker_configs: WorkerConfigs(Vec<(WorkerName, WorkerConfig)>),
    /// A queue with its open jobs and the workers that could take them; none if it is unknown.
    queue: Queue(Option<(Tally, Takers)>),
    /// Queues with their open jobs, by name.
    queues: Queues(Vec<(QueueName, Tally)>),
    /// A session was opened.
    session: Session(OpenedSession),
    /// The number of jobs removed.
    removed: Removed(u64),
    /// Types, with the revision and content of their configuration.
    types: Types(Vec<KnownType>),
    /// Schedules, by name.
    schedules: Schedules(Vec<ShownSchedule>),
    /// A schedule; none if there is none of this name.
    schedule: Schedule(Option<ShownSchedule>),
    /// All configured queues, with the revision and content of their configuration, by name.
    queue_configs: QueueConfigs(Vec<(QueueName, u32, QueueConfig)>),
    /// The server's rule for completed jobs, with its revision.
    retention: Retention((u32, Retention)),
    /// The current revision of a type's or queue's configuration or of the server's rule, or the version of a schedule.
    rev: Rev(u32),
    /// A vacancy is open.
    vacancy: Vacancy(VacancyId),
    /// What an attempt waits for.
    waited: Waited(Waited),
    /// The request was applied.
    noted: Noted(Noted),
}

/// A record as it is stored, which a write did not expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordConflict {
    /// Its kind.
    pub kind: RecordKind,
    /// Its key.
    pub key: Key,
    /// The stored record; none if it does not exist.
    pub stored: Option<Box<Record>>,
}

/// Why the kernel rejected a request. Nothing was written, except where the variant says that this is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejected {
    /// A live job of the same (type, key) exists.
    #[error("type {job_type} with this key is held by job {holder}")]
    KeyHeld {
        /// The type.
        job_type: TypeName,
        /// The live job.
        holder: JobId,
    },
    /// Two jobs of one submit have the same (type, key) and do not both join.
    #[error("jobs {first} and {second} of this submit have the same type and key")]
    KeyTwice {
        /// Position of the first.
        first: usize,
        /// Position of the second.
        second: usize,
    },
    /// The type belongs to an application.
    #[error("type {job_type} is reserved: the server itself creates jobs whose type begins with {prefix:?}{}", instead_word(*.instead))]
    Reserved {
        /// The type.
        job_type: TypeName,
        /// The prefix of the application.
        prefix: &'static str,
        /// The command to use instead, if there is one.
        instead: Option<&'static str>,
    },
    /// Two sub-jobs of one request have the same name.
    #[error("call {0:?} is used twice in this request")]
    CallTwice(String),
    /// A record has another revision than the one that its write was decided on.
    #[error("record {kind} {key:?} was changed by someone else", kind = .0.kind, key = .0.key.as_str())]
    RecordChanged(Box<RecordConflict>),
    /// A record cannot be written.
    #[error("record {kind} {:?}: {why}", .key.as_str())]
    BadRecord {
        /// Its kind.
        kind: RecordKind,
        /// Its key.
        key: Key,
        /// The reason.
        why: &'static str,
    },
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used for another request")]
    IdempotencyKeyReused,
    /// A number or text is outside its bounds.
    #[error("{field} of {given} is outside {least} to {most}")]
    Bound {
        /// The field.
        field: &'static str,
        /// The given value.
        given: u64,
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// The retry policy is not acceptable.
    #[error(transparent)]
    Retry(#[from] RetryError),
    /// The time-outs are not acceptable.
    #[error(transparent)]
    Timeouts(#[from] TimeoutError),
    /// The delay of a verdict is not acceptable.
    #[error(transparent)]
    Delay(#[from] DelayError),
    /// There is no such job.
    #[error("there is no job {0}")]
    NoSuchJob(JobId),
    /// A dependency of a submitted job does not exist, or is outside the caller's scope.
    #[error("after: there is no job {0}")]
    NoSuchDependency(JobId),
    /// A dependency of a submitted job has ended without success.
    #[error("after: job {id} has ended without success ({how}), and after_any is not set", how = how_word(*.how))]
    DependencyEnded {
        /// The job that ended.
        id: JobId,
        /// How it ended.
        how: Dependency,
    },
    /// Submitted jobs depend on each other in a cycle: positions, each dependent on the next, the last on the first.
    #[error("after: jobs {} of this submit wait for each other", circle_words(.0))]
    Circle(Vec<usize>),
    /// A submitted job depends on one that does not precede it.
    #[error(
        "after: job #{job} names #{before}, but a job can only depend on earlier ones of the same submit"
    )]
    NotEarlier {
        /// Its position.
        job: usize,
        /// The position it refers to.
        before: usize,
    },
    /// There is no such group.
    #[error("there is no group {0}")]
    NoSuchGroup(GroupId),
    /// The group accepts no such job: it is closed to members, or it is cancelled or has ended.
    #[error("group {0} is closed: it takes no more jobs")]
    GroupClosed(GroupId),
    /// The group has ended, so the request is no longer possible.
    #[error("group {0} has ended")]
    GroupEnded(GroupId),
    /// The group has not ended.
    #[error("group {0} has not ended: only an ended group is retried")]
    GroupOpen(GroupId),
    /// Every member of the group succeeded.
    #[error("no member of group {0} failed")]
    NothingToRetry(GroupId),
    /// The number of open groups has reached its maximum.
    #[error("the hall has {0} open groups, which is its limit")]
    GroupsFull(usize),
    /// A job cannot serve a group or be a copy in it.
    #[error("{field}: {why}")]
    NotInGroup {
        /// The field that requests it.
        field: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The type's configuration was changed by another request.
    #[error("the configuration of type {job_type} was changed by someone else")]
    Changed {
        /// The type.
        job_type: TypeName,
        /// The current revision; 0 if there is none.
        rev: u32,
    },
    /// The schedule is not acceptable.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The job of a schedule has a field that such a job cannot have.
    #[error("the job of a schedule cannot have {0}")]
    NotScheduled(&'static str),
    /// The number of schedules has reached its maximum.
    #[error("there are {0} schedules, which is the limit")]
    SchedulesFull(usize),
    /// There is no such schedule.
    #[error("there is no schedule {0}")]
    NoSuchSchedule(ScheduleName),
    /// The schedule was changed by another request.
    #[error("the schedule {name} was changed by someone else")]
    ScheduleChanged {
        /// The schedule.
        name: ScheduleName,
        /// The current version; 0 if there is none.
        version: u32,
    },
    /// The queue's configuration was changed by another request.
    #[error("the configuration of queue {queue} was changed by someone else")]
    QueueChanged {
        /// The queue.
        queue: QueueName,
        /// The current revision; 0 if there is none.
        rev: u32,
    },
    /// The server's rule for completed jobs was changed by another request.
    #[error("the rule for completed jobs was changed by someone else")]
    RetentionChanged {
        /// The current revision; 0 if there is none.
        rev: u32,
    },
    /// The limits are not acceptable.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The session does not exist or has ended.
    #[error("the session does not exist or has ended")]
    NoSuchSession,
    /// The work of its jobs does not continue outside.
    #[error("type {0} is not external: its jobs end with the worker's own outcome")]
    NotExternal(TypeName),
    /// An attempt can wait only for its sub-jobs.
    #[error("job {job} is not a sub-job of job {parent}")]
    NotSubJob {
        /// The job that would wait.
        parent: JobId,
        /// The other one.
        job: JobId,
    },
    /// The lease is not, or no longer, the current one.
    #[error("lease lost: attempt {0} is not the current one, or not this worker's")]
    LeaseLost(AttemptId),
    /// The event does not apply.
    #[error(transparent)]
    Event(IllegalTransition),
    /// The number of open jobs has reached its maximum.
    #[error("the hall has {open} open jobs; the limit is {limit}")]
    Full {
        /// The open jobs.
        open: usize,
        /// The maximum.
        limit: usize,
    },
    /// The number of open jobs of a queue has reached its maximum.
    #[error("queue {queue} has {open} open jobs; the limit of one queue is {limit}")]
    QueueFull {
        /// The queue.
        queue: QueueName,
        /// Its open jobs.
        open: u64,
        /// The maximum.
        limit: usize,
    },
    /// The store could not write or read; nothing was written.
    #[error("the store failed: {message}")]
    Storage {
        /// Whether the disk is full.
        full: bool,
        /// The store's message.
        message: String,
    },
    /// The store lost the result of the write; a restart shows whether it was written.
    #[error("stopped, and it is unknown whether this was stored: {0}")]
    Unknown(String),
    /// The kernel has stopped.
    #[error("the engine has stopped: {0}")]
    Stopped(String),
    /// Other requests changed the same object repeatedly.
    #[error("too many others changed the same job at once; try again")]
    Contended,
}

/// Names the command to use instead.
fn instead_word(instead: Option<&str>) -> String {
    instead.map(|command| format!("; use `{command}`")).unwrap_or_default()
}

fn how_word(how: Dependency) -> &'static str {
    match how {
        Dependency::Met => "succeeded",
        Dependency::Failed => "failed",
        Dependency::Cancelled => "cancelled",
        Dependency::Removed => "removed",
    }
}

/// Describes a cycle in words, with at most its first few positions.
fn circle_words(circle: &[usize]) -> String {
    const FEW: usize = 8;
    let mut words: Vec<_> = circle.iter().take(FEW).map(|at| format!("#{at}")).collect();
    if circle.len() > FEW {
        words.push(format!("… ({} in all)", circle.len()));
    }
    words.extend(circle.first().map(|at| format!("#{at}")));
    words.join(" → ")
}
