//! Cancelling a job on request.

use jobhall_core::{Decision, Event, Failure, StateName, transition};

use crate::api::answer::Rejected;
use crate::api::ticket::Ticket;
use crate::commits::step::Then;
use crate::kernel::{JobTask, Kernel};

impl Kernel {
    pub(crate) fn cancel(&mut self, task: JobTask, failure: &Failure, to: Ticket<StateName>) {
        let Some(entry) = self.jobs.get(task.id) else { return };
        match transition(&entry.status.get(), &Event::Cancel(failure), self.env.wall()) {
            Ok(Decision::Step(step)) => self.send_step(task, *step, Then::Answer(to)),
            Ok(Decision::Same) => {
                let state = entry.status.get().name(self.env.wall());
                self.answer(to, Ok(state));
            }
            Err(refusal) => self.answer(to, Err(Rejected::Event(refusal))),
        }
    }
}
