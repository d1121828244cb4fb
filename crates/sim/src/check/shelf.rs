//! The lookups of the checkers. The store of a run implements them, and so does a copy of the store of a real hall.

use jobhall_core::{Job, JobId, PastAttempt};
use jobhall_store::{Block, FeedPage};

/// A store as the checkers read it.
pub(crate) trait Shelf {
    fn row(&self, id: JobId) -> Option<Job>;
    fn rows(&self) -> Vec<Job>;
    /// The ended attempts of a job, oldest first, without the last one of a completed job.
    fn attempts(&self, id: JobId) -> Vec<PastAttempt>;
    /// The jobs that a restart would load as open.
    fn open_jobs(&self) -> Vec<Job>;
    fn blocks(&self) -> Vec<Block>;
    /// The changes of every commit.
    fn feed(&self) -> FeedPage;
}
