//! Relations between jobs: dependencies, cascades, sub-jobs with their links, and attempts that wait for jobs.

pub(crate) mod cascade;
pub(crate) mod cycle;
pub(crate) mod dependencies;
pub(crate) mod inputs;
pub(crate) mod links;
pub(crate) mod sub_job;
pub(crate) mod wait;

use std::collections::BTreeSet;

use jobhall_core::JobId;
use jobhall_store::Link;

use crate::api::time::Mono;
use crate::jobs::ids::IdMap;
use crate::kernel::Task;
use cascade::{Cascade, CascadeCause};
use dependencies::Dependencies;
use inputs::Inputs;
use links::Links;
use wait::Wait;

/// The relations between the jobs in memory.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    dependencies: Dependencies,
    cascade: Cascade,
    pub inputs: Inputs,
    links: Links,
    /// Sub-jobs found at start whose parent may have ended.
    sub_jobs: Vec<JobId>,
    /// By waiting job: what its attempt waits for; `waiters` is the reverse.
    waits: IdMap<JobId, Wait>,
    waiters: IdMap<JobId, BTreeSet<JobId>>,
}

impl Relations {
    /// Whether every end has been propagated.
    pub fn is_idle(&self) -> bool {
        self.dependencies.is_idle() && self.cascade.is_idle()
    }

    /// At start: a sub-job whose parent may have ended.
    pub fn found_sub_job(&mut self, id: JobId) {
        self.sub_jobs.push(id);
    }

    /// The jobs that the attempt of a job waits for and that have not ended; none if it does not wait.
    pub fn awaited_by(&self, id: JobId) -> Option<&BTreeSet<JobId>> {
        self.waits.get(&id).map(|wait| &wait.open)
    }

    /// Ends a job because of another one or its group.
    pub fn cascade_to(&mut self, id: JobId, by: CascadeCause) {
        self.cascade.push(id, by);
    }

    /// A job no longer needs to be ended.
    pub fn cascade_over(&mut self, id: JobId) {
        self.cascade.over(id);
    }

    /// Whether a completed job is needed: as the cause of pending ends, or as the input of an open job.
    pub fn needs(&self, id: JobId) -> bool {
        self.cascade.needs(id) || self.inputs.contains(id)
    }

    /// Whether an open parent may request this sub-job again, or someone outside wants it.
    pub fn is_wanted(&self, id: JobId) -> bool {
        self.links.is_wanted(id)
    }

    /// Whether the store may have links of this parent.
    pub fn has_links(&self, parent: JobId) -> bool {
        self.links.has(parent)
    }

    /// Links of this parent are in flight.
    pub fn expect_links(&mut self, parent: JobId) {
        self.links.expect(parent);
    }

    pub fn add_link(&mut self, link: Link) {
        self.links.add(link);
    }

    /// Takes the tasks that wait for a sub-job call.
    pub fn take_waiting(&mut self) -> Vec<Task> {
        self.links.take_waiting()
    }

    /// When the next released job is stored, if it is not claimed before; now if ends are not propagated yet.
    pub fn next_release(&self, now: Mono) -> Option<Mono> {
        if self.dependencies.is_idle() { self.dependencies.next_release() } else { Some(now) }
    }
}
