//! External work: the worker only starts it, and its outcome is reported from outside. The two reports may arrive in
//! either order.

use super::next::Next;
use super::{Decision, IllegalTransition, Reason, by_holder, lease_lost};
use crate::job::event::Event;
use crate::job::outcome::Report;
use crate::job::retry::{Dice, RetryPolicy};
use crate::job::state::{Leased, State, WaitFor};

/// An outcome reported from outside.
struct Told<'a> {
    attempt: Option<u32>,
    report: &'a Report,
    retry: &'a RetryPolicy,
    dice: Dice,
}

/// [`Event::StartedExternal`] and [`Event::Complete`] on any state.
pub(super) fn transition(step: &Next<'_>, event: &Event<'_>) -> Result<Decision, IllegalTransition> {
    match *event {
        Event::StartedExternal { claim, lease, until, retry, dice } => match &step.status.state {
            State::Assigned(held) | State::Accepted(held) | State::Running(held) => {
                step.current(held, claim, lease, event)?;
                match held.early.as_deref() {
                    Some(early) => step.report(held, early, retry, dice),
                    // An attempt that is being stopped does not continue outside.
                    None if held.stop.is_some() => step.report(held, &Report::Cancelled, retry, dice),
                    None => step.suspend(held, WaitFor::External { until }),
                }
            }
            State::Waiting(waiting) if waiting.on == WaitFor::Jobs => {
                step.current(&waiting.held, claim, lease, event)?;
                Err(IllegalTransition::Illegal { state: step.status.state.name(), event: event.name() })
            }
            _ if by_holder(step.status, claim, lease) => Ok(Decision::Same),
            _ => Err(lease_lost(step.status, event)),
        },
        Event::Complete { attempt, report, retry, dice } => {
            told(step, event, &Told { attempt, report, retry, dice })
        }
        _ => Err(IllegalTransition::Illegal { state: step.status.state.name(), event: event.name() }),
    }
}

fn told(step: &Next<'_>, event: &Event<'_>, told: &Told<'_>) -> Result<Decision, IllegalTransition> {
    let status = step.status;
    // An assigned job counts its attempt when the worker accepts; an outcome from outside refers to that number.
    let current = status.attempt + u32::from(matches!(status.state, State::Assigned(_)));
    if told.attempt.is_some_and(|attempt| attempt != current) {
        return Err(IllegalTransition::OtherAttempt { current });
    }
    match &status.state {
        State::Waiting(waiting) if waiting.on != WaitFor::Jobs => {
            step.report(&step.waited(waiting), told.report, told.retry, told.dice)
        }
        State::Waiting(waiting) => keep(step, &waiting.held, told.report),
        State::Assigned(held) | State::Accepted(held) | State::Running(held) => keep(step, held, told.report),
        state if said_before(state, told.report) => Ok(Decision::Same),
        _ => Err(IllegalTransition::Illegal { state: status.state.name(), event: event.name() }),
    }
}

/// Whether this same outcome ended the job. A job ended by a cancel or a time-out accepts no other outcome.
fn said_before(state: &State, report: &Report) -> bool {
    match (state, report) {
        (State::Succeeded(success), Report::Succeeded(value) | Report::Skipped(value)) => {
            report.outcome() == success.outcome && *value == success.value
        }
        (State::Failed(defeat) | State::Crashed(defeat), _) => {
            report.outcome() == defeat.outcome && report.failure() == Some(&defeat.failure)
        }
        _ => false,
    }
}

/// Keeps an outcome until the worker reports that the work continues outside.
fn keep(step: &Next<'_>, held: &Leased, report: &Report) -> Result<Decision, IllegalTransition> {
    match held.early.as_deref() {
        _ if held.is_cancelled() => Err(IllegalTransition::Stopping),
        _ if *report == Report::Cancelled => Err(IllegalTransition::NotRequested),
        Some(early) if early == report => Ok(Decision::Same),
        Some(_) => Err(IllegalTransition::ToldOtherwise),
        None => {
            let held = Leased { early: Some(Box::new(report.clone())), ..held.clone() };
            Ok(step.to(step.with_held(held), Reason::OutcomeKept))
        }
    }
}
