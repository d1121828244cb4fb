//! Why an event does not apply.

use std::fmt;

use crate::job::event::EventName;
use crate::job::state::StateName;
use crate::time::Time;

/// Why an event does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IllegalTransition {
    /// The event is not allowed in this state.
    Illegal {
        /// The state of the job.
        state: StateName,
        /// The event.
        event: EventName,
    },
    /// The claim or lease is not, or no longer, the current one.
    LeaseLost {
        /// The state of the job.
        state: StateName,
        /// The event.
        event: EventName,
    },
    /// Its start time has not come.
    NotDue(Time),
    /// The worker reports a cancel that was not requested.
    NotRequested,
    /// The job is held.
    OnHold,
    /// The attempt is being stopped and cannot wait for others.
    Stopping,
    /// Another outcome was already reported from outside.
    ToldOtherwise,
    /// Another attempt than the named one is current.
    OtherAttempt {
        /// The current attempt.
        current: u32,
    },
    /// Only a completed job can be retried manually.
    NotCompleted {
        /// The state of the job.
        state: StateName,
    },
}

impl fmt::Display for IllegalTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IllegalTransition::Illegal { state, event } => {
                write!(f, "{event} does not apply to a job that is {state}")
            }
            IllegalTransition::LeaseLost { state, event } => {
                write!(f, "{event} refused: the lease is not the current one of this job, which is {state}")
            }
            IllegalTransition::NotDue(run_at) => write!(f, "the job is not due before {} ms", run_at.as_ms()),
            IllegalTransition::NotCompleted { state } => write!(f, "the job is {state}, not completed"),
            IllegalTransition::OnHold => write!(f, "the job is on hold"),
            IllegalTransition::Stopping => write!(f, "the attempt is being stopped"),
            IllegalTransition::ToldOtherwise => {
                write!(f, "another outcome of this attempt was reported before")
            }
            IllegalTransition::OtherAttempt { current } => write!(f, "the job is at attempt {current}"),
            IllegalTransition::NotRequested => {
                write!(f, "outcome cancelled refused: no cancel was requested")
            }
        }
    }
}

impl std::error::Error for IllegalTransition {}
