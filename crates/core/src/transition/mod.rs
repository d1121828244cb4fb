//! The transition function: which state follows which event. Submit, reports, recovery and the simulator all use it.

mod external;
mod guard;
mod illegal_transition;
mod next;
mod step;

use crate::id::LeaseId;
use crate::job::JobStatus;
use crate::job::event::Event;
use crate::job::outcome::{Outcome, Report};
use crate::job::state::{Lease, State, StopWhy, WaitFor};
use crate::time::Time;

use next::Next;

pub use guard::guard;
pub use illegal_transition::IllegalTransition;
pub use step::{Decision, Reason, Step};

/// Decides what `event` does to a job at the time `now`. Total: every pair has a decision or a typed refusal.
pub fn transition(status: &JobStatus, event: &Event<'_>, now: Time) -> Result<Decision, IllegalTransition> {
    let step = Next { status, now, at: now.max(status.updated_at.plus_ms(1)) };
    let illegal = IllegalTransition::Illegal { state: status.state.name(), event: event.name() };
    match (&status.state, event) {
        (State::Queued(error), Event::Claim { lease, worker }) => {
            if status.run_at > now {
                return Err(IllegalTransition::NotDue(status.run_at));
            }
            if status.hold {
                return Err(IllegalTransition::OnHold);
            }
            let lease = Lease {
                id: *lease,
                worker: worker.clone(),
                assigned_at: step.at,
                accepted_at: None,
                started_at: None,
                waited_ms: 0,
                progress: Box::default(),
            };
            Ok(step.claim(lease, error.as_deref()))
        }
        (State::Queued(_) | State::Blocked(_), Event::Cancel(failure)) => {
            Ok(step.cancel((*failure).clone(), Outcome::Cancelled, None))
        }
        (State::Queued(_) | State::Blocked(_), Event::Edit { run_at }) => Ok(step.edit(*run_at)),
        (State::Blocked(blocked), Event::KeyFreed) if blocked.holder.is_some() => Ok(step.key_freed(blocked)),
        (State::Blocked(blocked), Event::DependenciesMet) if blocked.dependencies => Ok(step.met(blocked)),
        (State::Blocked(blocked), Event::DependencyFailed { failure, cancelled }) if blocked.dependencies => {
            Ok(step.cascade(failure, *cancelled))
        }
        (State::Queued(_) | State::Blocked(_), Event::Again(params)) => Ok(step.again(params)),
        (state, Event::Hold | Event::Release) if !state.is_terminal() => {
            Ok(step.hold(matches!(event, Event::Hold)))
        }

        (State::Assigned(held), Event::Accept { claim, lease }) => {
            step.current(held, *claim, *lease, event)?;
            Ok(step.accept(held))
        }
        (State::Accepted(held) | State::Running(held), Event::Accept { claim, lease }) => {
            step.current(held, *claim, *lease, event)?;
            Ok(Decision::Same)
        }
        (State::Assigned(held) | State::Accepted(held), Event::Progress { claim, lease }) => {
            step.current(held, *claim, *lease, event)?;
            Ok(step.start(held))
        }
        (State::Running(held), Event::Progress { claim, lease }) => {
            step.current(held, *claim, *lease, event)?;
            Ok(Decision::Same)
        }
        (
            State::Assigned(held) | State::Accepted(held) | State::Running(held),
            Event::Wait { claim, lease },
        ) => {
            step.current(held, *claim, *lease, event)?;
            step.suspend(held, WaitFor::Jobs)
        }
        (
            State::Waiting(waiting),
            Event::Accept { claim, lease } | Event::Progress { claim, lease } | Event::Wait { claim, lease },
        ) if waiting.on == WaitFor::Jobs => {
            step.current(&waiting.held, *claim, *lease, event)?;
            Ok(Decision::Same)
        }
        (State::Waiting(waiting), Event::Resume) if waiting.on == WaitFor::Jobs => Ok(step.resume(waiting)),
        (
            State::Assigned(held) | State::Accepted(held) | State::Running(held),
            Event::Report { claim, lease, report, retry, dice },
        ) => {
            step.current(held, *claim, *lease, event)?;
            step.report(held, report, retry, *dice)
        }
        (State::Waiting(waiting), Event::Report { claim, lease, report, retry, dice })
            if waiting.on == WaitFor::Jobs =>
        {
            step.current(&waiting.held, *claim, *lease, event)?;
            step.report(&step.waited(waiting), report, retry, *dice)
        }
        // An assigned job whose worker is gone was not accepted, as far as is known: it is taken back, not lost.
        (State::Assigned(held), Event::TakeBack | Event::LeaseEnd { .. }) => Ok(step.take_back(held)),
        (State::Accepted(held) | State::Running(held), Event::LeaseEnd { retry }) => {
            Ok(step.lose(held, retry))
        }
        (State::Waiting(waiting), Event::LeaseEnd { retry }) if waiting.on == WaitFor::Jobs => {
            Ok(step.lose(&step.waited(waiting), retry))
        }
        (State::Assigned(held) | State::Accepted(held) | State::Running(held), Event::Cancel(failure)) => {
            Ok(step.request_stop(held, StopWhy::Cancel, failure))
        }
        (State::Waiting(waiting), Event::Cancel(failure)) => match waiting.on {
            WaitFor::Jobs => Ok(step.request_stop(&waiting.held, StopWhy::Cancel, failure)),
            WaitFor::External { .. } => {
                let last = Some(step.waited(waiting).lease);
                Ok(step.cancel((*failure).clone(), Outcome::Cancelled, last))
            }
        },
        (State::Accepted(held) | State::Running(held), Event::TimeOut { failure, retry, dice, forced }) => {
            step.time_out(held, failure, retry, *dice, *forced)
        }
        (State::Waiting(waiting), Event::TimeOut { failure, retry, dice, .. }) => match waiting.on {
            WaitFor::External { until } if until <= now => Ok(step.timed_out(waiting, failure, retry, *dice)),
            WaitFor::External { .. } | WaitFor::Jobs => Ok(Decision::Same),
        },
        (State::Assigned(_), Event::TimeOut { .. }) => Ok(Decision::Same),
        (
            State::Assigned(_) | State::Accepted(_) | State::Running(_) | State::Waiting(_),
            Event::Again(params),
        ) => {
            if status.state.leased().is_some_and(|held| held.is_cancelled()) {
                Err(illegal)
            } else {
                Ok(step.again(params))
            }
        }
        (_, Event::StartedExternal { .. } | Event::Complete { .. }) => external::transition(&step, event),

        (State::Cancelled(_), Event::Cancel(_)) => Ok(Decision::Same),
        (state, Event::Report { claim, lease, report, .. }) if state.is_terminal() => {
            if by_holder(status, *claim, *lease) && says_again(status, report) {
                Ok(Decision::Same)
            } else {
                Err(lease_lost(status, event))
            }
        }
        (_, Event::Accept { .. } | Event::Progress { .. } | Event::Report { .. } | Event::Wait { .. }) => {
            Err(lease_lost(status, event))
        }

        (
            State::Queued(_) | State::Blocked(_),
            Event::TakeBack | Event::LeaseEnd { .. } | Event::TimeOut { .. },
        )
        | (State::Queued(_), Event::KeyFreed | Event::DependenciesMet | Event::DependencyFailed { .. })
        | (State::Queued(_), Event::Resume)
        | (
            State::Blocked(_),
            Event::Claim { .. }
            | Event::KeyFreed
            | Event::DependenciesMet
            | Event::DependencyFailed { .. }
            | Event::Resume,
        )
        | (
            State::Assigned(_) | State::Accepted(_) | State::Running(_) | State::Waiting(_),
            Event::Claim { .. }
            | Event::KeyFreed
            | Event::DependenciesMet
            | Event::DependencyFailed { .. }
            | Event::Edit { .. }
            | Event::Resume
            | Event::Hold
            | Event::Release
            | Event::TakeBack
            | Event::LeaseEnd { .. },
        )
        | (State::Queued(_) | State::Blocked(_), Event::Hold | Event::Release)
        | (
            State::Succeeded(_) | State::Failed(_) | State::Crashed(_) | State::Cancelled(_),
            Event::Claim { .. }
            | Event::TakeBack
            | Event::LeaseEnd { .. }
            | Event::KeyFreed
            | Event::DependenciesMet
            | Event::DependencyFailed { .. }
            | Event::Edit { .. }
            | Event::Resume
            | Event::Hold
            | Event::Release
            | Event::TimeOut { .. }
            | Event::Again(_)
            | Event::Cancel(_),
        ) => Err(illegal),
    }
}

fn lease_lost(status: &JobStatus, event: &Event<'_>) -> IllegalTransition {
    IllegalTransition::LeaseLost { state: status.state.name(), event: event.name() }
}

/// Whether these are the claim and lease of the last attempt.
fn by_holder(status: &JobStatus, claim: u32, lease: LeaseId) -> bool {
    claim == status.claim && status.state.lease().is_some_and(|current| current.id == lease)
}

/// Whether a report on a completed job repeats the report that ended it.
fn says_again(status: &JobStatus, report: &Report) -> bool {
    match &status.state {
        State::Succeeded(success) => match report {
            Report::Succeeded(value) | Report::Skipped(value) => {
                report.outcome() == success.outcome && *value == success.value
            }
            _ => false,
        },
        State::Cancelled(defeat) => defeat.outcome == Outcome::Cancelled,
        // An attempt that was stopped by a time-out may have reported anything but a success.
        State::Crashed(defeat) if defeat.failure.reason == next::TIMED_OUT => !report.outcome().is_success(),
        State::Failed(defeat) | State::Crashed(defeat) => {
            report.outcome() == defeat.outcome && report.failure() == Some(&defeat.failure)
        }
        _ => false,
    }
}
