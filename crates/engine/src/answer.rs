//! What the kernel answers.

use jobhall_core::QueueConfig;
use jobhall_core::limits::LimitError;
use jobhall_core::{
    AttemptId, DelayError, Dependency, GroupId, IllegalTransition, Job, JobId, PastAttempt, QueueName,
    RetryError, ScheduleError, ScheduleName, StateName, Submitted, TimeoutError, TypeConfig, TypeName,
};
use thiserror::Error;

use crate::counts::{Counts, Takers};
use crate::effect::{SessionId, VacancyId};
use crate::explain::Explanation;
use crate::groups::ShownGroup;
use crate::queues::Tally;
use crate::request::Indicator;
use crate::resources::WorkerUse;
use crate::schedules::ShownSchedule;

/// A job as it is told to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The job; live attempts as the engine knows them, which may be ahead of the store.
    pub job: Job,
    /// Ended attempts, oldest first, without the last one of a completed job.
    pub past: Vec<PastAttempt>,
    /// The latest progress of a live attempt.
    pub progress: Vec<Indicator>,
    /// How long a live attempt was expected to take, where it takes longer.
    pub longer_than_ms: Option<u64>,
    /// Whether it was in memory (a completed job that is only stored is read into it).
    pub cached: bool,
}

/// A good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One per submitted job, in order.
    Submitted(Vec<Submitted>),
    /// A group was made, with these jobs.
    GroupCreated {
        /// Its number.
        id: GroupId,
        /// One per job that was made with it, in order.
        jobs: Vec<Submitted>,
    },
    /// A group and its members.
    Group(Box<ShownGroup>),
    /// The job's state after what was asked.
    State(StateName),
    /// All about a job.
    Shown(Box<Shown>),
    /// Why it is not running.
    Explained(Box<Explanation>),
    /// Everything that is counted.
    Counts(Box<Counts>),
    /// Every worker that is there or has something in hand, by name.
    Workers(Vec<WorkerUse>),
    /// A queue with its open jobs and who could take them; none if it is not known.
    Queue(Option<(Tally, Takers)>),
    /// Queues with their open jobs, by name.
    Queues(Vec<(QueueName, Tally)>),
    /// A session, and which of the attempts brought along it keeps.
    Session {
        /// Its number.
        session: SessionId,
        /// These go on.
        kept: Vec<AttemptId>,
        /// These are lost: stop them.
        lost: Vec<AttemptId>,
    },
    /// So many jobs were removed.
    Removed(u64),
    /// All types that are known, with the rev and content of their configuration.
    Types(Vec<(TypeName, u32, TypeConfig)>),
    /// All schedules, by name.
    Schedules(Vec<ShownSchedule>),
    /// All queues that are configured, with the rev and content of their configuration, by name.
    QueueConfigs(Vec<(QueueName, u32, QueueConfig)>),
    /// The rev that a type's or queue's configuration has now, or the version of a schedule.
    Rev(u32),
    /// A vacancy is open.
    Vacancy(VacancyId),
    /// The jobs that an attempt waits for.
    Waited {
        /// Which.
        jobs: Vec<JobId>,
        /// Whether they are over, and the attempt goes on.
        over: bool,
    },
    /// It was noted.
    Noted,
}

/// Why the kernel said no. Nothing was written, except where it says that this is unknown.
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
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used for another request")]
    IdempotencyKeyReused,
    /// A number or text is outside its bounds.
    #[error("{field} of {given} is outside {least} to {most}")]
    Bound {
        /// The field.
        field: &'static str,
        /// What was given.
        given: u64,
        /// The least.
        least: u64,
        /// The most.
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
    /// A job of a submit is to come after one that does not exist, or is not there for the one who asks.
    #[error("after: there is no job {0}")]
    NoSuchDependency(JobId),
    /// A job of a submit is to come after one that ended otherwise than well.
    #[error("after: job {id} has ended without success ({how}), and after_any is not set", how = how_word(*.how))]
    DependencyEnded {
        /// The job that ended.
        id: JobId,
        /// How.
        how: Dependency,
    },
    /// Jobs of a submit come after each other in a circle; positions, each after the next, the last after the first.
    #[error("after: jobs {} of this submit wait for each other", circle_words(.0))]
    Circle(Vec<usize>),
    /// A job of a submit is to come after one that does not stand before it.
    #[error(
        "after: job #{job} names #{before}, but a job can only come after earlier ones of the same submit"
    )]
    NotEarlier {
        /// Its position.
        job: usize,
        /// The position it names.
        before: usize,
    },
    /// There is no such group.
    #[error("there is no group {0}")]
    NoSuchGroup(GroupId),
    /// The group takes no more members.
    #[error("group {0} is closed: it takes no more jobs")]
    GroupClosed(GroupId),
    /// The group has ended, and this can no longer be done with it.
    #[error("group {0} has ended")]
    GroupEnded(GroupId),
    /// The group has not ended.
    #[error("group {0} has not ended: only an ended group is retried")]
    GroupOpen(GroupId),
    /// Every member of the group succeeded.
    #[error("nothing of group {0} failed")]
    NothingToRetry(GroupId),
    /// There are as many open groups as there may be.
    #[error("the hall has {0} open groups, which is its limit")]
    GroupsFull(usize),
    /// A job cannot serve a group or be a copy in it.
    #[error("{field}: {why}")]
    NotInGroup {
        /// Which field asks for it.
        field: &'static str,
        /// What stands against it.
        why: &'static str,
    },
    /// Someone else has changed the type's configuration.
    #[error("the configuration of type {job_type} was changed by someone else")]
    Changed {
        /// The type.
        job_type: TypeName,
        /// The rev it has now; 0 if there is none.
        rev: u32,
    },
    /// The schedule is not acceptable.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The job of a schedule has something that such a job cannot have.
    #[error("{0} has no place in the job of a schedule")]
    NotScheduled(&'static str),
    /// There are as many schedules as there may be.
    #[error("there are {0} schedules, which is the limit")]
    SchedulesFull(usize),
    /// There is no such schedule.
    #[error("there is no schedule {0}")]
    NoSuchSchedule(ScheduleName),
    /// Someone else has changed the schedule.
    #[error("the schedule {name} was changed by someone else")]
    ScheduleChanged {
        /// The schedule.
        name: ScheduleName,
        /// The version it has now; 0 if there is none.
        version: u32,
    },
    /// Someone else has changed the queue's configuration.
    #[error("the configuration of queue {queue} was changed by someone else")]
    QueueChanged {
        /// The queue.
        queue: QueueName,
        /// The rev it has now; 0 if there is none.
        rev: u32,
    },
    /// The limits are not acceptable.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// There is no such session, or no longer.
    #[error("there is no such session any more")]
    NoSuchSession,
    /// Its jobs do not go on outside.
    #[error("type {0} is not external: its jobs end with the worker's own outcome")]
    NotExternal(TypeName),
    /// It waits only for jobs that it asked for.
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
    /// The hall has as many open jobs as it may.
    #[error("the hall has {0} open jobs, which is its limit")]
    Full(usize),
    /// The store could not write. Nothing was.
    #[error("failed to store: {message}")]
    Storage {
        /// Whether the disk is full.
        full: bool,
        /// What the store said.
        message: String,
    },
    /// The store lost track; whether it was written shows after a restart.
    #[error("stopped, and it is unknown whether this was stored: {0}")]
    Unknown(String),
    /// The engine has stopped.
    #[error("the engine has stopped: {0}")]
    Stopped(String),
    /// Others changed the same thing again and again.
    #[error("too many others changed the same job at once; try again")]
    Contended,
}

fn how_word(how: Dependency) -> &'static str {
    match how {
        Dependency::Met => "succeeded",
        Dependency::Failed => "failed",
        Dependency::Cancelled => "cancelled",
    }
}

/// A circle in words, at most its first few.
fn circle_words(circle: &[usize]) -> String {
    const FEW: usize = 8;
    let mut words: Vec<_> = circle.iter().take(FEW).map(|at| format!("#{at}")).collect();
    if circle.len() > FEW {
        words.push(format!("… ({} in all)", circle.len()));
    }
    words.extend(circle.first().map(|at| format!("#{at}")));
    words.join(" → ")
}
