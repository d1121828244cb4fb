//! What happens to jobs, for a log outside of the kernel.

use jobhall_core::{AttemptId, Job, JobId, Leased, Step};
use jobhall_store::CommitError;

/// Is notified of stored changes and of failed writes. The default methods do nothing.
pub trait Observer: Send {
    /// A job was stored.
    fn submitted(&self, _job: &Job) {}

    /// An attempt was assigned to a worker.
    fn assigned(&self, _attempt: AttemptId, _leased: &Leased) {}

    /// A step of a job was stored: it may have ended an attempt, the job, or both.
    fn stepped(&self, _job: JobId, _step: &Step) {}

    /// A write failed; the requests that waited for it are rejected.
    fn write_failed(&self, _error: &CommitError) {}
}

/// An observer that ignores everything.
impl Observer for () {}
