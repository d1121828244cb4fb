//! The jobs that hold a key which a submit wants, and the caller's scope. A job in a queue outside of the scope is not
//! joined, reused, superseded or marked to run again.

use jobhall_core::{Job, JobId, NewJob};

use super::{ItemAction, Plan};
use crate::api::answer::Rejected;
use crate::kernel::Kernel;

impl Kernel {
    /// Rejects a plan that would change a job outside of the caller's scope. The job that waits for a key may be in
    /// another queue than the holder, and it may have been submitted after the conflict was found.
    pub(super) fn check_targets(&self, plan: &Plan) -> Result<(), Rejected> {
        plan.items.iter().zip(&plan.submit.jobs).try_for_each(|(item, wanted)| match item.how {
            ItemAction::Supersede(holder) | ItemAction::Again(holder) => {
                let mut targets = [Some(holder), self.jobs.successor(holder)].into_iter().flatten();
                targets.try_for_each(|id| self.check_target(wanted, id))
            }
            ItemAction::Insert | ItemAction::Answered(_) | ItemAction::SameAs(_) => Ok(()),
        })
    }

    /// Rejects an open job outside of the caller's scope. A job that has ended is not changed.
    pub(super) fn check_target(&self, wanted: &NewJob, id: JobId) -> Result<(), Rejected> {
        if wanted.scope.is_all() {
            return Ok(());
        }
        let Some(entry) = self.jobs.get(id) else { return Ok(()) };
        let queue = self.board.class(entry.class).map(|class| class.queue.as_str());
        if queue.is_some_and(|queue| wanted.scope.reaches(queue)) { Ok(()) } else { Err(held(wanted, id)) }
    }
}

impl Plan {
    /// Rejects the submit if the conflicting job is outside of the caller's scope.
    pub(super) fn foreign(&self, id: JobId, in_the_way: &Job) -> Option<Rejected> {
        let wanted = &self.submit.jobs[self.items.iter().position(|item| item.id == id)?];
        let seen = wanted.scope.reaches(in_the_way.spec.queue.as_str());
        (!seen).then(|| held(wanted, in_the_way.id))
    }
}

fn held(wanted: &NewJob, holder: JobId) -> Rejected {
    Rejected::KeyHeld { job_type: wanted.job_type.clone(), holder }
}
