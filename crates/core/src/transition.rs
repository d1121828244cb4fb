//! THE match: which state follows which event. Submit, reports, recovery and the simulator all come through here.

use std::fmt;

use crate::bounds::{LOST_LEASES, SNOOZES, UNACCEPTED_CLAIMS};
use crate::event::{Event, EventName};
use crate::id::LeaseId;
use crate::job::{Again, Life, PastAttempt};
use crate::json::Json;
use crate::outcome::{Failure, Outcome, Report, Verdict, When};
use crate::retry::{Dice, RetryPolicy};
use crate::state::{CancelRequest, Defeat, Held, State, StateName, Success, Tenure};
use crate::time::Time;

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
    pub life: Life,
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
    Poison,
    /// Too many claims went unaccepted.
    Unaccepted,
    /// Cancelled before a worker had it, or after it had ended.
    Cancelled,
    /// A cancel is on its way to the worker.
    CancelRequested,
    /// The key has become free.
    Released,
    /// A follow-up was asked for.
    AgainAsked,
}

/// Why an event does not apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
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
    /// Only a completed job is retried by hand.
    NotCompleted {
        /// Where the job stands.
        state: StateName,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Illegal { state, event } => write!(f, "{event} does not apply to a job that is {state}"),
            Refusal::LeaseLost { state, event } => {
                write!(f, "{event} refused: the lease is not the current one of this job, which is {state}")
            }
            Refusal::NotDue(run_at) => write!(f, "the job is not due before {} ms", run_at.as_ms()),
            Refusal::NotCompleted { state } => write!(f, "the job is {state}, not completed"),
            Refusal::NotRequested => write!(f, "outcome cancelled refused: no cancel was requested"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Decides what `event` does to a job at the moment `now`. Total: every pair has a decision or a typed refusal.
pub fn transition(life: &Life, event: &Event<'_>, now: Time) -> Result<Decision, Refusal> {
    let step = Next { life, now, at: now.max(life.updated_at.plus_ms(1)) };
    let illegal = Refusal::Illegal { state: life.state.name(), event: event.name() };
    match (&life.state, event) {
        (State::Queued(error), Event::Claim { lease, worker }) => {
            if life.run_at > now {
                return Err(Refusal::NotDue(life.run_at));
            }
            let tenure = Tenure {
                lease: *lease,
                worker: worker.clone(),
                assigned_at: step.at,
                accepted_at: None,
                started_at: None,
            };
            Ok(step.claim(tenure, error.as_deref()))
        }
        (State::Queued(_) | State::Blocked(_), Event::Cancel(failure)) => {
            Ok(step.cancel((*failure).clone(), Outcome::Cancelled, None))
        }
        (State::Blocked(_), Event::Release) => Ok(step.to(State::Queued(None), Reason::Released)),
        (State::Queued(_) | State::Blocked(_), Event::Again(params)) => Ok(step.again(params)),

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
            Event::Report { claim, lease, report, retry, dice },
        ) => {
            step.current(held, *claim, *lease, event)?;
            step.report(held, report, retry, *dice)
        }
        // An assigned job whose worker is gone was never accepted, or nobody knows: it is taken back, not lost.
        (State::Assigned(held), Event::TakeBack | Event::LeaseEnd) => Ok(step.take_back(held)),
        (State::Accepted(held) | State::Running(held), Event::LeaseEnd) => Ok(step.lose(held)),
        (State::Assigned(held) | State::Accepted(held) | State::Running(held), Event::Cancel(failure)) => {
            Ok(step.request_cancel(held, failure))
        }
        (State::Assigned(held) | State::Accepted(held) | State::Running(held), Event::Again(params)) => {
            if held.cancel.is_some() {
                Err(illegal)
            } else {
                Ok(step.again(params))
            }
        }

        (State::Cancelled(_), Event::Cancel(_)) => Ok(Decision::Same),
        (state, Event::Report { claim, lease, report, .. }) if state.is_terminal() => {
            if repeats(life, *claim, *lease, report) {
                Ok(Decision::Same)
            } else {
                Err(lease_lost(life, event))
            }
        }
        (_, Event::Accept { .. } | Event::Progress { .. } | Event::Report { .. }) => {
            Err(lease_lost(life, event))
        }

        (State::Queued(_), Event::Release | Event::TakeBack | Event::LeaseEnd)
        | (State::Blocked(_), Event::Claim { .. } | Event::TakeBack | Event::LeaseEnd)
        | (State::Assigned(_), Event::Claim { .. } | Event::Release)
        | (State::Accepted(_) | State::Running(_), Event::Claim { .. } | Event::Release | Event::TakeBack)
        | (
            State::Succeeded(_) | State::Failed(_) | State::Crashed(_) | State::Cancelled(_),
            Event::Claim { .. }
            | Event::TakeBack
            | Event::LeaseEnd
            | Event::Release
            | Event::Again(_)
            | Event::Cancel(_),
        ) => Err(illegal),
    }
}

fn lease_lost(life: &Life, event: &Event<'_>) -> Refusal {
    Refusal::LeaseLost { state: life.state.name(), event: event.name() }
}

/// Whether a report on a completed job says again what ended it.
fn repeats(life: &Life, claim: u32, lease: LeaseId, report: &Report) -> bool {
    let by_holder = claim == life.claim && life.state.tenure().is_some_and(|tenure| tenure.lease == lease);
    by_holder
        && match &life.state {
            State::Succeeded(success) => match report {
                Report::Passed(value) | Report::Skipped(value) => {
                    report.outcome() == success.outcome && *value == success.value
                }
                _ => false,
            },
            State::Cancelled(defeat) => defeat.outcome == Outcome::Cancelled,
            State::Failed(defeat) | State::Crashed(defeat) => {
                report.outcome() == defeat.outcome && report.failure() == Some(&defeat.failure)
            }
            _ => false,
        }
}

/// Builds the next life: one rev later, at a later moment.
struct Next<'a> {
    life: &'a Life,
    /// The moment it happens.
    now: Time,
    /// The moment it is stamped with.
    at: Time,
}

impl Next<'_> {
    fn current(&self, held: &Held, claim: u32, lease: LeaseId, event: &Event<'_>) -> Result<(), Refusal> {
        let current = claim == self.life.claim && lease == held.tenure.lease;
        if current { Ok(()) } else { Err(lease_lost(self.life, event)) }
    }

    fn step(&self, state: State, reason: Reason) -> Step {
        let life = Life { rev: self.life.rev + 1, updated_at: self.at, state, ..self.life.clone() };
        Step { life, reason, past: None, params: None, follow_up: None }
    }

    fn to(&self, state: State, reason: Reason) -> Decision {
        Decision::Step(Box::new(self.step(state, reason)))
    }

    fn claim(&self, tenure: Tenure, error: Option<&Failure>) -> Decision {
        let held = Held { tenure, cancel: None, error: error.cloned() };
        let mut step = self.step(State::Assigned(Box::new(held)), Reason::Claimed);
        step.life.claim += 1;
        Decision::Step(Box::new(step))
    }

    /// An attempt counts from the moment its worker is known to have it.
    fn begin(&self, step: &mut Step, tenure: &mut Tenure) {
        if tenure.accepted_at.is_none() {
            tenure.accepted_at = Some(self.at);
            step.life.attempt += 1;
            step.life.unaccepted = 0;
        }
    }

    fn accept(&self, held: &Held) -> Decision {
        let mut held = held.clone();
        let mut step = self.step(State::Queued(None), Reason::Accepted);
        self.begin(&mut step, &mut held.tenure);
        held.error = None;
        step.life.state = State::Accepted(Box::new(held));
        Decision::Step(Box::new(step))
    }

    fn start(&self, held: &Held) -> Decision {
        let mut held = held.clone();
        let mut step = self.step(State::Queued(None), Reason::Started);
        self.begin(&mut step, &mut held.tenure);
        held.tenure.started_at = Some(self.at);
        held.error = None;
        step.life.state = State::Running(Box::new(held));
        Decision::Step(Box::new(step))
    }

    fn again(&self, params: &Json) -> Decision {
        let mut step = self.step(self.life.state.clone(), Reason::AgainAsked);
        step.life.again = Some(Box::new(Again { params: params.clone() }));
        Decision::Step(Box::new(step))
    }

    /// The end of the job. A follow-up that was asked for is made, except after a cancel.
    fn end(&self, mut step: Step, state: State) -> Decision {
        let again = step.life.again.take();
        if !matches!(state, State::Cancelled(_)) {
            step.follow_up = again.map(|again| *again);
        }
        step.life.state = state;
        Decision::Step(Box::new(step))
    }

    fn cancel(&self, failure: Failure, outcome: Outcome, last: Option<Tenure>) -> Decision {
        let step = self.step(State::Queued(None), Reason::Cancelled);
        self.end(step, State::Cancelled(Box::new(Defeat { at: self.at, outcome, failure, last })))
    }

    fn request_cancel(&self, held: &Held, failure: &Failure) -> Decision {
        if held.cancel.is_some() {
            return Decision::Same;
        }
        let mut held = held.clone();
        held.cancel = Some(CancelRequest { at: self.at, failure: failure.clone() });
        let held = Box::new(held);
        let state = match self.life.state {
            State::Assigned(_) => State::Assigned(held),
            State::Accepted(_) => State::Accepted(held),
            _ => State::Running(held),
        };
        let mut step = self.step(state, Reason::CancelRequested);
        step.life.again = None;
        Decision::Step(Box::new(step))
    }

    fn take_back(&self, held: &Held) -> Decision {
        if let Some(cancel) = &held.cancel {
            return self.cancel(cancel.failure.clone(), Outcome::Cancelled, None);
        }
        let mut step = self.step(State::Queued(held.error.clone().map(Box::new)), Reason::TakenBack);
        step.life.unaccepted += 1;
        if step.life.unaccepted < UNACCEPTED_CLAIMS {
            return Decision::Step(Box::new(step));
        }
        step.reason = Reason::Unaccepted;
        let words = format!("{UNACCEPTED_CLAIMS} claims in a row were not accepted in time");
        let failure = Failure::new("unaccepted", words);
        self.end(
            step,
            State::Crashed(Box::new(Defeat { at: self.at, outcome: Outcome::Lost, failure, last: None })),
        )
    }

    fn lose(&self, held: &Held) -> Decision {
        let tenure = held.tenure.clone();
        let mut step = self.step(State::Queued(None), Reason::Lost);
        if let Some(cancel) = &held.cancel {
            return self.cancel(cancel.failure.clone(), Outcome::Lost, Some(tenure));
        }
        step.life.lost += 1;
        let failure = Failure::new("lost", format!("worker {} was not heard of any more", tenure.worker));
        if step.life.lost < LOST_LEASES {
            step.life.run_at = self.now;
            return self.requeue(step, tenure, Outcome::Lost, failure);
        }
        step.reason = Reason::Poison;
        let words = format!(
            "{LOST_LEASES} workers were lost while they had this job, the last one {}",
            tenure.worker
        );
        let failure = Failure::new("poison", words);
        let defeat = Defeat { at: self.at, outcome: Outcome::Lost, failure, last: Some(tenure) };
        self.end(step, State::Crashed(Box::new(defeat)))
    }

    fn requeue(&self, mut step: Step, tenure: Tenure, outcome: Outcome, failure: Failure) -> Decision {
        let past = PastAttempt::of(step.life.claim, tenure, self.at, outcome, failure.clone());
        step.past = Some(Box::new(past));
        step.life.state = State::Queued(Some(Box::new(failure)));
        Decision::Step(Box::new(step))
    }

    fn report(
        &self,
        held: &Held,
        report: &Report,
        retry: &RetryPolicy,
        dice: Dice,
    ) -> Result<Decision, Refusal> {
        let mut tenure = held.tenure.clone();
        let mut step = self.step(State::Queued(None), Reason::Succeeded);
        self.begin(&mut step, &mut tenure);
        if let Some(cancel) = &held.cancel {
            step.reason = Reason::Cancelled;
            let defeat = Defeat {
                at: self.at,
                outcome: Outcome::Cancelled,
                failure: cancel.failure.clone(),
                last: Some(tenure),
            };
            return Ok(self.end(step, State::Cancelled(Box::new(defeat))));
        }
        match report {
            Report::Passed(value) | Report::Skipped(value) => {
                let success =
                    Success { at: self.at, outcome: report.outcome(), value: value.clone(), last: tenure };
                Ok(self.end(step, State::Succeeded(Box::new(success))))
            }
            Report::Failed(failure, verdict)
            | Report::Crashed(failure, verdict)
            | Report::TimedOut(failure, verdict) => {
                let ending = Ending { tenure, outcome: report.outcome(), failure };
                Ok(self.fail(step, ending, verdict.as_ref(), retry, dice))
            }
            Report::Cancelled => Err(Refusal::NotRequested),
        }
    }

    fn fail(
        &self,
        mut step: Step,
        ending: Ending<'_>,
        verdict: Option<&Verdict>,
        retry: &RetryPolicy,
        dice: Dice,
    ) -> Decision {
        let when = verdict.map(|verdict| verdict.when);
        let left = step.life.tries() < u32::from(retry.max_attempts);
        let (delay_ms, reason) = match when {
            Some(When::Snooze(ms)) if step.life.snoozed < SNOOZES => (Some(ms), Reason::Snoozed),
            Some(When::Never) => (None, Reason::NotRetried),
            _ if !left => (None, Reason::Exhausted),
            Some(When::Now) => (Some(0), Reason::Retried),
            Some(When::In(ms) | When::Snooze(ms)) => (Some(ms), Reason::Retried),
            None if !retry.on.contains(ending.outcome) => (None, Reason::NotRetried),
            None => (Some(retry.backoff.delay_ms(step.life.tries(), dice)), Reason::Retried),
        };
        step.reason = reason;
        let Some(delay_ms) = delay_ms else {
            return self.end(step, ending.into_state(self.at));
        };
        if reason == Reason::Snoozed {
            step.life.snoozed += 1;
        }
        step.life.run_at = self.now.plus_ms(delay_ms);
        step.params = verdict.and_then(|verdict| verdict.params.clone());
        self.requeue(step, ending.tenure, ending.outcome, ending.failure.clone())
    }
}

/// An attempt that ended without success.
struct Ending<'a> {
    tenure: Tenure,
    outcome: Outcome,
    failure: &'a Failure,
}

impl Ending<'_> {
    fn into_state(self, at: Time) -> State {
        let failed = self.outcome == Outcome::Failed;
        let defeat = Box::new(Defeat {
            at,
            outcome: self.outcome,
            failure: self.failure.clone(),
            last: Some(self.tenure),
        });
        if failed { State::Failed(defeat) } else { State::Crashed(defeat) }
    }
}

/// Whether one stored life may replace another. Stores do not decide, but the reference store refuses what no
/// sequence of transitions could have made.
pub fn guard(old: &Life, new: &Life) -> Result<(), &'static str> {
    let rules = [
        (!old.state.is_terminal(), "a completed job never changes"),
        (new.rev > old.rev, "rev rises at every transition"),
        (new.updated_at > old.updated_at, "updated_at rises at every transition"),
        (new.claim >= old.claim && new.claim - old.claim <= 1, "claim rises by one"),
        (new.attempt >= old.attempt && new.attempt - old.attempt <= 1, "attempt rises by one"),
        (new.attempt <= new.claim, "an attempt needs a claim"),
        (new.lost >= old.lost && new.snoozed >= old.snoozed, "counters do not fall"),
        (new.claim == old.claim || new.state.held().is_some(), "a claim leaves the job held"),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(rule),
        None => Ok(()),
    }
}
