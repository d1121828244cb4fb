//! Log events of jobs: submitted, assigned, ended. They are logged once stored, and never with params, keys or leases.
//! If logging is off, an event costs the check of a flag.

use jobhall_core::{AttemptId, Job, JobId, Leased, Step};
use jobhall_store::CommitError;

pub(crate) fn submitted(job: &Job) {
    let (job_type, queue) = (&job.spec.job_type, &job.spec.queue);
    tracing::info!(job = job.id.get(), r#type = %job_type, %queue, "job submitted");
}

pub(crate) fn assigned(attempt: AttemptId, held: &Leased) {
    let worker = &held.lease.worker;
    tracing::info!(job = attempt.job.get(), %attempt, %worker, "attempt assigned");
}

/// A write failed; the requests that waited for it are rejected.
pub(crate) fn not_stored(error: &CommitError) {
    tracing::warn!(%error, "a write failed");
}

/// The end of an attempt, of a job, or of both.
pub(crate) fn stepped(id: JobId, step: &Step) {
    let state = &step.life.state;
    if let Some(past) = &step.past {
        let attempt = AttemptId { job: id, claim: past.claim };
        let (worker, outcome) = (&past.worker, past.outcome);
        tracing::info!(job = id.get(), %attempt, %worker, %outcome, "attempt ended");
    }
    let Some(outcome) = state.outcome() else { return };
    let state = state.name();
    match step.life.state.lease() {
        Some(lease) => {
            let attempt = AttemptId { job: id, claim: step.life.claim };
            let worker = &lease.worker;
            tracing::info!(job = id.get(), %attempt, %worker, %outcome, %state, "job completed");
        }
        None => tracing::info!(job = id.get(), %outcome, %state, "job completed"),
    }
}
