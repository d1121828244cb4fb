//! What an event means for a job, and why.

use crate::job::{Again, JobStatus, PastAttempt};
use crate::json::Json;

/// What an event means for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The job moves.
    Step(Box<Step>),
    /// The event is a repetition or brings nothing new; the answer is the same as at first.
    Same,
}

/// A move of a job, to be written under the guard of the old `rev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the job becomes.
    pub life: JobStatus,
    /// Why.
    pub reason: Reason,
    /// The attempt that ended although the job goes on.
    pub past: Option<Box<PastAttempt>>,
    /// Params that replace the old ones.
    pub params: Option<Json>,
    /// The follow-up that must be inserted in the same unit.
    pub follow_up: Option<Again>,
}

/// Why a job moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A vacancy took it.
    Claimed,
    /// Its worker said yes.
    Accepted,
    /// Its worker reported progress.
    Started,
    /// It passed or was skipped.
    Succeeded,
    /// The policy or the worker wants another attempt.
    Retried,
    /// The worker wants to be called later.
    Snoozed,
    /// The worker was not heard of.
    Lost,
    /// Nobody accepted in time.
    TakenBack,
    /// No attempt is left.
    Exhausted,
    /// The policy or the worker wants no other attempt.
    NotRetried,
    /// Too many leases were lost.
    TooManyLostLeases,
    /// Too many claims went unaccepted.
    Unaccepted,
    /// Cancelled before a worker had it, or after it had ended.
    Cancelled,
    /// A cancel is on its way to the worker.
    CancelRequested,
    /// The key has become free.
    KeyFreed,
    /// A follow-up was asked for.
    AgainAsked,
    /// Someone keeps it from being claimed.
    HeldBack,
    /// Nobody keeps it from being claimed any more.
    LetGo,
    /// Someone changed what was asked for.
    Edited,
    /// The jobs it was to come after have ended.
    DependenciesMet,
    /// A job it was to come after did not succeed.
    DependencyFailed,
    /// It waits for others.
    Suspended,
    /// Those it waited for have answered.
    Resumed,
    /// Its outcome came from outside before its worker was ready for it.
    OutcomeKept,
    /// Its time is over, and its worker is told.
    TimeOutRequested,
}
