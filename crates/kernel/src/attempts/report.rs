//! Reports of workers about their attempts, and the consequences of missing reports.

use std::collections::BTreeSet;

use jobhall_core::bounds::INDICATORS;
use jobhall_core::{
    AttemptId, Decision, Event, Indicator, JobId, Lease, LeaseId, Outcome, PastAttempt, Report, State,
    StateName, Step, StopWhy, transition,
};
use jobhall_store::Unit;

use crate::api::answer::Rejected;
use crate::api::effect::{Effect, SessionId};
use crate::api::request::{AttemptRef, AttemptRequest};
use crate::api::ticket::Ticket;
use crate::commits::records::check_records;
use crate::commits::settle::Pending;
use crate::commits::step::{Then, change};
use crate::jobs::entry::{Busy, Entry};
use crate::kernel::{JobTask, Kernel};

impl Entry {
    /// Whether it is assigned, not accepted, and runs at most once.
    fn awaits_its_only_accept(&self) -> bool {
        let at_most_once = self.spec.as_ref().is_some_and(|spec| spec.retry.at_most_once);
        at_most_once && matches!(self.status.state(), State::Assigned(_))
    }
}

impl Kernel {
    /// Handles a request of a worker about an open job that is not busy.
    pub(crate) fn worker_event(&mut self, task: JobTask, of: &AttemptRef, request: AttemptRequest) {
        let id = task.id;
        if !self.is_current(of.attempt, of.lease, &of.worker) {
            return self.late_report(task, of, &request);
        }
        self.heard(id);
        match request {
            AttemptRequest::Call { jobs, by, to } => self.call(task, of.attempt, jobs, by, to),
            AttemptRequest::Wait { jobs, wait_ms, to } => {
                self.wait(task, of, jobs.as_deref(), wait_ms, to);
            }
            AttemptRequest::CheckSubJob { job, to } => self.check_sub_job(id, job, to),
            AttemptRequest::Started { to } => self.started(task, of, to),
            AttemptRequest::Accept { to } => {
                let event = Event::Accept { claim: of.attempt.claim, lease: of.lease };
                self.advance(task, &event, &[], to);
            }
            AttemptRequest::Progress { indicators, to } => {
                let event = Event::Progress { claim: of.attempt.claim, lease: of.lease };
                match check_indicators(self.jobs.progress(id), &indicators) {
                    Ok(()) => self.advance(task, &event, &indicators, to),
                    Err(refused) => self.answer(to, Err(refused)),
                }
            }
            AttemptRequest::Report { report, records, to } => {
                match check_records(&records, false).and_then(|()| self.decide_report(of, &report)) {
                    Err(refused) => self.answer(to, Err(refused)),
                    Ok(Decision::Same) => self.answer_state(id, to),
                    Ok(Decision::Step(step)) => self.send_step(task, *step, Then::Answer(to)),
                }
            }
        }
    }

    fn decide_report(&mut self, of: &AttemptRef, report: &Report) -> Result<Decision, Rejected> {
        let (dice, id) = (self.env.dice(), of.job());
        let entry = self.jobs.get(id).ok_or(Rejected::NoSuchJob(id))?;
        let spec = entry.spec.as_ref().ok_or(Rejected::NoSuchJob(id))?;
        report.check()?;
        let (claim, lease) = (of.attempt.claim, of.lease);
        let event = Event::Report { claim, lease, report, retry: &spec.retry, dice };
        transition(&entry.status.get(), &event, self.env.wall()).map_err(Rejected::Event)
    }

    /// Advances an attempt whose worker has accepted it or reports progress: in memory, except for the accept of a job
    /// that runs at most once. That is stored before it is answered: the worker starts the work after the answer, so a
    /// job whose work may have begun is known as accepted, whatever is lost.
    fn advance(&mut self, task: JobTask, event: &Event<'_>, news: &[Indicator], to: Ticket<StateName>) {
        let id = task.id;
        let Some(entry) = self.jobs.get(id) else { return self.answer(to, Err(Rejected::NoSuchJob(id))) };
        let stored_first = entry.awaits_its_only_accept();
        let decision = transition(&entry.status.get(), event, self.env.wall());
        if decision.is_ok() && !news.is_empty() {
            merge(self.jobs.progress_mut(id), news);
            self.effect(Effect::Progress(id));
        }
        match decision {
            Ok(Decision::Step(step)) if stored_first => self.send_step(task, *step, Then::Start(to)),
            Ok(Decision::Step(step)) => {
                self.live(id, *step);
                self.answer_state(id, to);
            }
            Ok(Decision::Same) => self.answer_state(id, to),
            Err(refusal) => self.answer(to, Err(Rejected::Event(refusal))),
        }
    }

    /// The accept of a job that runs at most once is stored: the worker may start.
    pub(crate) fn accept_stored(&mut self, id: JobId) {
        self.start_clock(id);
        self.check_later(id);
    }

    /// Advances an attempt in memory. Short attempts end before any of it needs to be stored.
    pub(crate) fn live(&mut self, id: JobId, step: Step) {
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.status.replace(step.status);
            let state = entry.status.state().name();
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

    pub(crate) fn answer_state(&mut self, id: JobId, to: Ticket<StateName>) {
        let state = self.jobs.get(id).map(|entry| entry.status.get().name(self.env.wall()));
        self.answer(to, state.ok_or(Rejected::NoSuchJob(id)));
    }

    /// Handles a request about an attempt that is not current: a report that repeats the one that ended it gets the
    /// same answer.
    pub(crate) fn late_report(&mut self, task: JobTask, of: &AttemptRef, request: &AttemptRequest) {
        let id = task.id;
        let (report, to) = match request {
            AttemptRequest::Report { report, to, .. } => (Some(report), *to),
            AttemptRequest::Started { to } => (None, *to),
            other => return self.effect(Effect::Answer(other.rejected(Rejected::LeaseLost(of.attempt)))),
        };
        if let Some(state) = self.state_of(id).filter(|_| self.repeats_last(id, of, report)) {
            return self.answer(to, Ok(state));
        }
        let cached_past = self.jobs.peek_completed(id).map(|(_, past)| past.clone());
        let Some(past) = cached_past.or_else(|| task.read.as_ref().map(|read| read.past.clone())) else {
            return self.read_job(id, task);
        };
        let known = past.iter().any(|past| repeats_past(past, of, report));
        let state = self.state_of(id).filter(|_| known);
        self.answer(to, state.ok_or(Rejected::LeaseLost(of.attempt)));
    }

    /// Whether the last report on the job was this one.
    fn repeats_last(&self, id: JobId, of: &AttemptRef, report: Option<&Report>) -> bool {
        let started = report.is_none() && self.started_before(id, of);
        started || self.jobs.peek_completed(id).is_some_and(|(job, _)| self.repeats_end(job, of, report))
    }

    fn state_of(&self, id: JobId) -> Option<StateName> {
        let now = self.env.wall();
        let open = self.jobs.get(id).map(|entry| entry.status.get().name(now));
        open.or_else(|| self.jobs.peek_completed(id).map(|(job, _)| job.status.name(now)))
    }

    fn repeats_end(&self, job: &jobhall_core::Job, of: &AttemptRef, report: Option<&Report>) -> bool {
        let (claim, lease, retry, dice) =
            (of.attempt.claim, of.lease, &job.spec.retry, jobhall_core::Dice(0));
        let event = match report {
            Some(report) => Event::Report { claim, lease, report, retry, dice },
            None => Event::StartedExternal { claim, lease, until: self.env.wall(), retry, dice },
        };
        let same_worker = job.status.state.lease().is_some_and(|lease| lease.worker == of.worker);
        same_worker && transition(&job.status, &event, self.env.wall()) == Ok(Decision::Same)
    }

    /// Whether this worker has already reported that its work continues outside.
    fn started_before(&self, id: JobId, of: &AttemptRef) -> bool {
        let Some(status) = self.jobs.get(id).map(|entry| entry.status.get()) else { return false };
        let same = |lease: &Lease| lease.id == of.lease && lease.worker == of.worker;
        status.claim == of.attempt.claim
            && matches!(status.state, State::Waiting(_))
            && status.state.lease().is_some_and(same)
    }

    /// Takes back a claim that was not accepted in time.
    pub(crate) fn take_back(&mut self, claim: u32, task: JobTask) {
        self.hall_event(claim, &Event::TakeBack, task);
    }

    /// Ends a claim whose session has ended.
    pub(crate) fn lease_end(&mut self, claim: u32, session: SessionId, task: JobTask) {
        let Some(spec) = self.jobs.get(task.id).and_then(|entry| entry.spec.clone()) else { return };
        // The worker may have reconnected meanwhile and moved the attempt to a new session.
        if self.fleet.hold(task.id).is_none_or(|hold| hold.session == session) {
            self.hall_event(claim, &Event::LeaseEnd { retry: &spec.retry }, task);
        }
    }

    /// A worker that reconnects with an attempt has accepted it, whether or not its report had arrived. It may have
    /// been disconnected when a cancel was sent.
    pub(crate) fn keep(&mut self, id: JobId, claim: u32, lease: LeaseId) {
        let Some(entry) = self.jobs.get(id) else { return };
        let event = Event::Accept { claim, lease };
        let stop = entry.status.state().leased().and_then(|held| held.stop.as_ref()).map(|stop| stop.why);
        if entry.awaits_its_only_accept() {
            // Its worker has not started, and repeats an accept that was not answered: it has the full time for that.
            let now = self.env.mono();
            if let Some(hold) = self.fleet.hold_mut(id) {
                hold.since = now;
            }
            self.check_later(id);
        } else if let Ok(Decision::Step(step)) = transition(&entry.status.get(), &event, self.env.wall()) {
            self.live(id, *step);
        }
        let Some(session) = self.fleet.holder(id) else { return };
        let attempt = AttemptId { job: id, claim };
        match stop {
            Some(StopWhy::Cancel) => self.effect(Effect::Cancel(session, attempt)),
            Some(StopWhy::TimeOut) => self.effect(Effect::TimeOut(session, attempt)),
            None => {}
        }
    }

    fn hall_event(&mut self, claim: u32, event: &Event<'_>, task: JobTask) {
        let dice = self.env.dice();
        let Some(entry) = self.jobs.get(task.id).filter(|entry| entry.status.claim() == claim) else {
            return;
        };
        // An outcome reported from outside counts, regardless of the worker that started the work.
        let (status, until) = (entry.status.get(), self.env.wall());
        let told = status.state.leased().filter(|held| held.early.is_some() && !held.is_cancelled());
        let event = match (told, &entry.spec) {
            (Some(held), Some(spec)) if !matches!(status.state, State::Waiting(_)) => {
                let (lease, retry) = (held.lease.id, &spec.retry);
                &Event::StartedExternal { claim, lease, until, retry, dice }
            }
            _ => event,
        };
        match transition(&entry.status.get(), event, self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_step(task, *step, Then::Nothing),
            Ok(Decision::Same) | Err(_) => {}
        }
    }

    /// Stores that an attempt is accepted or running, once it is old enough to be worth a write.
    pub(crate) fn save(&mut self, id: JobId, claim: u32) {
        let Some(entry) = self.jobs.get(id) else { return };
        let current = entry.status.claim() == claim && entry.status.state().leased().is_some();
        if !current || entry.status.get().rev == entry.stored_rev {
            return;
        }
        let unit = Unit {
            changes: vec![change(id, entry.stored_rev, entry.status.get().into_owned())],
            ..Unit::default()
        };
        self.make_busy(id, Busy::Unit);
        self.send(unit, Pending::Save(id, claim));
    }

    pub(crate) fn saved(&mut self, id: JobId) {
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.stored_rev = entry.status.get().rev;
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

fn repeats_past(past: &PastAttempt, of: &AttemptRef, report: Option<&Report>) -> bool {
    let own = past.claim == of.attempt.claim && past.lease == of.lease && past.worker == of.worker;
    // A worker that only started the work reported no more than that; one that was timed out may have reported
    // anything but a success.
    let late = |report: &Report| past.outcome == Outcome::TimedOut && !report.outcome().is_success();
    let same = report.is_none_or(|report| late(report) || past.ended_by(report));
    own && past.outcome != Outcome::Lost && same
}
