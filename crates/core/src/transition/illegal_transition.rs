//! Why an event does not apply.

use std::fmt;

use crate::event::EventName;
use crate::state::StateName;
use crate::time::Time;

/// Why an event does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IllegalTransition {
    /// The state has no such event.
    Illegal {
        /// Where the job stands.
        state: StateName,
        /// What was asked of it.
        event: EventName,
    },
    /// The claim or lease is not, or no longer, the current one.
    LeaseLost {
        /// Where the job stands.
        state: StateName,
        /// What was reported.
        event: EventName,
    },
    /// Its time has not come.
    NotDue(Time),
    /// The worker says cancelled, but nobody asked for it.
    NotRequested,
    /// Someone keeps it from being claimed.
    OnHold,
    /// The attempt is being stopped and cannot wait for others.
    Stopping,
    /// It has been told another outcome from outside already.
    ToldOtherwise,
    /// It is at another attempt than the one that was named.
    OtherAttempt {
        /// The attempt it is at.
        current: u32,
    },
    /// Only a completed job is retried by hand.
    NotCompleted {
        /// Where the job stands.
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
            IllegalTransition::ToldOtherwise => write!(f, "another outcome of this attempt was told before"),
            IllegalTransition::OtherAttempt { current } => write!(f, "the job is at attempt {current}"),
            IllegalTransition::NotRequested => {
                write!(f, "outcome cancelled refused: no cancel was requested")
            }
        }
    }
}

impl std::error::Error for IllegalTransition {}
