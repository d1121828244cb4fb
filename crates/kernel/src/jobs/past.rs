//! How much of a job's ended attempts the kernel reads.

use jobhall_core::{Failure, Job, PastAttempt};

/// Ended attempts that are read whole, the newest: late reports are compared with them. Each may have 272 KiB.
pub const WHOLE_ATTEMPTS: usize = 4;

/// Cuts the ended attempts of a job, oldest first, to what the kernel needs: the newest whole, and of the others only
/// the workers, if the job avoids them.
pub fn abridge(job: &Job, past: &mut Vec<PastAttempt>) {
    let older = past.len().saturating_sub(WHOLE_ATTEMPTS);
    if job.spec.avoid {
        for attempt in &mut past[..older] {
            (attempt.failure, attempt.progress) = (Failure::new("", ""), Box::default());
        }
    } else {
        past.drain(..older);
    }
}
