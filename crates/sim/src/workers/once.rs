//! Jobs that run at most once: their work starts when the accept was answered.

use jobhall_core::AttemptId;

use super::Step;
use crate::plant::Plant;
use crate::simulation::Sim;

impl Sim {
    /// Accepts a job; the rest of its steps wait for the answer. An attempt that would report without an accept accepts
    /// at once.
    pub(super) fn take_once(&mut self, at: usize, attempt: AttemptId, steps: Vec<(u64, Step)>) {
        let is_accept = |step: &Step| matches!(step, Step::Accept(_));
        let accept = steps.iter().find(|(_, step)| is_accept(step)).map_or(0, |(in_ms, _)| *in_ms);
        let rest = steps.into_iter().filter(|(_, step)| !is_accept(step));
        let rest = rest.map(|(in_ms, step)| (in_ms.saturating_sub(accept), step)).collect();
        if let Some(run) = self.workers[at].runs.get_mut(&attempt) {
            run.unstarted = Some(rest);
        }
        let status = self.workers[at].status;
        self.worker_later(at, status, accept, Step::Accept(attempt));
        if self.plant == Some(Plant::StartedEarly) {
            self.checker.starts_once(attempt);
        }
    }

    /// The accept was answered: the work starts, unless it has started or was cancelled.
    pub(super) fn start_once(&mut self, at: usize, attempt: AttemptId) {
        let Some(run) = self.workers[at].runs.get_mut(&attempt) else { return };
        let Some(steps) = run.unstarted.take() else { return };
        if self.plant != Some(Plant::StartedEarly) {
            self.checker.starts_once(attempt);
        }
        let steps = if self.calm { vec![(1_000, Step::Report(attempt))] } else { steps };
        let status = self.workers[at].status;
        steps.into_iter().for_each(|(in_ms, step)| self.worker_later(at, status, in_ms, step));
    }
}
