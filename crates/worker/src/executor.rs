//! The seam between a session and what runs its assignments.

pub(crate) mod reporter;

use jobhall_core::{AttemptId, LeaseId};
use jobhall_protocol::AssignedJob;

use self::reporter::Reporter;
use crate::slots::Slot;

/// A job that was assigned to this worker.
pub(crate) struct Assignment {
    pub attempt: AttemptId,
    pub lease: LeaseId,
    /// The token with which the job's process authenticates to the server.
    pub token: String,
    pub job: AssignedJob,
}

/// Runs what a session is assigned. The session loop knows nothing else of it.
pub(crate) trait Executor: Send + 'static {
    /// Runs an attempt to its end in this slot. The reporter carries what the server is to know, the outcome last, and
    /// the orders that the attempt must obey.
    fn run(
        &self,
        assignment: Assignment,
        slot: Slot,
        reporter: Reporter,
    ) -> impl Future<Output = ()> + Send + 'static;
}
