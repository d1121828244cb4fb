//! What is known of a query without evaluating it.

use jobhall_core::Job;
use jobhall_store::JobFilter;

use crate::ask::Warmth;
use crate::{Error, Planned, Queries, job};

impl Queries {
    /// The job that has made the value of a plan, or else the newest one that was to make it. If each evaluation makes its
    /// own value, the last one that was asked for, as far as it is remembered.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn newest_job(&self, planned: &Planned) -> Result<Option<Job>, Error> {
        if let Some(Warmth::Hit(job, _)) = planned.warmth.last() {
            return Ok(Some((**job).clone()));
        }
        let Some(last) = planned.plan.nodes.last() else { return Ok(None) };
        let Some(key) = job::key(last)? else { return self.last_job(&last.text).await };
        let filter =
            JobFilter { job_type: Some(job::job_type(last)?), key: Some(key), ..JobFilter::default() };
        let page = self.0.engine.list(filter, None, 1).await?;
        // What is stored of a live attempt is up to a second old.
        match page.jobs.first() {
            Some(job) => self.known_job(job.id).await,
            None => Ok(None),
        }
    }
}
