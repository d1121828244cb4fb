//! External work: a worker only starts it, and its outcome is reported from outside.

use jobhall_core::{
    Decision, Event, Failure, JobId, JobStatus, Outcome, PastAttempt, Report, State, WaitFor, transition,
};

use crate::api::answer::{Answer, Rejected};
use crate::api::request::Request;
use crate::kernel::{Kernel, Task, TaskKind};
use crate::upkeep::Deadline;

impl Kernel {
    /// Handles the report that the work was started; for an open job that is not busy, and by its holder.
    pub(crate) fn started(&mut self, id: JobId, task: Task) {
        let TaskKind::Request(Request::Started { attempt, lease, .. }, ticket) = &task.what else { return };
        let (attempt, lease, ticket) = (*attempt, *lease, *ticket);
        let dice = self.env.dice();
        let Some(entry) = self.jobs.get(id) else { return };
        let Some(spec) = entry.spec.clone() else { return };
        let config = self.type_config(&spec.job_type);
        if !config.external {
            return self.answer(ticket, Err(Rejected::NotExternal(spec.job_type.clone())));
        }
        let until = self.env.wall().plus_ms(spec.timeouts.or(config.timeouts).total());
        let (claim, retry) = (attempt.claim, &spec.retry);
        let event = Event::StartedExternal { claim, lease, until, retry, dice };
        match transition(&entry.life, &event, self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_step(id, *step, task),
            Ok(Decision::Same) => self.answer_state(id, ticket),
            Err(refusal) => self.answer(ticket, Err(Rejected::Event(refusal))),
        }
    }

    /// Handles the outcome of an open job, reported from outside.
    pub(crate) fn complete(&mut self, id: JobId, task: Task) {
        let TaskKind::Request(Request::Complete { attempt, report, .. }, ticket) = &task.what else {
            return;
        };
        let (attempt, report, ticket) = (*attempt, report.clone(), *ticket);
        if let Err(error) = report.check() {
            return self.answer(ticket, Err(error.into()));
        }
        let dice = self.env.dice();
        let Some(entry) = self.jobs.get(id) else { return };
        let Some(spec) = &entry.spec else { return };
        if !is_external(&entry.life) && !self.type_config(&spec.job_type).external {
            let refused = Rejected::NotExternal(spec.job_type.clone());
            return self.answer(ticket, Err(refused));
        }
        let event = Event::Complete { attempt, report: &report, retry: &spec.retry, dice };
        match transition(&entry.life, &event, self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_step(id, *step, task),
            Ok(Decision::Same) => self.answer_state(id, ticket),
            Err(refusal) if entry.life.past_attempts() == 0 => {
                self.answer(ticket, Err(Rejected::Event(refusal)));
            }
            // It may repeat the report that ended a previous attempt.
            Err(refusal) => match task.read.as_ref().map(|read| said_before(&read.past, attempt, &report)) {
                Some(true) => self.answer_state(id, ticket),
                Some(false) => self.answer(ticket, Err(Rejected::Event(refusal))),
                None => self.read_job(id, task),
            },
        }
    }

    /// The same for a completed job: the report that ended it may be repeated.
    pub(crate) fn finish_completed(
        &mut self,
        id: JobId,
        attempt: Option<u32>,
        report: &Report,
    ) -> Result<Answer, Rejected> {
        let dice = self.env.dice();
        let (job, past) = self.jobs.completed(id).ok_or(Rejected::NoSuchJob(id))?;
        let state = job.life.state.name();
        let event = Event::Complete { attempt, report, retry: &job.spec.retry, dice };
        match transition(&job.life, &event, self.env.wall()) {
            Ok(_) => Ok(Answer::State(state)),
            Err(_) if attempt.is_some() && said_before(past, attempt, report) => Ok(Answer::State(state)),
            Err(refusal) => Err(Rejected::Event(refusal)),
        }
    }

    /// The outcome was not reported in time.
    pub(crate) fn external_over(&mut self, id: JobId, claim: u32, task: Task) {
        let dice = self.env.dice();
        let Some(entry) = self.jobs.get(id).filter(|entry| entry.life.claim == claim) else { return };
        let Some(spec) = &entry.spec else { return };
        let failure = Failure::new("timed_out", "no outcome was reported in time");
        let event = Event::TimeOut { failure: &failure, retry: &spec.retry, dice, forced: true };
        if is_external(&entry.life)
            && let Ok(Decision::Step(step)) = transition(&entry.life, &event, self.env.wall())
        {
            self.send_step(id, *step, task);
        } else {
            self.await_external(id);
        }
    }

    /// Schedules the check of a job whose outcome is expected from outside.
    pub(crate) fn await_external(&mut self, id: JobId) {
        if let Some(State::Waiting(waiting)) = self.jobs.get(id).map(|entry| &entry.life.state)
            && let WaitFor::External { until } = waiting.on
        {
            self.deadlines.set(Deadline::External(until, id));
        }
    }
}

fn is_external(life: &JobStatus) -> bool {
    matches!(life.state, State::Waiting(_)) && life.state.held().is_none()
}

/// Whether this same outcome ended the named attempt; if none is named, the last one.
fn said_before(past: &[PastAttempt], attempt: Option<u32>, report: &Report) -> bool {
    let meant = match attempt {
        Some(attempt) => attempt.checked_sub(1).and_then(|at| past.get(at as usize)),
        None => past.last(),
    };
    let same =
        |past: &PastAttempt| past.outcome == report.outcome() && report.failure() == Some(&past.failure);
    meant.is_some_and(|past| past.outcome != Outcome::Lost && same(past))
}
