//! Log events of jobs: submitted, assigned, ended. They are logged once stored, and never with params, keys or leases.
//! If logging is off, an event costs the check of a flag.

use jobhall_core::{AttemptId, Job, JobId, Leased, Step};
use jobhall_kernel::Observer;
use jobhall_store::CommitError;

/// Writes the events of jobs to the log.
pub(crate) struct JobLog;

impl Observer for JobLog {
    fn submitted(&self, job: &Job) {
        let (job_type, queue) = (&job.spec.job_type, &job.spec.queue);
        tracing::info!(job = job.id.get(), r#type = %job_type, %queue, "job submitted");
    }

    fn assigned(&self, attempt: AttemptId, leased: &Leased) {
        let worker = &leased.lease.worker;
        tracing::info!(job = attempt.job.get(), %attempt, %worker, "attempt assigned");
    }

    fn stepped(&self, job: JobId, step: &Step) {
        let state = &step.status.state;
        if let Some(past) = &step.past {
            let attempt = AttemptId { job, claim: past.claim };
            let (worker, outcome) = (&past.worker, past.outcome);
            tracing::info!(job = job.get(), %attempt, %worker, %outcome, "attempt ended");
        }
        let Some(outcome) = state.outcome() else { return };
        let state = state.name();
        match step.status.state.lease() {
            Some(lease) => {
                let attempt = AttemptId { job, claim: step.status.claim };
                let worker = &lease.worker;
                tracing::info!(job = job.get(), %attempt, %worker, %outcome, %state, "job completed");
            }
            None => tracing::info!(job = job.get(), %outcome, %state, "job completed"),
        }
    }

    fn write_failed(&self, error: &CommitError) {
        tracing::warn!(%error, "a write failed");
    }
}
