//! External work: a worker only starts it, and another party reports the outcome, in any order.

use jobhall_core::AttemptId;
use jobhall_kernel::{Answer, Assignment, Rejected, Request};

use super::Step;
use crate::simulation::Sim;
use crate::simulation::event::Event;

/// The worker's part of such work: it reports the start instead of the end, and submits no sub-jobs.
pub(super) fn step(step: Step, external: bool) -> Option<Step> {
    match step {
        Step::Report(attempt) | Step::Wait(attempt) if external => Some(Step::Started(attempt)),
        Step::Call(..) if external => None,
        step => Some(step),
    }
}

impl Sim {
    /// The outcome is reported externally, before or after the worker reports the start; or two parties report it
    /// differently, or none does.
    pub(super) fn complete_external(&mut self, assignment: &Assignment) {
        let Assignment { attempt, number, .. } = *assignment;
        let id = attempt.job;
        let mut roll = self.roll(&[34, id.get(), u64::from(attempt.claim)]);
        for _ in 0..roll.weighted(&[(15, 0), (65, 1), (20, 2)]) {
            let report = crate::workers::manner::completed_external(id, roll.below(5));
            let attempt = roll.percent(60).then_some(number);
            let request = Request::Complete { id, attempt, report };
            self.queue.at(self.ms + roll.below(9_000), Event::External(Box::new(request)));
        }
    }

    /// An attempt that started external work is no longer the worker's; otherwise the worker ends it itself.
    pub(super) fn started_answered(
        &mut self,
        at: usize,
        attempt: AttemptId,
        answer: &Result<Answer, Rejected>,
    ) {
        match answer {
            Ok(_) | Err(Rejected::LeaseLost(_) | Rejected::NoSuchJob(_)) => {
                self.workers[at].runs.remove(&attempt);
                self.credit(at);
            }
            Err(Rejected::Event(_) | Rejected::NotExternal(_)) => {
                let status = self.workers[at].status;
                self.worker_later(at, status, 10, Step::Report(attempt));
            }
            Err(_) => {}
        }
    }
}
