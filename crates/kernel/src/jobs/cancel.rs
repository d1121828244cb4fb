//! Cancelling a job on request.

use jobhall_core::{Decision, Event, Failure, JobId, transition};

use crate::api::answer::{Answer, Rejected};
use crate::api::request::Request;
use crate::kernel::{Kernel, Task, TaskKind};

impl Kernel {
    pub(crate) fn cancel(&mut self, id: JobId, task: Task) {
        let TaskKind::Request(Request::Cancel { failure, .. }, ticket) = &task.what else { return };
        let Some(entry) = self.jobs.get(id) else { return };
        match transition(&entry.life, &Event::Cancel(failure), self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_step(id, *step, task),
            Ok(Decision::Same) => {
                let (ticket, state) = (*ticket, entry.life.name(self.env.wall()));
                self.answer(ticket, Ok(Answer::State(state)));
            }
            Err(refusal) => {
                let ticket = *ticket;
                self.answer(ticket, Err(Rejected::Event(refusal)));
            }
        }
    }

    /// A cancel of a completed job: a cancelled job stays so, any other is a conflict.
    pub(crate) fn cancel_completed(&mut self, id: JobId, failure: &Failure) -> Result<Answer, Rejected> {
        let (job, _) = self.jobs.completed(id).ok_or(Rejected::NoSuchJob(id))?;
        let decision = transition(&job.life, &Event::Cancel(failure), self.env.wall());
        decision.map(|_| Answer::State(job.life.state.name())).map_err(Rejected::Event)
    }
}
