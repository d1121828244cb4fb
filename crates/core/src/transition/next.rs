//! Builds the status that follows an event.

use super::{Decision, IllegalTransition, Reason, Step, lease_lost};
use crate::bounds::{LOST_LEASES, SNOOZES, UNACCEPTED_CLAIMS};
use crate::id::LeaseId;
use crate::job::event::Event;
use crate::job::outcome::{Failure, Outcome, Report, Verdict, When};
use crate::job::retry::{Dice, RetryPolicy};
use crate::job::state::{
    Blocked, Lease, Leased, State, StopRequest, StopWhy, Success, Unsuccessful, WaitFor, Waiting,
};
use crate::job::{Again, JobStatus, PastAttempt};
use crate::json::Json;
use crate::time::Time;

/// The reason of a failure caused by a time-out.
pub(super) const TIMED_OUT: &str = "timed_out";

/// Builds the next status: the next `rev`, at a later time.
pub(super) struct Next<'a> {
    pub status: &'a JobStatus,
    /// The time of the event.
    pub now: Time,
    /// The time recorded in the new status.
    pub at: Time,
}

impl Next<'_> {
    pub fn current(
        &self,
        held: &Leased,
        claim: u32,
        lease: LeaseId,
        event: &Event<'_>,
    ) -> Result<(), IllegalTransition> {
        let current = claim == self.status.claim && lease == held.lease.id;
        if current { Ok(()) } else { Err(lease_lost(self.status, event)) }
    }

    fn step(&self, state: State, reason: Reason) -> Step {
        let status =
            JobStatus { rev: self.status.rev + 1, updated_at: self.at, state, ..self.status.clone() };
        Step { status, reason, past: None, params: None, follow_up: None }
    }

    pub fn to(&self, state: State, reason: Reason) -> Decision {
        Decision::Step(Box::new(self.step(state, reason)))
    }

    pub fn claim(&self, lease: Lease, error: Option<&Failure>) -> Decision {
        let held = Leased { lease, stop: None, error: error.cloned(), early: None };
        let mut step = self.step(State::Assigned(Box::new(held)), Reason::Claimed);
        step.status.claim += 1;
        Decision::Step(Box::new(step))
    }

    /// Counts the attempt, unless it was counted before. An accept that was not received is dated to the assignment:
    /// the worker began between the two.
    fn begin(step: &mut Step, lease: &mut Lease, accepted_at: Time) {
        if lease.accepted_at.is_none() {
            lease.accepted_at = Some(accepted_at);
            step.status.attempt += 1;
            step.status.unaccepted = 0;
        }
    }

    pub fn accept(&self, held: &Leased) -> Decision {
        let mut held = held.clone();
        let mut step = self.step(State::Queued(None), Reason::Accepted);
        Self::begin(&mut step, &mut held.lease, self.at);
        held.error = None;
        step.status.state = State::Accepted(Box::new(held));
        Decision::Step(Box::new(step))
    }

    pub fn start(&self, held: &Leased) -> Decision {
        let mut held = held.clone();
        let mut step = self.step(State::Queued(None), Reason::Started);
        let assigned_at = held.lease.assigned_at;
        held.lease.started_at = Some(held.lease.accepted_at.map_or(assigned_at, |_| self.at));
        Self::begin(&mut step, &mut held.lease, assigned_at);
        held.error = None;
        step.status.state = State::Running(Box::new(held));
        Decision::Step(Box::new(step))
    }

    pub fn again(&self, params: &Json) -> Decision {
        let mut step = self.step(self.status.state.clone(), Reason::AgainAsked);
        step.status.again = Some(Box::new(Again { params: params.clone() }));
        Decision::Step(Box::new(step))
    }

    /// Ends the job. A requested follow-up is created, except after a cancel.
    fn end(&self, mut step: Step, state: State) -> Decision {
        let again = step.status.again.take();
        if !matches!(state, State::Cancelled(_)) {
            step.follow_up = again.map(|again| *again);
        }
        step.status.state = state;
        Decision::Step(Box::new(step))
    }

    pub fn cancel(&self, failure: Failure, outcome: Outcome, last: Option<Lease>) -> Decision {
        let step = self.step(State::Queued(None), Reason::Cancelled);
        self.end(step, State::Cancelled(Box::new(Unsuccessful { at: self.at, outcome, failure, last })))
    }

    /// The current state of the job, with this lease data.
    pub fn with_held(&self, held: Leased) -> State {
        match &self.status.state {
            State::Assigned(_) => State::Assigned(Box::new(held)),
            State::Accepted(_) => State::Accepted(Box::new(held)),
            State::Waiting(waiting) => State::Waiting(Box::new(Waiting { held, ..(**waiting).clone() })),
            _ => State::Running(Box::new(held)),
        }
    }

    /// Requests a stop from the worker. A cancel overrides a time-out, never the reverse.
    pub fn request_stop(&self, held: &Leased, why: StopWhy, failure: &Failure) -> Decision {
        if held.stop.as_ref().is_some_and(|stop| stop.why >= why) {
            return Decision::Same;
        }
        let stop = Some(StopRequest { at: self.at, why, failure: failure.clone() });
        let (again, reason) = match why {
            StopWhy::Cancel => (None, Reason::CancelRequested),
            StopWhy::TimeOut => (self.status.again.clone(), Reason::TimeOutRequested),
        };
        let mut step = self.step(self.with_held(Leased { stop, ..held.clone() }), reason);
        step.status.again = again;
        Decision::Step(Box::new(step))
    }

    /// The attempt has timed out: a stop is requested from its worker, and after the grace period it is given up.
    pub fn time_out(
        &self,
        held: &Leased,
        failure: &Failure,
        retry: &RetryPolicy,
        dice: Dice,
        forced: bool,
    ) -> Result<Decision, IllegalTransition> {
        match &held.stop {
            Some(stop) if forced && stop.why == StopWhy::TimeOut => {
                self.report(held, &Report::Cancelled, retry, dice)
            }
            _ => Ok(self.request_stop(held, StopWhy::TimeOut, failure)),
        }
    }

    /// The outcome was not reported from outside in time.
    pub fn timed_out(
        &self,
        waiting: &Waiting,
        failure: &Failure,
        retry: &RetryPolicy,
        dice: Dice,
    ) -> Decision {
        let (step, lease) = self.begun(&self.waited(waiting));
        self.fail(step, Ending { lease, outcome: Outcome::TimedOut, failure }, None, retry, dice)
    }

    pub fn hold(&self, hold: bool) -> Decision {
        if self.status.hold == hold {
            return Decision::Same;
        }
        let reason = if hold { Reason::HeldBack } else { Reason::LetGo };
        let mut step = self.step(self.status.state.clone(), reason);
        step.status.hold = hold;
        Decision::Step(Box::new(step))
    }

    pub fn edit(&self, run_at: Option<Time>) -> Decision {
        let mut step = self.step(self.status.state.clone(), Reason::Edited);
        step.status.run_at = run_at.unwrap_or(self.status.run_at);
        Decision::Step(Box::new(step))
    }

    /// The key has become free.
    pub fn key_freed(&self, blocked: &Blocked) -> Decision {
        self.unblock(Blocked { holder: None, ..*blocked }, Reason::KeyFreed)
    }

    /// The last dependency has ended.
    pub fn met(&self, blocked: &Blocked) -> Decision {
        self.unblock(Blocked { dependencies: false, ..*blocked }, Reason::DependenciesMet)
    }

    fn unblock(&self, left: Blocked, reason: Reason) -> Decision {
        let free = left.holder.is_none() && !left.dependencies;
        self.to(if free { State::Queued(None) } else { State::Blocked(left) }, reason)
    }

    /// A dependency did not succeed.
    pub fn cascade(&self, failure: &Failure, cancelled: bool) -> Decision {
        let step = self.step(State::Queued(None), Reason::DependencyFailed);
        let outcome = if cancelled { Outcome::Cancelled } else { Outcome::Failed };
        let defeat = Box::new(Unsuccessful { at: self.at, outcome, failure: failure.clone(), last: None });
        self.end(step, if cancelled { State::Cancelled(defeat) } else { State::Failed(defeat) })
    }

    /// Suspends the attempt. One that is being stopped is not suspended.
    pub fn suspend(&self, held: &Leased, on: WaitFor) -> Result<Decision, IllegalTransition> {
        if held.stop.is_some() {
            return Err(IllegalTransition::Stopping);
        }
        let (mut step, lease) = self.begun(held);
        let held = Leased { lease, error: None, ..held.clone() };
        step.reason = Reason::Suspended;
        step.status.state = State::Waiting(Box::new(Waiting { held, on, since: self.at }));
        Ok(Decision::Step(Box::new(step)))
    }

    pub fn resume(&self, waiting: &Waiting) -> Decision {
        self.to(State::Running(Box::new(self.waited(waiting))), Reason::Resumed)
    }

    /// The lease data of a suspended attempt, including the time that it has waited.
    pub fn waited(&self, waiting: &Waiting) -> Leased {
        let mut held = waiting.held.clone();
        held.lease.waited_ms += self.at.since(waiting.since);
        held
    }

    /// A step of an attempt that has begun, whether or not its accept and its start were received. A start that was not
    /// received is dated to the accept.
    fn begun(&self, held: &Leased) -> (Step, Lease) {
        let mut lease = held.lease.clone();
        let mut step = self.step(State::Queued(None), Reason::Succeeded);
        let assigned_at = lease.assigned_at;
        Self::begin(&mut step, &mut lease, assigned_at);
        lease.started_at = lease.started_at.or(lease.accepted_at);
        (step, lease)
    }

    /// An attempt whose worker is gone, but whose success was reported from outside.
    fn told_success(&self, held: &Leased) -> Option<Decision> {
        match held.early.as_deref() {
            Some(early @ (Report::Succeeded(value) | Report::Skipped(value))) => {
                let (step, last) = self.begun(held);
                let success = Success { at: self.at, outcome: early.outcome(), value: value.clone(), last };
                Some(self.end(step, State::Succeeded(Box::new(success))))
            }
            _ => None,
        }
    }

    pub fn take_back(&self, held: &Leased) -> Decision {
        if let Some(stop) = held.stop.as_ref().filter(|_| held.is_cancelled()) {
            return self.cancel(stop.failure.clone(), Outcome::Cancelled, None);
        }
        if let Some(success) = self.told_success(held) {
            return success;
        }
        let mut step = self.step(State::Queued(held.error.clone().map(Box::new)), Reason::TakenBack);
        step.status.unaccepted += 1;
        if step.status.unaccepted < UNACCEPTED_CLAIMS {
            return Decision::Step(Box::new(step));
        }
        step.reason = Reason::Unaccepted;
        let words = format!("{UNACCEPTED_CLAIMS} claims in a row were not accepted in time");
        let failure = Failure::new("unaccepted", words);
        self.end(
            step,
            State::Crashed(Box::new(Unsuccessful {
                at: self.at,
                outcome: Outcome::Lost,
                failure,
                last: None,
            })),
        )
    }

    pub fn lose(&self, held: &Leased, retry: &RetryPolicy) -> Decision {
        let lease = held.lease.clone();
        let mut step = self.step(State::Queued(None), Reason::Lost);
        if let Some(stop) = held.stop.as_ref().filter(|_| held.is_cancelled()) {
            return self.cancel(stop.failure.clone(), Outcome::Lost, Some(lease));
        }
        if let Some(success) = self.told_success(held) {
            return success;
        }
        step.status.lost += 1;
        let worker = &lease.worker;
        let failure = if retry.at_most_once {
            step.reason = Reason::LostAtMostOnce;
            let words = format!(
                "the session of worker {worker} has ended; whether the work was done is not known, and the job runs at \
                 most once"
            );
            Failure::lost("at_most_once", words, worker)
        } else if step.status.lost < LOST_LEASES {
            step.status.run_at = self.now;
            let words = format!("the session of worker {worker} has ended");
            let failure = Failure::lost("lost", words, worker);
            return self.requeue(step, lease, Outcome::Lost, failure);
        } else {
            step.reason = Reason::TooManyLostLeases;
            let words =
                format!("{LOST_LEASES} workers were lost while they had this job, the last one {worker}");
            Failure::lost("too_many_lost_leases", words, worker)
        };
        let defeat = Unsuccessful { at: self.at, outcome: Outcome::Lost, failure, last: Some(lease) };
        self.end(step, State::Crashed(Box::new(defeat)))
    }

    fn requeue(&self, mut step: Step, lease: Lease, outcome: Outcome, failure: Failure) -> Decision {
        let past = PastAttempt::of(step.status.claim, lease, self.at, outcome, failure.clone());
        step.past = Some(Box::new(past));
        step.status.state = State::Queued(Some(Box::new(failure)));
        Decision::Step(Box::new(step))
    }

    pub fn report(
        &self,
        held: &Leased,
        report: &Report,
        retry: &RetryPolicy,
        dice: Dice,
    ) -> Result<Decision, IllegalTransition> {
        let (mut step, lease) = self.begun(held);
        if let Some(stop) = held.stop.as_ref().filter(|_| held.is_cancelled()) {
            step.reason = Reason::Cancelled;
            let (at, outcome, failure) = (self.at, Outcome::Cancelled, stop.failure.clone());
            let defeat = Unsuccessful { at, outcome, failure, last: Some(lease) };
            return Ok(self.end(step, State::Cancelled(Box::new(defeat))));
        }
        // An outcome from outside overrides the report of the worker that started the work.
        let report = held.early.as_deref().unwrap_or(report);
        if let Some(stop) = held.stop.as_ref().filter(|_| !report.outcome().is_success()) {
            let ending = Ending { lease, outcome: Outcome::TimedOut, failure: &stop.failure };
            return Ok(self.fail(step, ending, None, retry, dice));
        }
        match report {
            Report::Succeeded(value) | Report::Skipped(value) => {
                let success =
                    Success { at: self.at, outcome: report.outcome(), value: value.clone(), last: lease };
                Ok(self.end(step, State::Succeeded(Box::new(success))))
            }
            Report::Failed(failure, verdict)
            | Report::Crashed(failure, verdict)
            | Report::TimedOut(failure, verdict) => {
                let ending = Ending { lease, outcome: report.outcome(), failure };
                Ok(self.fail(step, ending, verdict.as_ref(), retry, dice))
            }
            Report::Cancelled => Err(IllegalTransition::NotRequested),
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
        let left = step.status.tries() < u32::from(retry.max_attempts);
        let (delay_ms, reason) = match when {
            // Even if the worker asks for another attempt or snoozes the job: its work has begun.
            _ if retry.at_most_once => (None, Reason::NotRetried),
            Some(When::Snooze(ms)) if step.status.snoozed < SNOOZES => (Some(ms), Reason::Snoozed),
            Some(When::Never) => (None, Reason::NotRetried),
            _ if !left => (None, Reason::Exhausted),
            Some(When::Now) => (Some(0), Reason::Retried),
            Some(When::In(ms) | When::Snooze(ms)) => (Some(ms), Reason::Retried),
            None if !retry.on.contains(ending.outcome) => (None, Reason::NotRetried),
            None => (Some(retry.backoff.delay_ms(step.status.tries(), dice)), Reason::Retried),
        };
        step.reason = reason;
        let Some(delay_ms) = delay_ms else {
            return self.end(step, ending.into_state(self.at));
        };
        if reason == Reason::Snoozed {
            step.status.snoozed += 1;
        }
        step.status.run_at = self.now.plus_ms(delay_ms);
        step.params = verdict.and_then(|verdict| verdict.params.clone());
        self.requeue(step, ending.lease, ending.outcome, ending.failure.clone())
    }
}

/// An attempt that ended without success.
struct Ending<'a> {
    lease: Lease,
    outcome: Outcome,
    failure: &'a Failure,
}

impl Ending<'_> {
    fn into_state(self, at: Time) -> State {
        let failed = self.outcome == Outcome::Failed;
        let defeat = Box::new(Unsuccessful {
            at,
            outcome: self.outcome,
            failure: self.failure.clone(),
            last: Some(self.lease),
        });
        if failed { State::Failed(defeat) } else { State::Crashed(defeat) }
    }
}
