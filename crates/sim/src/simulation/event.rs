//! The events of a run, their origins, and pending faults.

use jobhall_core::AttemptId;
use jobhall_kernel::{Answer, Effect, Rejected, Request, SessionId, StoreReply};
use jobhall_store::{CommitError, Committed, Unit};

use crate::workers::Step;

/// An event at its time.
#[derive(Debug)]
pub(crate) enum Event {
    /// An action of the script.
    Act(usize),
    /// A request reaches the kernel.
    Arrive(u32, u64, Box<Request>),
    /// An answer reaches the caller.
    Answered(u32, u64, Box<Result<Answer, Rejected>>),
    /// An effect reaches a worker.
    Tell(u32, SessionId, Box<Effect>),
    /// The store applies the next commit.
    Apply(u32),
    /// The kernel receives the result of the next applied commit.
    StoreReply(u32),
    /// The store does something else for the kernel.
    Serve(u32, u64),
    /// The kernel receives the result.
    Served(u32, Box<StoreReply>),
    /// The kernel wakes up for its timers.
    Nap(u64),
    Start,
    /// The time limit of a client expires.
    Timeout(usize, u32),
    /// A worker executes its next step.
    Worker(usize, u32, Box<Step>),
    /// A process that should be dead sends a request.
    Late(Box<Request>),
    /// An external outcome is reported.
    External(Box<Request>),
    /// Faults stop.
    Calm,
    /// Checks whether everything is done.
    Look,
}

/// The sender of a request.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Client(usize),
    /// A worker, on one of its connections.
    Worker(usize, u32, Purpose),
    Nobody,
}

impl Origin {
    /// A number that identifies its connection.
    pub fn wire(&self) -> u64 {
        match self {
            Origin::Client(_) => 100,
            Origin::Worker(at, ..) => *at as u64,
            Origin::Nobody => 101,
        }
    }
}

/// The purpose of a worker's request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Open {
        skill: usize,
        accepts: usize,
        lease_ms: Option<u64>,
        fresh: bool,
    },
    Renew,
    Vacancy,
    Credit,
    Word(AttemptId),
    /// The accept of a job that runs at most once: its work starts with the answer.
    Accept(AttemptId),
    /// A call of sub-jobs, which the attempt knows from the answer.
    Call(AttemptId),
    Wait(AttemptId),
    Report(AttemptId),
    Started(AttemptId),
}

/// A pending commit.
pub(crate) struct UnderWay {
    pub number: u64,
    pub units: Vec<Unit>,
    pub result: Option<Result<Committed, CommitError>>,
}

/// Faults that wait to be triggered.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub fail_commits: Vec<bool>,
    pub unknown_commit: Option<bool>,
    pub fail_ask: bool,
    pub unknown_ask: bool,
    pub slow_ms: u64,
    pub slow_until: u64,
    pub lose_answers: u64,
    /// The store accepts nothing until the restart.
    pub stopped: bool,
}
