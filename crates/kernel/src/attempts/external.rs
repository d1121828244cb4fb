//! External work: a worker only starts it, and its outcome is reported from outside.

use jobhall_core::{
    Decision, Event, Failure, JobId, JobStatus, PastAttempt, Report, State, StateName, WaitFor, transition,
};

use crate::api::answer::Rejected;
use crate::api::request::AttemptRef;
use crate::api::ticket::Ticket;
use crate::commits::step::Then;
use crate::kernel::{JobTask, Kernel};
use crate::upkeep::Deadline;

impl Kernel {
    /// Handles the report that the work was started; for an open job that is not busy, and by its holder.
    pub(crate) fn started(&mut self, task: JobTask, of: &AttemptRef, to: Ticket<StateName>) {
        let (id, dice) = (task.id, self.env.dice());
        let Some(entry) = self.jobs.get(id) else { return };
        let Some(spec) = entry.spec.clone() else { return };
        let config = self.type_config(&spec.job_type);
        if !config.external {
            return self.answer(to, Err(Rejected::NotExternal(spec.job_type.clone())));
        }
        let until = self.env.wall().plus_ms(spec.timeouts.or(config.timeouts).total());
        let (claim, lease, retry) = (of.attempt.claim, of.lease, &spec.retry);
        let event = Event::StartedExternal { claim, lease, until, retry, dice };
        match transition(&entry.status.get(), &event, self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_step(task, *step, Then::Answer(to)),
            Ok(Decision::Same) => self.answer_state(id, to),
            Err(refusal) => self.answer(to, Err(Rejected::Event(refusal))),
        }
    }

    /// Handles the outcome of an open job, reported from outside.
    pub(crate) fn complete(
        &mut self,
        task: JobTask,
        attempt: Option<u32>,
        report: &Report,
        to: Ticket<StateName>,
    ) {
        if let Err(error) = report.check() {
            return self.answer(to, Err(error.into()));
        }
        let (id, dice) = (task.id, self.env.dice());
        let Some(entry) = self.jobs.get(id) else { return };
        let Some(spec) = &entry.spec else { return };
        if !is_external(&entry.status.get()) && !self.settings.type_config(&spec.job_type).external {
            let refused = Rejected::NotExternal(spec.job_type.clone());
            return self.answer(to, Err(refused));
        }
        let past_attempts = entry.status.get().past_attempts();
        let event = Event::Complete { attempt, report, retry: &spec.retry, dice };
        match transition(&entry.status.get(), &event, self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_step(task, *step, Then::Answer(to)),
            Ok(Decision::Same) => self.answer_state(id, to),
            Err(refusal) if past_attempts == 0 => {
                self.answer(to, Err(Rejected::Event(refusal)));
            }
            // It may repeat the report that ended a previous attempt.
            Err(refusal) => {
                match task.read.as_ref().map(|read| said_before(&read.past, past_attempts, attempt, report)) {
                    Some(true) => self.answer_state(id, to),
                    Some(false) => self.answer(to, Err(Rejected::Event(refusal))),
                    None => self.read_job(id, task),
                }
            }
        }
    }

    /// The same for a completed job: the report that ended it may be repeated.
    pub(crate) fn complete_completed(
        &mut self,
        id: JobId,
        attempt: Option<u32>,
        report: &Report,
    ) -> Result<StateName, Rejected> {
        let dice = self.env.dice();
        let (job, past) = self.jobs.completed(id).ok_or(Rejected::NoSuchJob(id))?;
        let state = job.status.state.name();
        let event = Event::Complete { attempt, report, retry: &job.spec.retry, dice };
        match transition(&job.status, &event, self.env.wall()) {
            Ok(_) => Ok(state),
            Err(_) if attempt.is_some() && said_before(past, job.status.past_attempts(), attempt, report) => {
                Ok(state)
            }
            Err(refusal) => Err(Rejected::Event(refusal)),
        }
    }

    /// The outcome was not reported in time.
    pub(crate) fn external_over(&mut self, claim: u32, task: JobTask) {
        let (id, dice) = (task.id, self.env.dice());
        let Some(entry) = self.jobs.get(id).filter(|entry| entry.status.claim() == claim) else { return };
        let Some(spec) = &entry.spec else { return };
        let failure = Failure::new("timed_out", "no outcome was reported in time");
        let event = Event::TimeOut { failure: &failure, retry: &spec.retry, dice, forced: true };
        if is_external(&entry.status.get())
            && let Ok(Decision::Step(step)) = transition(&entry.status.get(), &event, self.env.wall())
        {
            self.send_step(task, *step, Then::Nothing);
        } else {
            self.await_external(id);
        }
    }

    /// Schedules the check of a job whose outcome is expected from outside.
    pub(crate) fn await_external(&mut self, id: JobId) {
        if let Some(State::Waiting(waiting)) = self.jobs.get(id).map(|entry| entry.status.state())
            && let WaitFor::External { until } = waiting.on
        {
            self.deadlines.set(Deadline::External(until, id));
        }
    }
}

fn is_external(status: &JobStatus) -> bool {
    matches!(status.state, State::Waiting(_)) && status.state.leased().is_none()
}

/// Whether this same outcome ended the named attempt; if none is named, the last one. Only the newest of all ended
/// attempts were read.
fn said_before(past: &[PastAttempt], all: u32, attempt: Option<u32>, report: &Report) -> bool {
    let back = all.checked_sub(attempt.unwrap_or(all));
    let meant = back.and_then(|back| past.iter().rev().nth(back as usize));
    meant.is_some_and(|past| past.ended_by(report))
}
