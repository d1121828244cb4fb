//! The states of a job, each carrying the data that exists only in it.

use std::fmt;

use crate::id::{JobId, LeaseId};
use crate::job::Indicator;
use crate::job::outcome::{Failure, Outcome, Report};
use crate::json::Json;
use crate::name::WorkerName;
use crate::time::Time;

/// A worker's lease of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The secret that every report must present.
    pub id: LeaseId,
    /// The worker it was given to.
    pub worker: WorkerName,
    /// When it was assigned.
    pub assigned_at: Time,
    /// When the worker accepted it; none before that.
    pub accepted_at: Option<Time>,
    /// When the work began; none before that is known.
    pub started_at: Option<Time>,
    /// How long it has waited for other jobs, in milliseconds; its time limits were suspended meanwhile.
    pub waited_ms: u64,
    /// The last progress of an attempt that no worker holds any more. That of a live attempt is not stored.
    pub progress: Box<[Indicator]>,
}

impl Lease {
    /// Whether it has neither waited nor kept a progress.
    pub(crate) fn is_plain(&self) -> bool {
        self.waited_ms == 0 && self.progress.is_empty()
    }
}

/// Why a live attempt must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopWhy {
    /// It has timed out. Any report after that, except a success, is recorded as `timed_out`.
    TimeOut,
    /// A cancel was requested. Any report after that is recorded as `cancelled`.
    Cancel,
}

/// A stop that a live attempt has not obeyed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopRequest {
    /// When it was decided.
    pub at: Time,
    /// The cause.
    pub why: StopWhy,
    /// The failure, which becomes the job's error.
    pub failure: Failure,
}

/// The data of a leased job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// The current lease.
    pub lease: Lease,
    /// A stop that was sent to the worker.
    pub stop: Option<StopRequest>,
    /// The error of the previous attempt, kept until this one is accepted so that a take-back can restore it.
    pub error: Option<Failure>,
    /// The outcome reported from outside before the worker has reported that the work continues there.
    pub early: Option<Box<Report>>,
}

impl Leased {
    /// Whether a cancel was requested.
    pub fn is_cancelled(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.why == StopWhy::Cancel)
    }
}

/// What a suspended attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitFor {
    /// Sub-jobs. Its worker keeps the lease.
    Jobs,
    /// An outcome from outside. No worker holds it any more.
    External {
        /// When it times out.
        until: Time,
    },
}

/// A live attempt that is suspended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The lease; for an attempt that waits for an external outcome, the last one.
    pub held: Leased,
    /// What it waits for.
    pub on: WaitFor,
    /// Since when.
    pub since: Time,
}

/// What blocks a job: at least one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocked {
    /// The holder of the key that it waits for.
    pub holder: Option<JobId>,
    /// Whether dependencies of its `after` have not ended yet.
    pub dependencies: bool,
}

/// A success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Success {
    /// When it ended.
    pub at: Time,
    /// `succeeded` or `skipped`.
    pub outcome: Outcome,
    /// The result, `null` if the worker gave none.
    pub value: Json,
    /// The lease under which it succeeded.
    pub last: Lease,
}

/// The end of a job without success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsuccessful {
    /// When it ended.
    pub at: Time,
    /// The outcome of the last attempt. Without an attempt: `cancelled`, or `lost` if no claim was ever accepted.
    pub outcome: Outcome,
    /// The failure.
    pub failure: Failure,
    /// The last lease; none if it was never assigned, or the last assignment was taken back.
    pub last: Option<Lease>,
}

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for its start time and for a vacancy. The error is that of the previous attempt.
    Queued(Option<Box<Failure>>),
    /// Waits until other jobs have ended.
    Blocked(Blocked),
    /// Assigned to a worker that has not accepted it yet.
    Assigned(Box<Leased>),
    /// Accepted by the worker.
    Accepted(Box<Leased>),
    /// The work has begun.
    Running(Box<Leased>),
    /// The attempt is suspended until its sub-jobs have ended or an external outcome is reported.
    Waiting(Box<Waiting>),
    /// Ended with success.
    Succeeded(Box<Success>),
    /// The work reported a failure.
    Failed(Box<Unsuccessful>),
    /// The environment failed, or the job appears to cause its failure.
    Crashed(Box<Unsuccessful>),
    /// Stopped on request.
    Cancelled(Box<Unsuccessful>),
}

impl State {
    /// Whether the state is terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self, State::Succeeded(_) | State::Failed(_) | State::Crashed(_) | State::Cancelled(_))
    }

    /// The data of a leased job.
    pub fn leased(&self) -> Option<&Leased> {
        match self {
            State::Assigned(held) | State::Accepted(held) | State::Running(held) => Some(held),
            State::Waiting(waiting) if waiting.on == WaitFor::Jobs => Some(&waiting.held),
            _ => None,
        }
    }

    /// The lease of a leased job, or the last lease of a completed job or of one that waits for an external outcome.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            State::Waiting(waiting) => Some(&waiting.held.lease),
            State::Succeeded(success) => Some(&success.last),
            State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => defeat.last.as_ref(),
            _ => self.leased().map(|held| &held.lease),
        }
    }

    /// The same to be changed.
    fn lease_mut(&mut self) -> Option<&mut Lease> {
        match self {
            State::Queued(_) | State::Blocked(_) => None,
            State::Assigned(held) | State::Accepted(held) | State::Running(held) => Some(&mut held.lease),
            State::Waiting(waiting) => Some(&mut waiting.held.lease),
            State::Succeeded(success) => Some(&mut success.last),
            State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => defeat.last.as_mut(),
        }
    }

    /// Records the last progress of an attempt that its worker no longer holds.
    pub(crate) fn keep_progress(&mut self, progress: &[Indicator]) {
        if self.leased().is_none()
            && let Some(lease) = self.lease_mut()
        {
            lease.progress = progress.into();
        }
    }

    /// The error shown to users: none before the first attempt and while a worker holds the job, the last one while
    /// retrying.
    pub fn error(&self) -> Option<&Failure> {
        match self {
            State::Queued(error) => error.as_deref(),
            State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => {
                Some(&defeat.failure)
            }
            _ => None,
        }
    }

    /// The outcome that ended it.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            State::Succeeded(success) => Some(success.outcome),
            State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => Some(defeat.outcome),
            _ => None,
        }
    }

    /// When it ended.
    pub fn ended_at(&self) -> Option<Time> {
        match self {
            State::Succeeded(success) => Some(success.at),
            State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => Some(defeat.at),
            _ => None,
        }
    }

    /// The name of the stored state; [`crate::JobStatus::name`] also distinguishes scheduled and retrying.
    pub fn name(&self) -> StateName {
        match self {
            State::Queued(_) => StateName::Queued,
            State::Blocked(_) => StateName::Blocked,
            State::Assigned(_) => StateName::Assigned,
            State::Accepted(_) => StateName::Accepted,
            State::Running(_) => StateName::Running,
            State::Waiting(_) => StateName::Waiting,
            State::Succeeded(_) => StateName::Succeeded,
            State::Failed(_) => StateName::Failed,
            State::Crashed(_) => StateName::Crashed,
            State::Cancelled(_) => StateName::Cancelled,
        }
    }
}

/// The names of the states, as users see them. `Scheduled` and `Retrying` are views of `Queued`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateName {
    /// Queued for a later time, without a previous attempt.
    Scheduled,
    /// Ready, or waiting to become ready.
    Queued,
    /// Waits for the holder of its key or for its dependencies to end.
    Blocked,
    /// Assigned to a worker.
    Assigned,
    /// Accepted by the worker.
    Accepted,
    /// The work has begun.
    Running,
    /// Suspended until its sub-jobs have ended or an external outcome is reported.
    Waiting,
    /// Queued again after an attempt.
    Retrying,
    /// Ended with success.
    Succeeded,
    /// Ended because the work reported a failure.
    Failed,
    /// Ended because the environment failed.
    Crashed,
    /// Ended on request.
    Cancelled,
}

impl StateName {
    /// All names, in the order of a job's life. Codes in stores are positions in this list.
    pub const ALL: [StateName; 12] = [
        StateName::Scheduled,
        StateName::Queued,
        StateName::Blocked,
        StateName::Assigned,
        StateName::Accepted,
        StateName::Running,
        StateName::Waiting,
        StateName::Retrying,
        StateName::Succeeded,
        StateName::Failed,
        StateName::Crashed,
        StateName::Cancelled,
    ];

    /// The name used everywhere from SQL to dashboard.
    pub fn as_str(self) -> &'static str {
        match self {
            StateName::Scheduled => "scheduled",
            StateName::Queued => "queued",
            StateName::Blocked => "blocked",
            StateName::Assigned => "assigned",
            StateName::Accepted => "accepted",
            StateName::Running => "running",
            StateName::Waiting => "waiting",
            StateName::Retrying => "retrying",
            StateName::Succeeded => "succeeded",
            StateName::Failed => "failed",
            StateName::Crashed => "crashed",
            StateName::Cancelled => "cancelled",
        }
    }

    /// Whether the state is terminal ("completed").
    pub fn is_terminal(self) -> bool {
        self >= StateName::Succeeded
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_one_name_and_the_last_four_are_ends() {
        let names = StateName::ALL.map(|name| name.to_string());
        let pending =
            ["scheduled", "queued", "blocked", "assigned", "accepted", "running", "waiting", "retrying"];
        let ends = ["succeeded", "failed", "crashed", "cancelled"];
        assert_eq!(names[..8], pending);
        assert_eq!(names[8..], ends);
        let terminal = StateName::ALL.iter().filter(|name| name.is_terminal());
        assert_eq!(terminal.map(|name| name.as_str()).collect::<Vec<_>>(), ends);
    }
}
