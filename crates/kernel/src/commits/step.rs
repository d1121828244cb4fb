//! Carrying out a decided step of one job: the unit to be stored, and the consequences once it is stored.

use std::sync::Arc;

use jobhall_core::{
    Decision, Dependency, Event, Job, JobId, JobSpec, JobStatus, NewJob, Reason, StateName, Step, transition,
};
use jobhall_store::{Change, Insert, Unit};

use crate::api::effect::Effect;
use crate::api::ticket::Ticket;
use crate::commits::records::record_writes;
use crate::commits::settle::Pending;
use crate::jobs::entry::Busy;
use crate::kernel::{JobTask, Kernel};
use crate::relations::wait::Suspension;

/// What is done once a step is stored.
#[derive(Debug)]
pub(crate) enum Then {
    Nothing,
    /// Answer a request with the new state of the job.
    Answer(Ticket<StateName>),
    /// Let the worker of a job that runs at most once start, and answer it.
    Start(Ticket<StateName>),
    /// Let the attempt wait for jobs.
    Suspend(Suspension),
    /// Revoke the attempt if it has ended: its worker did not report that.
    Revoke,
}

/// A step in flight to the store.
#[derive(Debug)]
pub(crate) struct StepPending {
    pub step: Step,
    /// The new spec, if it changes.
    pub spec: Option<Arc<JobSpec>>,
    /// The task that caused it; it is decided again if the store reports a conflict.
    pub task: JobTask,
    pub then: Then,
    /// The successor that is released by the end of this job.
    pub released: Option<(JobId, JobStatus)>,
    /// The follow-up that is created by the end of this job.
    pub follow_up: Option<Job>,
}

impl Kernel {
    /// Sends a step of a job that is not busy. It may have to wait for ids or for the job's successor.
    pub(crate) fn send_step(&mut self, task: JobTask, mut step: Step, then: Then) {
        if let Some(progress) = self.jobs.progress(task.id) {
            step.keep_progress(progress);
        }
        let spec = self.replaced(task.id, &step);
        self.send_respecced(task, step, spec, then);
    }

    /// Sends a step together with a new spec.
    pub(crate) fn send_respecced(
        &mut self,
        task: JobTask,
        step: Step,
        spec: Option<Arc<JobSpec>>,
        then: Then,
    ) {
        let id = task.id;
        let released = match self.promote_successor(id, &step) {
            Ok(released) => released,
            Err(busy) => return self.jobs.line_up(busy, task.into()),
        };
        let Ok(follow_up) = self.follow_up(id, &step) else {
            self.ids.wait(task.into());
            return self.ask_for_ids(1);
        };
        let Some(entry) = self.jobs.get(id) else { return };
        let mut changes = vec![Change {
            id,
            expected: entry.stored_rev,
            status: step.status.clone(),
            spec: spec.clone(),
            past: step.past.clone(),
            want_spec: false,
        }];
        if let Some((next, status)) = &released {
            let expected = self.jobs.get(*next).map_or(0, |entry| entry.stored_rev);
            changes.push(change(*next, expected, status.clone()));
        }
        let inserts = follow_up.iter().map(|job| Insert { job: job.clone(), reuse: None }).collect();
        self.make_busy(id, Busy::Unit);
        if let Some((next, _)) = &released {
            self.make_busy(*next, Busy::Unit);
        }
        let records = record_writes(task.records(), None, self.env.wall());
        let pending = StepPending { step, spec, task, then, released, follow_up };
        let over = pending.step.status.state.is_terminal() && self.relations.has_links(id);
        let unlinked = over.then_some(id).into_iter().collect();
        let unit = Unit { changes, inserts, records, unlinked, ..Unit::default() };
        self.send(unit, Pending::Step(Box::new(pending)));
    }

    /// The new spec after a step that changes the params.
    fn replaced(&self, id: JobId, step: &Step) -> Option<Arc<JobSpec>> {
        let params = step.params.clone()?;
        let spec = self.jobs.get(id)?.spec.as_ref()?;
        Some(Arc::new(JobSpec { params, ..(**spec).clone() }))
    }

    /// The successor that this step releases; an error with its id if it is busy.
    fn promote_successor(&self, id: JobId, step: &Step) -> Result<Option<(JobId, JobStatus)>, JobId> {
        if !step.status.state.is_terminal() {
            return Ok(None);
        }
        let Some(next) = self.jobs.successor(id) else { return Ok(None) };
        let Some(entry) = self.jobs.get(next) else { return Ok(None) };
        if entry.busy != Busy::Free {
            return Err(next);
        }
        match transition(&entry.status.get(), &Event::KeyFreed, self.env.wall()) {
            Ok(Decision::Step(step)) => Ok(Some((next, step.status))),
            _ => Ok(None),
        }
    }

    /// The job that `run_again` requested; an error if no id is available yet.
    fn follow_up(&mut self, id: JobId, step: &Step) -> Result<Option<Job>, ()> {
        let Some(again) = &step.follow_up else { return Ok(None) };
        let Some(spec) = self.jobs.get(id).and_then(|entry| entry.spec.clone()) else {
            return Ok(None);
        };
        let id = self.take_ids(1).and_then(|ids| ids.first().copied()).ok_or(())?;
        let now = self.env.wall();
        let (params, schedule) = (again.params.clone(), spec.schedule.clone());
        let spec = NewJob { params, schedule, ..NewJob::like(&spec) }.spec(Vec::new(), spec.retry, now);
        Ok(Some(Job { id, spec: Arc::new(spec), status: JobStatus::queued(now, now) }))
    }

    /// The step is stored.
    pub(crate) fn step_stored(&mut self, pending: StepPending) {
        let StepPending { step, spec, task, then, released, follow_up } = pending;
        let id = task.id;
        self.jobs.totals_mut().stepped(&step);
        self.env.observer().stepped(id, &step);
        if let Some(past) = &step.past {
            self.note_had(id, &past.worker);
        }
        let Step { status, reason, .. } = step;
        let name = status.name(self.env.wall());
        if let Some(spec) = spec {
            self.respec(id, spec);
        }
        let (claim, terminal, held) =
            (status.claim, status.state.is_terminal(), status.state.leased().is_some());
        if terminal {
            // Before its resources are freed: attempts that waited for it resume before other jobs get them.
            self.awaited_ended(id);
        }
        self.stored(id, status);
        if !held && matches!(then, Then::Revoke) {
            self.revoke(id, claim);
        }
        self.tell_holder(id, claim, reason);
        match then {
            Then::Suspend(wait) => self.suspended(id, wait),
            Then::Start(to) => {
                self.accept_stored(id);
                self.answer(to, Ok(name));
            }
            Then::Answer(to) => self.answer(to, Ok(name)),
            Then::Nothing | Then::Revoke => {}
        }
        if !held {
            self.let_go(id);
            self.wait_lost(id, claim);
            self.jobs.forget_progress(id);
            self.await_external(id);
        }
        if terminal {
            self.finish(id);
        } else {
            self.make_free(id);
        }
        if reason == Reason::Suspended && held {
            self.look_at_wait(id);
            self.fill_credit(id);
        }
        if let Some((next, status)) = released {
            self.stored(next, status);
            self.make_free(next);
        }
        if let Some(job) = follow_up {
            self.jobs.totals_mut().submitted(self.env.now());
            self.env.observer().submitted(&job);
            self.admit(job);
        }
    }

    /// Revokes an attempt that ended without a report of its worker.
    fn revoke(&mut self, id: JobId, claim: u32) {
        if let Some(session) = self.fleet.holder(id) {
            self.effect(Effect::Revoke(session, jobhall_core::AttemptId { job: id, claim }));
        }
    }

    /// Offers the slot of an attempt that has begun to wait to other jobs.
    fn fill_credit(&mut self, id: JobId) {
        if let Some(credit) = self.fleet.credit_of_holder(id) {
            self.fill(credit);
        }
    }

    /// Notifies the worker of a step that it did not cause itself.
    pub(crate) fn tell_holder(&mut self, id: JobId, claim: u32, reason: Reason) {
        let Some(session) = self.fleet.holder(id) else { return };
        let attempt = jobhall_core::AttemptId { job: id, claim };
        match reason {
            Reason::CancelRequested => self.effect(Effect::Cancel(session, attempt)),
            Reason::TimeOutRequested => self.stop_for_time(session, attempt),
            Reason::Lost
            | Reason::TooManyLostLeases
            | Reason::LostAtMostOnce
            | Reason::TakenBack
            | Reason::Unaccepted => {
                self.effect(Effect::Revoke(session, attempt));
            }
            _ => {}
        }
    }

    /// The store returned another job that waits for the key of this one.
    pub(crate) fn learn_successor(&mut self, id: JobId, next: Job) {
        self.jobs.set_successor(id, next.id);
        if !self.jobs.contains(next.id) {
            self.admit(next);
        }
    }

    /// The store returned a state of the job that differs from memory.
    pub(crate) fn learn(&mut self, id: JobId, job: Option<Job>) {
        match job {
            Some(job) if !job.status.state.is_terminal() => {
                let Some(entry) = self.jobs.get_mut(id) else { return };
                entry.stored_rev = job.status.rev;
                entry.status.replace(job.status);
                entry.time_is_stored();
                entry.recount(&mut self.board, &mut self.groups, self.env.wall());
                if job.spec.avoid && entry.status.get().past_attempts() > 0 {
                    // Some of its attempts may be unknown here.
                    self.fleet.forget_past(id);
                }
                self.respec(id, job.spec);
                self.follow_limits(id);
            }
            Some(job) => {
                self.stored(id, job.status);
                self.finish(id);
            }
            None => {
                if self.take_out(id).is_some() {
                    self.let_go(id);
                    self.relations.cascade_over(id);
                    self.dependency_ended(id, Some(Dependency::Removed));
                }
            }
        }
    }
}

/// A plain change of a stored job.
pub(crate) fn change(id: JobId, expected: u32, status: JobStatus) -> Change {
    Change { id, expected, status, spec: None, past: None, want_spec: false }
}
