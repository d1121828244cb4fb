//! The events of a run, their origins, and pending faults.

use jobhall_core::AttemptId;
use jobhall_kernel::{Answer, Effect, Rejected, Request, SessionId, StoreReply, Ticket};
use jobhall_store::{CommitError, Committed, Unit};

use crate::workers::Step;

/// Something that happens at its moment.
#[derive(Debug)]
pub(crate) enum Event {
    /// An action of the script.
    Act(usize),
    /// A request reaches the kernel.
    Arrive(u32, Ticket, Box<Request>),
    /// An answer reaches the caller.
    Answered(u32, Ticket, Box<Result<Answer, Rejected>>),
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
    /// The kernel wakes up by itself.
    Nap(u64),
    /// The hall starts again.
    Start,
    /// A client has waited long enough.
    Timeout(usize, u32),
    /// A worker does what it set out to do.
    Worker(usize, u32, Box<Step>),
    /// A process that should be dead says something.
    Late(Box<Request>),
    /// An external outcome is reported.
    External(Box<Request>),
    /// Faults stop.
    Calm,
    /// Is everything done?
    Look,
}

/// Who asked.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Client(usize),
    /// A worker on one of its links.
    Worker(usize, u32, Purpose),
    Nobody,
}

impl Origin {
    /// A number for the wire that it speaks on.
    pub fn wire(&self) -> u64 {
        match self {
            Origin::Client(_) => 100,
            Origin::Worker(at, ..) => *at as u64,
            Origin::Nobody => 101,
        }
    }
}

/// What a worker asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Open { skill: usize, accepts: usize },
    Renew,
    Vacancy,
    Credit,
    Word(AttemptId),
    Wait(AttemptId),
    Report(AttemptId),
    Started(AttemptId),
}

/// A commit on its way.
pub(crate) struct UnderWay {
    pub number: u64,
    pub units: Vec<Unit>,
    pub result: Option<Result<Committed, CommitError>>,
}

/// Faults that wait for their occasion.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub fail_commits: Vec<bool>,
    pub unknown_commit: Option<bool>,
    pub fail_ask: bool,
    pub unknown_ask: bool,
    pub slow_ms: u64,
    pub slow_until: u64,
    pub lose_answers: u64,
    /// The store takes nothing more until the restart.
    pub stopped: bool,
}
