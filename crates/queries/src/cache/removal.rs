//! Removing values on request.

use std::collections::{BTreeSet, HashSet};

use jobhall_core::query::{
    CommandName, Given, Identity, NodeParams, Query, SourceKey, StoredValue, TEXT_BYTES_MAX,
};
use jobhall_core::{Job, JobId, StateName};
use jobhall_store::JobFilter;

use super::evict::Removed;
use super::gone::Gone;
use super::{Cache, identity_of_job, lock, value_of};
use crate::{Error, Queries, job};

/// Jobs of a page.
const PAGE: usize = 100;
/// Jobs that one request looks at.
const SCAN: usize = 5_000;

/// Which values are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    All,
    /// What was made by this command, and what was made from that.
    Command(CommandName),
    /// What was made from this stored data.
    Source(SourceKey),
}

/// What a request has removed, and what is left for the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    pub removed: Removed,
    /// Values that were kept because they are pinned, or are the inputs of open jobs.
    pub kept: u64,
    /// The request is continued below this job; none if everything was looked at.
    pub next: Option<JobId>,
}

impl Which {
    fn fits(&self, job: &Job) -> bool {
        if *self == Which::All {
            return true;
        }
        let params = serde_json::from_str::<NodeParams>(job.spec.params.as_str()).ok();
        let query = params.and_then(|params| Query::parse(&params.query, TEXT_BYTES_MAX).ok());
        query.is_some_and(|query| self.is_in(&query))
    }

    fn is_in(&self, query: &Query) -> bool {
        let own = match self {
            Which::All => true,
            Which::Command(name) => query.steps.iter().any(|step| step.command == *name),
            Which::Source(key) => query.source.as_ref().is_some_and(|source| source.key == *key),
        };
        let arguments = query.steps.iter().flat_map(|step| &step.arguments);
        own || arguments.into_iter().any(|argument| match &argument.given {
            Given::Link(link) => self.is_in(&link.query),
            Given::Text(_) => false,
        })
    }
}

impl Cache {
    fn begin_removal(&self, jobs: &[(JobId, Option<Identity>)], why: Gone) {
        let mut removing = lock(&self.removing);
        removing.extend(jobs.iter().map(|(job, identity)| (*job, (*identity, why))));
    }

    /// The jobs of a removal that were not removed.
    fn end_removal(&self, jobs: &[(JobId, Option<Identity>)]) -> HashSet<JobId> {
        let mut removing = lock(&self.removing);
        jobs.iter().map(|(job, _)| *job).filter(|job| removing.remove(job).is_some()).collect()
    }
}

impl Queries {
    /// Removes the jobs of values, and returns those that the kernel spared.
    pub(crate) async fn remove(
        &self,
        jobs: Vec<(JobId, Option<Identity>)>,
        why: Gone,
    ) -> Result<BTreeSet<JobId>, Error> {
        let cache = &self.0.cache;
        cache.begin_removal(&jobs, why);
        let removed = self.0.engine.remove(jobs.iter().map(|(job, _)| *job).collect()).await;
        let spared = cache.end_removal(&jobs);
        removed?;
        Ok(spared.into_iter().collect())
    }

    /// Removes the value of a query, also if it is pinned. A pin stays.
    ///
    /// # Errors
    /// The query is wrong, or the store cannot be read.
    pub async fn drop_value(&self, query: &Query, only_count: bool) -> Result<Dropped, Error> {
        let (job_type, key) = self.type_and_key(query).await?;
        let filter = JobFilter { job_type: Some(job_type), key: Some(key), ..JobFilter::default() };
        let page = self.0.store.list(filter, None, PAGE).await?;
        let jobs = page.jobs.into_iter().filter(|job| value_of(job).is_some()).collect();
        let mut dropped = Dropped::default();
        self.drop_jobs(jobs, only_count, &mut dropped).await?;
        // Older successes of the key answer nobody.
        dropped.removed.values = dropped.removed.values.min(1);
        Ok(dropped)
    }

    /// Removes the values that are meant and not pinned, newest first, below this job; a bounded number of jobs is looked
    /// at. `only_count` removes nothing.
    ///
    /// # Errors
    /// The store cannot be read, or the kernel refuses.
    pub async fn drop_values(
        &self,
        which: &Which,
        only_count: bool,
        mut before: Option<JobId>,
    ) -> Result<Dropped, Error> {
        self.pins().await?;
        let filter = JobFilter {
            queue: Some(job::queue()?),
            states: vec![StateName::Succeeded],
            ..JobFilter::default()
        };
        let (mut dropped, mut scanned) = (Dropped::default(), 0);
        loop {
            let page = self.0.store.list(filter.clone(), before, PAGE).await?;
            scanned += PAGE;
            let pins = &self.0.cache.pins;
            let meant = page.jobs.into_iter().filter(|job| which.fits(job));
            let (pinned, jobs): (Vec<Job>, Vec<Job>) =
                meant.partition(|job| identity_of_job(job).is_some_and(|identity| pins.contains(&identity)));
            dropped.kept += pinned.len() as u64;
            self.drop_jobs(jobs, only_count, &mut dropped).await?;
            before = page.next;
            if before.is_none() || scanned >= SCAN {
                dropped.next = before;
                return Ok(dropped);
            }
        }
    }

    async fn drop_jobs(&self, jobs: Vec<Job>, only_count: bool, dropped: &mut Dropped) -> Result<(), Error> {
        if jobs.is_empty() {
            return Ok(());
        }
        let victims = jobs.iter().map(|job| (job.id, identity_of_job(job))).collect();
        let spared = if only_count { BTreeSet::new() } else { self.remove(victims, Gone::Dropped).await? };
        for job in jobs {
            if spared.contains(&job.id) {
                dropped.kept += 1;
            } else {
                let size = value_of(&job).and_then(|(_, value)| value);
                dropped.removed.values += 1;
                dropped.removed.bytes += size.map_or(0, |StoredValue { size, .. }| size);
            }
        }
        Ok(())
    }
}
