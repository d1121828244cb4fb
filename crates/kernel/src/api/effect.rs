//! Effects: actions that the kernel requests from the driver.

use std::sync::Arc;

use jobhall_core::{AttemptId, GroupId, GroupState, JobId, JobSpec, LeaseId, StateName};

use crate::api::answer::TypedAnswer;

/// A worker's session on this node. It survives the loss of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// One vacancy of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VacancyId(pub u64);

/// The assignment of a job to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The attempt.
    pub attempt: AttemptId,
    /// The lease, which the worker must present with each report.
    pub lease: LeaseId,
    /// The attempt number shown to users, once it is accepted.
    pub number: u32,
    /// The vacancy that it fills.
    pub vacancy: VacancyId,
    /// The spec of the job.
    pub spec: Arc<JobSpec>,
    /// Whether the worker only starts the work and its outcome is reported from outside.
    pub external: bool,
}

/// Why a vacancy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All its slots are filled.
    Filled,
    /// It expired.
    TimedOut,
    /// The worker withdrew it.
    Withdrawn,
    /// The session was disconnected or ended.
    Gone,
}

/// An action outside of the kernel, to be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer a request.
    Answer(TypedAnswer),
    /// Send an assignment to a worker. It is durably stored.
    Assign(SessionId, Assignment),
    /// Notify a worker to stop: a cancel was requested.
    Cancel(SessionId, AttemptId),
    /// Notify a worker to stop: the attempt has timed out.
    TimeOut(SessionId, AttemptId),
    /// Notify a worker that an attempt resumes: these jobs, for which it waited, have ended.
    Resumed(SessionId, AttemptId, Vec<JobId>),
    /// Notify a worker that it no longer holds an attempt.
    Revoke(SessionId, AttemptId),
    /// A vacancy has ended.
    VacancyEnded(SessionId, VacancyId, Ended),
    /// A session has ended.
    SessionEnded(SessionId),
    /// A live attempt has changed; its state may not be stored yet.
    Live(JobId, StateName),
    /// A live attempt has reported progress.
    Progress(JobId),
    /// A group has ended, which is stored.
    GroupEnded(GroupId, GroupState),
    /// The kernel cannot continue.
    Stop(String),
}
