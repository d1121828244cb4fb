//! Manual retry: completed jobs never change, so it submits a new job like the old one.

use jobhall_core::{After, IllegalTransition, JobId, JobSpec, NewJob, OnDuplicate, Submitted};

use crate::api::answer::Rejected;
use crate::api::request::{IdempotencyKey, Submit};
use crate::api::ticket::Ticket;
use crate::kernel::Kernel;

impl Kernel {
    pub(crate) fn retry(&mut self, id: JobId, name: Option<IdempotencyKey>, ticket: Ticket<Vec<Submitted>>) {
        let Some((job, _)) = self.jobs.completed(id) else {
            return self.answer(ticket, Err(Rejected::NoSuchJob(id)));
        };
        let (again, job_type) = (again(id, &job.spec), job.spec.job_type.clone());
        if let Err(refused) = self.settings.check_retry(&job_type) {
            return self.answer(ticket, Err(refused));
        }
        let by = self.settings.application_of(&job_type);
        self.submit(Submit { jobs: vec![again], name, by, ..Submit::default() }, ticket);
    }

    /// An open job cannot be retried manually.
    pub(crate) fn retry_rejected(&self, id: JobId) -> Rejected {
        let Some(entry) = self.jobs.get(id) else { return Rejected::NoSuchJob(id) };
        let state = entry.status.get().name(self.env.wall());
        Rejected::Event(IllegalTransition::NotCompleted { state })
    }
}

/// A new job that repeats this completed one, without its group. Its dependencies are the inputs of the new job too, as
/// far as they still can be.
pub(crate) fn again(id: JobId, spec: &JobSpec) -> NewJob {
    let after = spec.after.iter().map(|before| After::Job(*before)).collect();
    let (after_any, retry_of) = (spec.after_any, Some(id));
    NewJob { after, after_any, on_duplicate: OnDuplicate::Reject, retry_of, ..NewJob::like(spec) }
}
