//! The effect of an event on a job, and its reason.

use crate::job::{Again, Indicator, JobStatus, PastAttempt};
use crate::json::Json;

/// The effect of an event on a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The job changes.
    Step(Box<Step>),
    /// The event is a repetition or has no effect; the answer is the same as the first time.
    Same,
}

/// A change of a job, to be written under the guard of the old `rev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The new status.
    pub status: JobStatus,
    /// The reason.
    pub reason: Reason,
    /// The attempt that ended although the job continues.
    pub past: Option<Box<PastAttempt>>,
    /// Params that replace the previous ones.
    pub params: Option<Json>,
    /// The follow-up that must be inserted in the same unit.
    pub follow_up: Option<Again>,
}

impl Step {
    /// Records the last progress of the attempt that this step ends, if it ends one.
    pub fn keep_progress(&mut self, progress: &[Indicator]) {
        match &mut self.past {
            Some(past) => past.progress = progress.into(),
            None => self.status.state.keep_progress(progress),
        }
    }
}

/// Why a job changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A vacancy claimed it.
    Claimed,
    /// Its worker accepted it.
    Accepted,
    /// Its worker reported that the work has begun.
    Started,
    /// It succeeded or was skipped.
    Succeeded,
    /// The policy or the worker requires another attempt.
    Retried,
    /// The worker snoozed it.
    Snoozed,
    /// The worker was lost.
    Lost,
    /// It was not accepted in time.
    TakenBack,
    /// No attempt is left.
    Exhausted,
    /// The policy or the worker excludes another attempt.
    NotRetried,
    /// Too many leases were lost.
    TooManyLostLeases,
    /// The worker was lost, and the job runs at most once.
    LostAtMostOnce,
    /// Too many claims were not accepted.
    Unaccepted,
    /// Cancelled before a worker held it, or when its attempt had ended.
    Cancelled,
    /// A cancel was sent to the worker.
    CancelRequested,
    /// The key has become free.
    KeyFreed,
    /// A follow-up was requested.
    AgainAsked,
    /// It is held.
    HeldBack,
    /// Its hold was removed.
    LetGo,
    /// Its request was changed.
    Edited,
    /// Its dependencies have ended.
    DependenciesMet,
    /// A dependency did not succeed.
    DependencyFailed,
    /// Its attempt is suspended.
    Suspended,
    /// What its attempt waited for is complete.
    Resumed,
    /// Its outcome was reported from outside before its worker reported the start.
    OutcomeKept,
    /// It has timed out, and a stop was sent to its worker.
    TimeOutRequested,
}
