//! Manual retry: completed jobs never change, so it submits a new job like the old one.

use jobhall_core::{IllegalTransition, JobId, JobSpec, Scope};

use crate::api::answer::{Answer, Rejected};
use crate::api::effect::Ticket;
use crate::api::request::{IdempotencyKey, OnDuplicate, Submit, SubmitJob};
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

/// A job like this completed one, without group and dependencies.
pub(crate) fn again(id: JobId, spec: &JobSpec) -> SubmitJob {
    SubmitJob {
        job_type: spec.job_type.clone(),
        key: spec.key.clone(),
        queue: spec.queue.clone(),
        params: spec.params.clone(),
        needs: spec.needs.clone(),
        uses: spec.uses.clone(),
        avoid: spec.avoid,
        windows: spec.windows.clone(),
        throttle_factor: spec.throttle_factor,
        timeouts: spec.timeouts,
        after: Vec::new(),
        after_any: false,
        group: None,
        attached: false,
        copy_of: None,
        owner: spec.owner.clone(),
        tags: spec.tags.to_vec(),
        priority: spec.priority,
        run_at: None,
        retry: Some(spec.retry),
        on_duplicate: OnDuplicate::Reject,
        reuse_max_age_ms: None,
        scope: Scope::default(),
        retry_of: Some(id),
        schedule: None,
    }
}
