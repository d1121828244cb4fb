//! Manual retry: completed jobs never change, so it submits a new job like the old one.

use jobhall_core::{IllegalTransition, JobId, JobSpec, NewJob, OnDuplicate};

use crate::api::answer::{Answer, Rejected};
use crate::api::effect::Ticket;
use crate::api::request::{IdempotencyKey, Submit};
use crate::kernel::Kernel;

impl Kernel {
    pub(crate) fn retry(&mut self, id: JobId, name: Option<IdempotencyKey>, ticket: Ticket) {
        let Some((job, _)) = self.jobs.completed(id) else {
            return self.answer(ticket, Err(Rejected::NoSuchJob(id)));
        };
        let again = again(id, &job.spec);
        self.submit(Submit { jobs: vec![again], name }, ticket);
    }

    /// An open job cannot be retried manually.
    pub(crate) fn retry_rejected(&self, id: JobId) -> Result<Answer, Rejected> {
        let entry = self.jobs.get(id).ok_or(Rejected::NoSuchJob(id))?;
        let state = entry.life.name(self.env.wall());
        Err(Rejected::Event(IllegalTransition::NotCompleted { state }))
    }
}

/// A new job that repeats this completed one, without group and dependencies.
pub(crate) fn again(id: JobId, spec: &JobSpec) -> NewJob {
    NewJob { on_duplicate: OnDuplicate::Reject, retry_of: Some(id), ..NewJob::like(spec) }
}
