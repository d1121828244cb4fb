//! Links from parents to sub-jobs, by the names that the parents gave, and the parents that still want a job.
//!
//! A link lives as long as its parent, over all its attempts. A submit from outside that joins a sub-job is recorded
//! as a link of that job to itself: it is wanted regardless of its parents.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::JobId;
use jobhall_store::Link;

use crate::commits::settle::Pending;
use crate::jobs::ids::IdMap;
use crate::kernel::{JobWork, Kernel, Task};

/// The name of the link that marks a job as wanted from outside.
const OUTSIDE: &str = "";

/// The links of open jobs.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// By parent and name. A parent whose first link is in flight has an empty entry.
    of: IdMap<JobId, BTreeMap<String, JobId>>,
    /// By wanted job: the parents that want it.
    by: IdMap<JobId, BTreeSet<JobId>>,
    /// Names that are being assigned.
    giving: BTreeSet<(JobId, String)>,
    /// Calls that wait for one of those names.
    waiting: Vec<Task>,
}

impl Links {
    /// Returns the sub-job of a parent with this name.
    pub fn get(&self, parent: JobId, call: &str) -> Option<JobId> {
        self.of.get(&parent)?.get(call).copied()
    }

    /// The sub-jobs of a parent.
    pub fn of(&self, parent: JobId) -> impl Iterator<Item = JobId> + '_ {
        let links = self.of.get(&parent).into_iter().flatten();
        links.filter(|(call, _)| *call != OUTSIDE).map(|(_, &job)| job)
    }

    /// Whether a job is a sub-job of this parent.
    pub fn is_sub_job(&self, parent: JobId, job: JobId) -> bool {
        parent != job && self.by.get(&job).is_some_and(|parents| parents.contains(&parent))
    }

    pub fn count(&self, parent: JobId) -> usize {
        self.of.get(&parent).map_or(0, BTreeMap::len)
    }

    /// Whether the store may have links of this parent.
    pub fn has(&self, parent: JobId) -> bool {
        self.of.contains_key(&parent)
    }

    /// Whether this job is wanted.
    pub fn is_wanted(&self, job: JobId) -> bool {
        self.by.contains_key(&job)
    }

    /// Records that links of this parent are in flight.
    pub fn expect(&mut self, parent: JobId) {
        self.of.entry(parent).or_default();
    }

    pub fn add(&mut self, Link { parent, call, job }: Link) {
        let before = self.of.entry(parent).or_default().insert(call, job);
        if let Some(before) = before.filter(|before| !self.of(parent).any(|linked| linked == *before)) {
            self.unwant(before, parent);
        }
        self.by.entry(job).or_default().insert(parent);
    }

    /// A call gets a job: until that is done, other calls with its name wait.
    pub fn give(&mut self, parent: JobId, call: &str) {
        self.giving.insert((parent, call.to_owned()));
        self.expect(parent);
    }

    /// The call has a job, or failed.
    pub fn given(&mut self, parent: JobId, call: &str) {
        self.giving.remove(&(parent, call.to_owned()));
    }

    pub fn is_giving(&self, parent: JobId, call: &str) -> bool {
        self.giving.contains(&(parent, call.to_owned()))
    }

    /// Keeps a call until a name has been assigned.
    pub fn wait(&mut self, task: Task) {
        self.waiting.push(task);
    }

    pub fn take_waiting(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.waiting)
    }

    fn unwant(&mut self, job: JobId, parent: JobId) {
        let Some(wanting) = self.by.get_mut(&job) else { return };
        wanting.remove(&parent);
        if wanting.is_empty() {
            self.by.remove(&job);
        }
    }

    /// Removes a parent that has ended, and returns the jobs that it wanted.
    fn remove(&mut self, parent: JobId) -> Vec<JobId> {
        let jobs: Vec<_> = self.of.remove(&parent).into_iter().flatten().map(|(_, job)| job).collect();
        for &job in &jobs {
            self.unwant(job, parent);
        }
        jobs
    }

    fn parents(&self) -> Vec<JobId> {
        let mut parents: Vec<_> = self.of.keys().copied().collect();
        parents.sort_unstable();
        parents
    }
}

/// The link that marks a job as wanted from outside.
pub(crate) fn external(job: JobId) -> Link {
    Link { parent: job, call: OUTSIDE.to_owned(), job }
}

impl Kernel {
    /// At start, after the open jobs: the links of their parents.
    pub fn restore_links(&mut self, links: Vec<Link>) {
        links.into_iter().for_each(|link| self.relations.links.add(link));
    }

    /// At start, after everything is restored: cancels sub-jobs whose parent ended just before the stop, removes the
    /// links of such parents, and restores what waiting attempts wait for.
    pub(crate) fn restored_links(&mut self) {
        let over: Vec<_> =
            self.relations.links.parents().into_iter().filter(|id| !self.jobs.contains(*id)).collect();
        for &parent in &over {
            self.relations.links.remove(parent);
        }
        if !over.is_empty() {
            self.send(jobhall_store::Unit { unlinked: over, ..Default::default() }, Pending::Unlinked);
        }
        let sub_jobs = std::mem::take(&mut self.relations.sub_jobs);
        for &job in &sub_jobs {
            self.enqueue(JobWork::Orphan.on(job));
        }
        self.restore_waits(&sub_jobs);
    }

    fn restore_waits(&mut self, sub_jobs: &[JobId]) {
        let waiting = self.jobs.iter().filter(|(_, entry)| entry.waits_for_jobs());
        let mut waiting: Vec<_> = waiting.map(|(id, _)| id).collect();
        if waiting.is_empty() {
            return;
        }
        waiting.sort_unstable();
        for &id in &waiting {
            self.wait_again(id);
        }
        let submitted = self.by_parent(sub_jobs);
        for id in waiting {
            self.lend_to_leased(id, &submitted);
        }
        self.restore_borrowed();
    }

    /// These jobs by the job that submitted them, which may have ended.
    fn by_parent(&self, sub_jobs: &[JobId]) -> BTreeMap<JobId, Vec<JobId>> {
        let mut by_parent: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for &job in sub_jobs {
            let spec = self.jobs.get(job).and_then(|entry| entry.spec.as_ref());
            if let Some(parent) = spec.and_then(|spec| spec.parent) {
                by_parent.entry(parent).or_default().push(job);
            }
        }
        by_parent
    }

    /// A job has ended: cancels the sub-jobs that no other job wants.
    pub(crate) fn unlink(&mut self, parent: JobId) {
        for job in self.relations.links.remove(parent) {
            if job != parent && self.jobs.contains(job) {
                self.enqueue(JobWork::Orphan.on(job));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{id, numbers, task};

    fn link(parent: u64, call: &str, job: u64) -> Link {
        Link { parent: id(parent), call: call.to_owned(), job: id(job) }
    }

    #[test]
    fn a_job_is_wanted_as_long_as_one_link_leads_to_it() {
        let mut links = Links::default();
        for link in [link(1, "a", 7), link(1, "b", 7), link(2, "a", 7), external(id(8))] {
            links.add(link);
        }
        links.add(link(1, "a", 9));
        assert_eq!((links.get(id(1), "a"), links.get(id(1), "b")), (Some(id(9)), Some(id(7))));
        assert_eq!(links.remove(id(1)), [id(9), id(7)]);
        assert!(!links.is_wanted(id(9)) && links.is_wanted(id(7)));
        links.add(link(2, "a", 6));
        assert!(!links.is_wanted(id(7)), "the name was given to another job");
        assert!(
            links.is_wanted(id(8)) && links.of(id(8)).next().is_none(),
            "wanted, but not its own sub-job"
        );
    }
    #[test]
    fn a_parent_has_links_from_the_moment_they_are_in_flight() {
        let mut links = Links::default();
        links.expect(id(1));
        assert!(links.has(id(1)) && !links.has(id(2)));
        assert_eq!((links.count(id(1)), links.get(id(1), "a")), (0, None));
        links.add(link(1, "a", 7));
        links.expect(id(1));
        assert_eq!((links.count(id(1)), links.get(id(1), "a")), (1, Some(id(7))));
        assert_eq!(links.get(id(1), "b"), None);
        links.remove(id(1));
        assert!(!links.has(id(1)) && links.count(id(1)) == 0);
    }

    #[test]
    fn a_removed_parent_leaves_the_jobs_that_others_want() {
        let mut links = Links::default();
        [link(1, "a", 7), link(2, "a", 7), link(1, "b", 8)].into_iter().for_each(|link| links.add(link));
        links.remove(id(1));
        assert!(links.is_wanted(id(7)) && !links.is_wanted(id(8)));
        assert_eq!(links.remove(id(1)), [], "it was removed before");
    }

    #[test]
    fn the_sub_jobs_of_a_parent_are_those_of_its_names() {
        let mut links = Links::default();
        [link(1, "b", 7), link(1, "a", 8), external(id(1)), link(2, "a", 9)]
            .into_iter()
            .for_each(|link| links.add(link));
        assert_eq!(links.of(id(1)).collect::<Vec<_>>(), [id(8), id(7)]);
        let own = [(1, 7), (1, 8), (1, 9), (1, 1), (2, 9)].map(|(of, job)| links.is_sub_job(id(of), id(job)));
        assert_eq!(own, [true, true, false, false, true]);
        assert_eq!(links.parents(), [id(1), id(2)]);
    }

    #[test]
    fn a_job_stays_wanted_while_another_name_of_the_same_parent_leads_to_it() {
        let mut links = Links::default();
        [link(1, "a", 7), link(1, "b", 7), link(1, "a", 9)].into_iter().for_each(|link| links.add(link));
        assert!(links.is_wanted(id(7)) && links.is_wanted(id(9)));
        links.add(link(1, "b", 9));
        assert!(!links.is_wanted(id(7)));
    }

    #[test]
    fn the_same_link_twice_is_one() {
        let mut links = Links::default();
        (0..2).for_each(|_| links.add(link(1, "a", 7)));
        assert!(links.is_wanted(id(7)) && links.count(id(1)) == 1);
    }

    #[test]
    fn a_name_is_being_given_for_one_parent_until_the_call_is_settled() {
        let mut links = Links::default();
        links.give(id(1), "a");
        assert!(links.has(id(1)), "its link may be stored");
        let giving = [(1, "a"), (1, "b"), (2, "a")].map(|(parent, call)| links.is_giving(id(parent), call));
        assert_eq!(giving, [true, false, false]);
        [3, 1].into_iter().for_each(|n| links.wait(task(n)));
        links.given(id(1), "a");
        assert!(!links.is_giving(id(1), "a"));
        assert_eq!(numbers(&links.take_waiting()), [3, 1]);
        assert!(links.take_waiting().is_empty());
    }
}
