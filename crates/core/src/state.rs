//! The states of a job, each carrying the data that exists only in it.

use std::fmt;

use crate::id::{JobId, LeaseId};
use crate::json::Json;
use crate::name::WorkerName;
use crate::outcome::{Failure, Outcome, Report};
use crate::time::Time;

/// One worker's hold on a job: who, by which lease, since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The secret that every report must show.
    pub id: LeaseId,
    /// The worker it was given to.
    pub worker: WorkerName,
    /// When it was assigned.
    pub assigned_at: Time,
    /// When the worker took it; none while it has not.
    pub accepted_at: Option<Time>,
    /// When the first progress came; none before it.
    pub started_at: Option<Time>,
    /// How long it has been waiting for others, in milliseconds; its time-outs stood still meanwhile.
    pub waited_ms: u64,
}

/// Why a live attempt is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopWhy {
    /// Its time is over. Whatever it reports then, short of a success, is `timed_out`.
    TimeOut,
    /// Someone asked for the end of the job. Whatever it reports then is `cancelled`.
    Cancel,
}

/// A stop that a live attempt has yet to obey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopRequest {
    /// When it was decided.
    pub at: Time,
    /// What for.
    pub why: StopWhy,
    /// Why, as the job's error will say.
    pub failure: Failure,
}

/// What a leased job has besides its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leased {
    /// The current hold.
    pub lease: Lease,
    /// A stop on its way to the worker.
    pub stop: Option<StopRequest>,
    /// The error of the attempt before, kept until this one is accepted so that a take-back can restore it.
    pub error: Option<Failure>,
    /// The outcome that came from outside before the worker had said that the work goes on there.
    pub early: Option<Box<Report>>,
}

impl Leased {
    /// Whether someone asked for the end of the job.
    pub fn is_cancelled(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.why == StopWhy::Cancel)
    }
}

/// What a suspended attempt waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitFor {
    /// Jobs that it asked for. Its worker keeps the lease.
    Jobs,
    /// An outcome from outside. No worker holds it any more.
    External {
        /// When it has taken too long.
        until: Time,
    },
}

/// A live attempt that is suspended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The hold; of one that waits for the outside, the last one.
    pub held: Leased,
    /// What for.
    pub on: WaitFor,
    /// Since when.
    pub since: Time,
}

/// What keeps a job from its queue: at least one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocked {
    /// The job whose key it will take over.
    pub holder: Option<JobId>,
    /// Whether jobs of its `after` have yet to end.
    pub dependencies: bool,
}

/// A success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Success {
    /// When it ended.
    pub at: Time,
    /// `succeeded` or `skipped`.
    pub outcome: Outcome,
    /// The result, `null` where the worker gave none.
    pub value: Json,
    /// The hold that brought it.
    pub last: Lease,
}

/// An end that is not a success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsuccessful {
    /// When it ended.
    pub at: Time,
    /// The outcome of the last attempt. Where there was none: `cancelled`, or `lost` if nobody ever accepted.
    pub outcome: Outcome,
    /// Why.
    pub failure: Failure,
    /// The last hold; none if it never was assigned, or the last one was taken back.
    pub last: Option<Lease>,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for its time and for a vacancy. The error is that of the attempt before.
    Queued(Option<Box<Failure>>),
    /// Waits until other jobs have ended.
    Blocked(Blocked),
    /// Given to a worker that has not yet said yes.
    Assigned(Box<Leased>),
    /// Taken by the worker.
    Accepted(Box<Leased>),
    /// The worker has reported progress.
    Running(Box<Leased>),
    /// The attempt is suspended until others answer.
    Waiting(Box<Waiting>),
    /// Ended well.
    Succeeded(Box<Success>),
    /// The work said no.
    Failed(Box<Unsuccessful>),
    /// The environment broke, or the job seems to break it.
    Crashed(Box<Unsuccessful>),
    /// Stopped on request.
    Cancelled(Box<Unsuccessful>),
}

impl State {
    /// Whether nothing can follow.
    pub fn is_terminal(&self) -> bool {
        matches!(self, State::Succeeded(_) | State::Failed(_) | State::Crashed(_) | State::Cancelled(_))
    }

    /// The hold of a leased job.
    pub fn held(&self) -> Option<&Leased> {
        match self {
            State::Assigned(held) | State::Accepted(held) | State::Running(held) => Some(held),
            State::Waiting(waiting) if waiting.on == WaitFor::Jobs => Some(&waiting.held),
            _ => None,
        }
    }

    /// The hold of a leased job, the last one of a completed job or of one that waits for the outside.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            State::Waiting(waiting) => Some(&waiting.held.lease),
            State::Succeeded(success) => Some(&success.last),
            State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => defeat.last.as_ref(),
            _ => self.held().map(|held| &held.lease),
        }
    }

    /// The error people see: none in a first wait and while a worker has the job, the last one while retrying.
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

    /// The name of the stored state; [`crate::JobStatus::name`] also tells scheduled and retrying.
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
    /// Queued for a later time, never tried.
    Scheduled,
    /// Ready, or it will be.
    Queued,
    /// Behind the holder of its key, or until its dependencies have ended.
    Blocked,
    /// Offered to a worker.
    Assigned,
    /// Taken by it.
    Accepted,
    /// In work.
    Running,
    /// Suspended until others answer.
    Waiting,
    /// Queued again after an attempt.
    Retrying,
    /// Ended well.
    Succeeded,
    /// Ended by the work's own no.
    Failed,
    /// Ended by a broken environment.
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

    /// Whether nothing can follow ("completed").
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
