//! What the kernel wants done outside.

use std::sync::Arc;

use jobhall_core::{AttemptId, JobId, JobSpec, LeaseId, StateName};

use crate::answer::{Answer, Rejected};

/// Names a request whose answer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A worker's session on this node. It outlives its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// One vacancy of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VacancyId(pub u64);

/// A job for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The attempt.
    pub attempt: AttemptId,
    /// What the worker must show with each report.
    pub lease: LeaseId,
    /// The number people see, once it is accepted.
    pub number: u32,
    /// The vacancy that it fills.
    pub vacancy: VacancyId,
    /// What is to be done.
    pub spec: Arc<JobSpec>,
    /// Whether the worker only starts it, and someone else tells the outcome.
    pub external: bool,
}

/// Why a vacancy is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All its slots are filled.
    Filled,
    /// Its time is over.
    TimedOut,
    /// The worker withdrew it.
    Withdrawn,
    /// The session was disconnected or ended.
    Gone,
}

/// Something to be done outside of the kernel, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer a request.
    Answer(Ticket, Result<Answer, Rejected>),
    /// Give a worker a job. It is durably assigned.
    Assign(SessionId, Assignment),
    /// Tell a worker to stop: a cancel was requested.
    Cancel(SessionId, AttemptId),
    /// Tell a worker to stop: the attempt's time is over.
    TimeOut(SessionId, AttemptId),
    /// Tell a worker that an attempt goes on: these jobs, for which it waited, are over.
    Resumed(SessionId, AttemptId, Vec<JobId>),
    /// Tell a worker that an attempt is no longer its own.
    Revoke(SessionId, AttemptId),
    /// A vacancy is over.
    VacancyEnded(SessionId, VacancyId, Ended),
    /// A session is over.
    SessionEnded(SessionId),
    /// A live attempt moved on; its state may not be stored yet.
    Live(JobId, StateName),
    /// The engine cannot go on.
    Stop(String),
}
