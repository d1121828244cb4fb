//! Reports of workers about their attempts, and the consequences of missing reports.

use std::collections::BTreeSet;

use jobhall_core::bounds::INDICATORS;
use jobhall_core::{
    AttemptId, Decision, Event, IllegalTransition, Indicator, JobId, LeaseId, Outcome, PastAttempt, Report,
    State, Step, StopWhy, WorkerName, transition,
};
use jobhall_store::Unit;

use crate::api::answer::{Answer, Rejected};
use crate::api::effect::{Effect, SessionId, Ticket};
use crate::api::request::Request;
use crate::commits::settle::Pending;
use crate::commits::step::change;
use crate::jobs::entry::Busy;
use crate::kernel::{Kernel, Task, TaskKind};

/// A worker's report on one attempt.
struct Word<'a> {
    worker: &'a WorkerName,
    attempt: AttemptId,
    lease: LeaseId,
}

fn word(request: &Request) -> Option<Word<'_>> {
    match request {
        Request::Accept { worker, attempt, lease }
        | Request::Progress { worker, attempt, lease, .. }
        | Request::Call { worker, attempt, lease, .. }
        | Request::Wait { worker, attempt, lease, .. }
        | Request::Started { worker, attempt, lease }
        | Request::Report { worker, attempt, lease, .. } => {
            Some(Word { worker, attempt: *attempt, lease: *lease })
        }
        _ => None,
    }
}

impl Kernel {
    /// Handles accept, progress or outcome for an open job that is not busy.
    pub(crate) fn worker_event(&mut self, id: JobId, task: Task) {
        let TaskKind::Request(request, ticket) = &task.what else { return };
        let (request, ticket) = (request.clone(), *ticket);
        let Some(word) = word(&request) else { return };
        if !self.is_current(word.attempt, word.lease, word.worker) {
            return self.late_report(id, task);
        }
        self.heard(id);
        match &request {
            Request::Call { .. } => return self.call(id, task),
            Request::Wait { .. } => return self.wait(id, task),
            Request::Started { .. } => return self.started(id, task),
            _ => {}
        }
        match self.decide(id, &request) {
            Err(refused) => self.answer(ticket, Err(refused)),
            Ok(Decision::Same) => {
                self.note_progress(id, &request);
                self.answer_state(id, ticket);
            }
            Ok(Decision::Step(step)) if matches!(request, Request::Report { .. }) => {
                self.send_step(id, *step, task);
            }
            Ok(Decision::Step(step)) => {
                self.note_progress(id, &request);
                self.live(id, *step);
                self.answer_state(id, ticket);
            }
        }
    }

    fn decide(&mut self, id: JobId, request: &Request) -> Result<Decision, Rejected> {
        let dice = self.env.dice();
        let Some(entry) = self.jobs.get(id) else { return Err(Rejected::NoSuchJob(id)) };
        let Some(spec) = &entry.spec else { return Err(Rejected::NoSuchJob(id)) };
        let event = match request {
            Request::Accept { attempt, lease, .. } => Event::Accept { claim: attempt.claim, lease: *lease },
            Request::Progress { attempt, lease, indicators, .. } => {
                check_indicators(self.jobs.progress(id), indicators)?;
                Event::Progress { claim: attempt.claim, lease: *lease }
            }
            Request::Report { attempt, lease, report, .. } => {
                report.check()?;
                Event::Report { claim: attempt.claim, lease: *lease, report, retry: &spec.retry, dice }
            }
            _ => return Err(Rejected::NoSuchJob(id)),
        };
        transition(&entry.life, &event, self.env.wall()).map_err(Rejected::Event)
    }

    /// Advances an attempt in memory. Short attempts end before any of it needs to be stored.
    pub(crate) fn live(&mut self, id: JobId, step: Step) {
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.life = step.life;
            let state = entry.life.state.name();
            entry.recount(&mut self.board, &mut self.groups, self.env.wall());
            self.effect(Effect::Live(id, state));
            self.start_clock(id);
            self.check_later(id);
            self.balance(id);
        }
    }

    /// Schedules a check that stores the state of an attempt once it is old enough.
    fn check_later(&mut self, id: JobId) {
        let Some(hold) = self.fleet.hold(id) else { return };
        let at = hold.since.plus_ms(self.env.config().save_ms).max(self.env.mono());
        self.arm(id, at);
    }

    fn note_progress(&mut self, id: JobId, request: &Request) {
        if let Request::Progress { indicators, .. } = request {
            merge(self.jobs.progress_mut(id), indicators);
        }
    }

    pub(crate) fn answer_state(&mut self, id: JobId, ticket: Ticket) {
        let state = self.jobs.get(id).map(|entry| entry.life.name(self.env.wall()));
        self.answer(ticket, state.map(Answer::State).ok_or(Rejected::NoSuchJob(id)));
    }

    /// Handles a report on an attempt that is not current: if it repeats the report that ended it, it gets the same
    /// answer.
    pub(crate) fn late_report(&mut self, id: JobId, task: Task) {
        let TaskKind::Request(request, ticket) = &task.what else { return };
        let Some(Word { worker, attempt, lease }) = word(request) else { return };
        let report = match request {
            Request::Report { report, .. } => Some(report),
            Request::Started { .. } => None,
            _ => return self.answer(*ticket, Err(Rejected::LeaseLost(attempt))),
        };
        let lately = self.jobs.get(id).map(|entry| &entry.life);
        if let Some(life) =
            lately.filter(|_| report.is_none() && self.started_before(id, worker, attempt, lease))
        {
            let state = life.name(self.env.wall());
            return self.answer(*ticket, Ok(Answer::State(state)));
        }
        if let Some((job, _)) = self.jobs.peek_completed(id)
            && self.repeats_end(job, worker, attempt, lease, report)
        {
            let state = job.life.state.name();
            return self.answer(*ticket, Ok(Answer::State(state)));
        }
        let cached_past = self.jobs.peek_completed(id).map(|(_, past)| past.clone());
        let Some(past) = cached_past.or_else(|| task.read.as_ref().map(|read| read.past.clone())) else {
            return self.read_job(id, task);
        };
        let known = past.iter().any(|past| repeats_past(past, worker, attempt, lease, report));
        let (ticket, state) = (*ticket, self.state_of(id));
        match state.filter(|_| known) {
            Some(state) => self.answer(ticket, Ok(Answer::State(state))),
            None => self.answer(ticket, Err(Rejected::LeaseLost(attempt))),
        }
    }

    fn state_of(&self, id: JobId) -> Option<jobhall_core::StateName> {
        let now = self.env.wall();
        let open = self.jobs.get(id).map(|entry| entry.life.name(now));
        open.or_else(|| self.jobs.peek_completed(id).map(|(job, _)| job.life.name(now)))
    }

    fn repeats_end(
        &self,
        job: &jobhall_core::Job,
        worker: &WorkerName,
        attempt: AttemptId,
        lease: LeaseId,
        report: Option<&Report>,
    ) -> bool {
        let (claim, retry, dice) = (attempt.claim, &job.spec.retry, jobhall_core::Dice(0));
        let event = match report {
            Some(report) => Event::Report { claim, lease, report, retry, dice },
            None => Event::StartedExternal { claim, lease, until: self.env.wall(), retry, dice },
        };
        let same_worker = job.life.state.lease().is_some_and(|lease| lease.worker == *worker);
        same_worker && transition(&job.life, &event, self.env.wall()) == Ok(Decision::Same)
    }

    /// Whether this worker has already reported that its work continues outside.
    fn started_before(&self, id: JobId, worker: &WorkerName, attempt: AttemptId, lease: LeaseId) -> bool {
        let Some(life) = self.jobs.get(id).map(|entry| &entry.life) else { return false };
        life.claim == attempt.claim
            && matches!(life.state, State::Waiting(_))
            && life.state.lease().is_some_and(|current| current.id == lease && current.worker == *worker)
    }

    /// Takes back a claim that was not accepted in time.
    pub(crate) fn take_back(&mut self, id: JobId, claim: u32, task: Task) {
        self.hall_event(id, claim, &Event::TakeBack, task);
    }

    /// Ends a claim whose session has ended.
    pub(crate) fn lease_end(&mut self, id: JobId, claim: u32, session: SessionId, task: Task) {
        // The worker may have reconnected meanwhile and moved the attempt to a new session.
        if self.fleet.hold(id).is_none_or(|hold| hold.session == session) {
            self.hall_event(id, claim, &Event::LeaseEnd, task);
        }
    }

    /// A worker that reconnects with an attempt has accepted it, whether or not its report had arrived. It may have
    /// been disconnected when a cancel was sent.
    pub(crate) fn keep(&mut self, attempt: AttemptId, lease: LeaseId) {
        let Some(entry) = self.jobs.get(attempt.job) else { return };
        let event = Event::Accept { claim: attempt.claim, lease };
        let stop = entry.life.state.held().and_then(|held| held.stop.as_ref()).map(|stop| stop.why);
        if let Ok(Decision::Step(step)) = transition(&entry.life, &event, self.env.wall()) {
            self.live(attempt.job, *step);
        }
        let Some(session) = self.fleet.holder(attempt.job) else { return };
        match stop {
            Some(StopWhy::Cancel) => self.effect(Effect::Cancel(session, attempt)),
            Some(StopWhy::TimeOut) => self.effect(Effect::TimeOut(session, attempt)),
            None => {}
        }
    }

    fn hall_event(&mut self, id: JobId, claim: u32, event: &Event<'_>, task: Task) {
        let dice = self.env.dice();
        let Some(entry) = self.jobs.get(id).filter(|entry| entry.life.claim == claim) else { return };
        // An outcome reported from outside counts, regardless of the worker that started the work.
        let (life, until) = (&entry.life, self.env.wall());
        let told = life.state.held().filter(|held| held.early.is_some() && !held.is_cancelled());
        let event = match (told, &entry.spec) {
            (Some(held), Some(spec)) if !matches!(life.state, State::Waiting(_)) => {
                let (lease, retry) = (held.lease.id, &spec.retry);
                &Event::StartedExternal { claim, lease, until, retry, dice }
            }
            _ => event,
        };
        match transition(&entry.life, event, self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_step(id, *step, task),
            Ok(Decision::Same) | Err(IllegalTransition::Illegal { .. }) => {}
            Err(_) => {}
        }
    }

    /// Stores that an attempt is accepted or running, once it is old enough to be worth a write.
    pub(crate) fn save(&mut self, id: JobId, claim: u32) {
        let Some(entry) = self.jobs.get(id) else { return };
        let current = entry.life.claim == claim && entry.life.state.held().is_some();
        if !current || entry.life.rev == entry.stored_rev {
            return;
        }
        let unit =
            Unit { changes: vec![change(id, entry.stored_rev, entry.life.clone())], ..Unit::default() };
        self.make_busy(id, Busy::Unit);
        self.send(unit, Pending::Save(id, claim));
    }

    pub(crate) fn saved(&mut self, id: JobId) {
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.stored_rev = entry.life.rev;
        }
        self.make_free(id);
    }
}

/// Checks the number of indicators of an attempt, which is limited.
fn check_indicators(known: Option<&Vec<Indicator>>, news: &[Indicator]) -> Result<(), Rejected> {
    let names = known.into_iter().flatten().chain(news).map(|indicator| &indicator.name);
    let given = names.collect::<BTreeSet<_>>().len();
    let (given, most) = (given as u64, INDICATORS as u64);
    if given > most { Err(Rejected::Bound { field: "indicators", given, least: 0, most }) } else { Ok(()) }
}

/// Merges indicators by name; a newer one replaces the older.
fn merge(known: &mut Vec<Indicator>, news: &[Indicator]) {
    for indicator in news {
        match known.iter_mut().find(|old| old.name == indicator.name) {
            Some(old) => *old = indicator.clone(),
            None => known.push(indicator.clone()),
        }
    }
}

fn repeats_past(
    past: &PastAttempt,
    worker: &WorkerName,
    attempt: AttemptId,
    lease: LeaseId,
    report: Option<&Report>,
) -> bool {
    let own = past.claim == attempt.claim && past.lease == lease && past.worker == *worker;
    // A worker that only started the work reported no more than that; one that was timed out may have reported
    // anything.
    let same = report.is_none_or(|report| {
        let timed_out = past.outcome == Outcome::TimedOut && !report.outcome().is_success();
        timed_out || (past.outcome == report.outcome() && report.failure() == Some(&past.failure))
    });
    own && past.outcome != Outcome::Lost && same
}
