//! Tasks: what the kernel has to do about one job, or about more than one. A task waits for a busy job, for ids, or for
//! the store to recover.

use jobhall_core::{Failure, GroupId, JobId, LeaseId, PastAttempt, ScheduleName};

use crate::api::effect::SessionId;
use crate::api::request::{
    AttemptRef, AttemptRequest, HallRequest, JobRequest, NewRecord, SessionRequest, TypedRequest,
};
use crate::groups::GroupChange;
use crate::relations::cascade::CascadeCause;
use crate::submit::Plan;

#[derive(Clone, Debug)]
pub(crate) enum Task {
    Job(JobTask),
    Hall(HallTask),
}

impl Task {
    /// The same task, not yet tried.
    pub fn afresh(self) -> Task {
        match self {
            Task::Job(task) => Task::Job(JobTask { rounds: 0, ..task }),
            Task::Hall(task) => Task::Hall(task),
        }
    }
}

/// A task about one job.
#[derive(Clone, Debug)]
pub(crate) struct JobTask {
    pub id: JobId,
    pub work: JobWork,
    /// How often the decision was repeated because of conflicting writes.
    pub rounds: u8,
    /// What was read about the job for this task.
    pub read: Option<Box<Read>>,
}

impl JobTask {
    /// The records that are written with its step.
    pub fn records(&self) -> &[NewRecord] {
        match &self.work {
            JobWork::Attempt(_, AttemptRequest::Report { records, .. }) => records,
            _ => &[],
        }
    }
}

/// What the store returned for a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Read {
    /// Whether the job exists.
    pub found: bool,
    /// Its ended attempts.
    pub past: Vec<PastAttempt>,
    /// The completed sub-jobs that were read, and whether each has succeeded.
    pub sub_jobs: Vec<(JobId, bool)>,
}

/// A read in progress.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The tasks that the read was made for.
    pub now: Vec<JobTask>,
    /// Tasks that arrived after the read was sent; they need another read.
    pub later: Vec<JobTask>,
}

/// What a [`JobTask`] does.
#[derive(Clone, Debug)]
pub(crate) enum JobWork {
    Request(JobRequest),
    Attempt(AttemptRef, AttemptRequest),
    /// The assignment of this claim was not accepted in time.
    TakeBack(u32),
    /// The session that held this claim has ended.
    LeaseEnd(u32, SessionId),
    /// The worker reconnected with this attempt, which counts as accepted.
    Keep(u32, LeaseId),
    /// Store the accepted or running state of this claim.
    Save(u32),
    /// All dependencies of the job have ended.
    DependenciesMet,
    /// End the job because of this cause.
    Cascade(CascadeCause),
    /// The time limit of this claim may have expired.
    TimeOut(u32),
    /// The external outcome of this claim did not arrive in time.
    ExternalOver(u32),
    /// The jobs that this claim waited for have ended.
    Resume(u32),
    /// This claim waits for itself, through other jobs.
    Cycle(u32, Box<Failure>),
    /// The parents that asked for this job may have ended.
    Orphan,
}

impl JobWork {
    /// The task that does this on a job.
    pub fn on(self, id: JobId) -> Task {
        Task::Job(JobTask { id, work: self, rounds: 0, read: None })
    }
}

/// A task that does not concern a single job.
#[derive(Clone, Debug)]
pub(crate) enum HallTask {
    Request(HallRequest),
    Session(SessionId, SessionRequest),
    /// A change of a group that waits for another write of it.
    ChangeGroup(Box<GroupChange>),
    /// A submit that waits for a busy job that it must change.
    Submit(Box<Plan>),
    /// Read how these jobs, on which others depend, have ended.
    ReadEnds(Vec<JobId>),
    /// Check whether the group has ended.
    LookAtGroup(GroupId),
    /// Continue to fill a group.
    Fill(GroupId),
    /// Continue to fill a group whose filling was interrupted by a stop.
    ResumeFill(GroupId, GroupId),
    /// The ticks of this schedule wait for ids.
    Tick(ScheduleName),
}

impl From<HallTask> for Task {
    fn from(task: HallTask) -> Task {
        Task::Hall(task)
    }
}

impl From<JobTask> for Task {
    fn from(task: JobTask) -> Task {
        Task::Job(task)
    }
}

impl From<TypedRequest> for Task {
    fn from(request: TypedRequest) -> Task {
        match request {
            TypedRequest::Job(id, request) => JobWork::Request(request).on(id),
            TypedRequest::Attempt(of, request) => {
                let id = of.job();
                JobWork::Attempt(of, request).on(id)
            }
            TypedRequest::Session(session, request) => Task::Hall(HallTask::Session(session, request)),
            TypedRequest::Hall(request) => Task::Hall(HallTask::Request(request)),
        }
    }
}
