//! Dependencies between jobs.
//!
//! The dependencies of a job are part of its spec; nothing else about them is stored. The kernel keeps the waiting
//! relation in memory and rebuilds it at start from the blocked jobs. The release after the last dependency is a step
//! in memory: it is stored with the claim, or shortly after if the job stays in its queue. So a release usually costs
//! no write, and one that was not stored is found again from the same rows.

use std::collections::{BTreeSet, VecDeque};

use jobhall_core::{Decision, Dependency, Event, Job, JobId, JobSpec, State, StateName, transition};
use jobhall_store::{StoreError, Unit};

use crate::api::effect::Effect;
use crate::api::time::Mono;
use crate::commits::settle::Pending;
use crate::commits::step::change;
use crate::jobs::entry::{Busy, Entry};
use crate::jobs::ids::IdMap;
use crate::kernel::{HallTask, JobWork, JobsRead, Kernel};
use crate::relations::Relations;
use crate::relations::cascade::CascadeCause;

/// Dependents processed per step; the others follow in the next step.
const HEAR: usize = 10_000;
/// Released jobs stored in one unit, and jobs read at once.
const SLICE: usize = 500;

/// The waiting relation between jobs.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    /// By open job: its dependents. Some may have ended meanwhile.
    dependents: IdMap<JobId, Vec<JobId>>,
    /// By a blocked job: what it waits for.
    waits: IdMap<JobId, Waits>,
    /// Ends that were not propagated to all dependents yet.
    ended: VecDeque<Ended>,
    /// Jobs released in memory, and when the release is stored if they are not claimed before.
    released: VecDeque<(Mono, JobId)>,
    /// Blocked jobs found at start whose dependencies are not registered yet.
    found: Vec<JobId>,
}

#[derive(Debug)]
struct Waits {
    unmet: u32,
    after_any: bool,
}

#[derive(Debug)]
struct Ended {
    id: JobId,
    how: Dependency,
    dependents: std::vec::IntoIter<JobId>,
}

impl Dependencies {
    /// Whether every end has been propagated.
    pub fn is_idle(&self) -> bool {
        self.ended.is_empty()
    }

    /// Registers the dependencies of a blocked job. Returns those that are not open.
    pub fn depend(&mut self, id: JobId, spec: &JobSpec, is_open: impl Fn(JobId) -> bool) -> Vec<JobId> {
        let (open, unknown): (Vec<JobId>, Vec<JobId>) =
            spec.after.iter().partition(|before| is_open(**before));
        let unmet = u32::try_from(open.len() + unknown.len()).unwrap_or(u32::MAX);
        for before in open {
            self.add_dependent(before, id);
        }
        self.waits.insert(id, Waits { unmet, after_any: spec.after_any });
        unknown
    }

    /// The end of the first job is to be propagated to the second.
    pub fn add_dependent(&mut self, before: JobId, id: JobId) {
        self.dependents.entry(before).or_default().push(id);
    }

    /// The dependents among the first `most` of an open job that end with it, if it ends in this way.
    pub fn fall_with(&self, id: JobId, how: Dependency, most: usize) -> impl Iterator<Item = JobId> + '_ {
        let behind = self.dependents.get(&id).into_iter().flatten().take(most);
        behind.copied().filter(move |behind| self.allows(*behind, how) == Some(false))
    }

    /// Whether a blocked job would be released by such an end; none if it waits for no job.
    pub fn allows(&self, id: JobId, how: Dependency) -> Option<bool> {
        self.waits.get(&id).map(|waits| how.allows(waits.after_any))
    }

    /// Removes a job that has ended or is gone.
    pub fn forget(&mut self, id: JobId) {
        self.waits.remove(&id);
    }

    /// One dependency of a job is met. Returns whether all of them are.
    fn meets(&mut self, id: JobId) -> bool {
        let Some(waits) = self.waits.get_mut(&id) else { return false };
        waits.unmet = waits.unmet.saturating_sub(1);
        waits.unmet == 0
    }

    /// Whether a job is blocked and all its dependencies are met.
    pub fn are_met(&self, id: JobId) -> bool {
        self.waits.get(&id).is_some_and(|waits| waits.unmet == 0)
    }

    /// Stores the release of a job at this time; the times do not decrease.
    pub fn store_later(&mut self, at: Mono, id: JobId) {
        self.released.push_back((at, id));
    }

    /// When the next release is stored.
    pub fn next_release(&self) -> Option<Mono> {
        self.released.front().map(|&(at, _)| at)
    }

    /// Takes a release that is to be stored by now.
    pub fn take_released(&mut self, now: Mono) -> Option<JobId> {
        self.next_release().filter(|at| *at <= now)?;
        self.released.pop_front().map(|(_, id)| id)
    }
}

impl Entry {
    /// Whether its release is in memory only.
    fn is_unsaved(&self) -> bool {
        let waits = matches!(self.status.state(), State::Queued(_) | State::Blocked(_));
        waits && self.status.get().rev != self.stored_rev
    }
}

impl Relations {
    /// A job has ended in this way, if it has: queues the end for its dependents.
    pub fn dependency_ended(&mut self, id: JobId, how: Option<Dependency>) {
        self.dependencies.forget(id);
        let Some(how) = how else { return };
        let Some(dependents) = self.dependencies.dependents.remove(&id) else { return };
        self.cascade.because_of(id);
        self.dependencies.ended.push_back(Ended { id, how, dependents: dependents.into_iter() });
    }

    /// Propagates the first pending end to its next dependent. Returns the dependent if all its dependencies are met.
    fn propagate(&mut self) -> Option<JobId> {
        let ended = self.dependencies.ended.front_mut()?;
        let (id, how) = (ended.id, ended.how);
        let Some(dependent) = ended.dependents.next() else {
            self.dependencies.ended.pop_front();
            self.cascade.no_longer(id);
            return None;
        };
        self.hear(dependent, id, how).then_some(dependent)
    }

    /// A dependency of a job has ended in this way. Returns whether all its dependencies are met.
    fn hear(&mut self, dependent: JobId, id: JobId, how: Dependency) -> bool {
        match self.dependencies.allows(dependent, how) {
            None => false,
            Some(false) => {
                self.cascade.push(dependent, CascadeCause::Dependency(id, how));
                false
            }
            Some(true) => self.dependencies.meets(dependent),
        }
    }
}

impl Kernel {
    /// Registers the dependencies of a blocked job. Returns those that are not known as open.
    pub(crate) fn depend(&mut self, id: JobId, spec: &JobSpec) -> Vec<JobId> {
        self.relations.dependencies.depend(id, spec, |before| self.jobs.contains(before))
    }

    /// Registers the dependencies of a job that was just submitted. Jobs that are not open were checked before and
    /// need not be waited for, except those that its own submit has ended because it replaces them.
    pub(crate) fn depend_known(&mut self, id: JobId, spec: &JobSpec, ended: &[(JobId, StateName)]) {
        for before in self.depend(id, spec) {
            let state = ended.iter().find(|(moved, _)| *moved == before).map(|(_, state)| *state);
            self.hear(id, before, state.and_then(Dependency::of).unwrap_or(Dependency::Met));
        }
    }

    /// Registers jobs whose dependencies may have ended already: how those ended is read.
    pub(crate) fn hear_later(&mut self, jobs: &[Job], unknown: &BTreeSet<JobId>) {
        for job in jobs {
            for before in job.spec.after.iter().filter(|before| unknown.contains(before)) {
                self.relations.dependencies.add_dependent(*before, job.id);
            }
        }
        self.read_ends(unknown.iter().copied().collect());
    }

    /// At start: records a blocked job. Its dependencies are registered once all jobs are restored.
    pub(crate) fn found_blocked(&mut self, id: JobId) {
        self.relations.dependencies.found.push(id);
    }

    /// At start, after all open jobs are restored: reads the dependencies that are not open.
    pub(crate) fn begin_dependencies(&mut self) {
        let mut unknown = Vec::new();
        for id in std::mem::take(&mut self.relations.dependencies.found) {
            let Some(spec) = self.jobs.get(id).and_then(|entry| entry.spec.clone()) else { continue };
            for before in self.depend(id, &spec) {
                self.relations.dependencies.add_dependent(before, id);
                unknown.push(before);
            }
        }
        unknown.sort_unstable();
        unknown.dedup();
        for slice in unknown.chunks(SLICE) {
            self.read_ends(slice.to_vec());
        }
    }

    pub(crate) fn read_ends(&mut self, ids: Vec<JobId>) {
        let number = self.env.number();
        self.commits.read_jobs(number, ids.clone(), JobsRead::Ends(ids));
    }

    /// Processes how jobs ended that others still depend on.
    pub(crate) fn ends_read(&mut self, ids: Vec<JobId>, found: Result<Vec<Option<Job>>, StoreError>) {
        let Ok(found) = found else {
            self.rest();
            return self.commits.postpone(HallTask::ReadEnds(ids).into());
        };
        for (id, job) in ids.into_iter().zip(found) {
            let how = job.map_or(Some(Dependency::Removed), |job| Dependency::of(job.status.state.name()));
            self.dependency_ended(id, how);
        }
    }

    /// A job has ended in this way, if it has: queues the end for its dependents.
    pub(crate) fn dependency_ended(&mut self, id: JobId, how: Option<Dependency>) {
        self.relations.dependency_ended(id, how);
    }

    /// Processes pending ends, a bounded number at a time.
    pub(crate) fn propagate_ends(&mut self) {
        for _ in 0..HEAR {
            if self.relations.dependencies.is_idle() {
                break;
            }
            if let Some(id) = self.relations.propagate() {
                self.enqueue(JobWork::DependenciesMet.on(id));
            }
        }
    }

    fn hear(&mut self, dependent: JobId, id: JobId, how: Dependency) {
        if self.relations.hear(dependent, id, how) {
            self.enqueue(JobWork::DependenciesMet.on(dependent));
        }
    }

    /// Moves a job without open dependencies to its queue.
    pub(crate) fn dependencies_met(&mut self, id: JobId) {
        if !self.relations.dependencies.are_met(id) {
            return;
        }
        let Some(entry) = self.jobs.get_mut(id) else { return };
        let Ok(Decision::Step(step)) =
            transition(&entry.status.get(), &Event::DependenciesMet, self.env.wall())
        else {
            return;
        };
        entry.status.replace(step.status);
        let state = entry.status.state().name();
        entry.recount(&mut self.board, &mut self.groups, self.env.wall());
        self.relations.dependencies.forget(id);
        self.effect(Effect::Live(id, state));
        self.store_later(id);
        self.place(id);
    }

    fn store_later(&mut self, id: JobId) {
        let at = self.env.mono().plus_ms(self.env.config().save_ms);
        self.relations.dependencies.store_later(at, id);
    }

    /// Stores the releases that are old enough to be worth a write.
    pub(crate) fn store_released(&mut self) {
        let mut ids = Vec::new();
        while ids.len() < SLICE
            && let Some(id) = self.relations.dependencies.take_released(self.env.mono())
        {
            match self.jobs.get(id).filter(|entry| entry.is_unsaved()).map(|entry| entry.busy) {
                Some(Busy::Free) => ids.push(id),
                // What it is busy with may store it, or not: it may be a read.
                Some(_) => self.store_later(id),
                None => {}
            }
        }
        if ids.is_empty() {
            return;
        }
        let mut unit = Unit::default();
        for &id in &ids {
            let Some(entry) = self.jobs.get(id) else { continue };
            unit.changes.push(change(id, entry.stored_rev, entry.unmoved()));
            self.make_busy(id, Busy::Unit);
        }
        self.send(unit, Pending::DependenciesMet(ids));
    }

    pub(crate) fn dependencies_met_stored(&mut self, ids: Vec<JobId>) {
        for &id in &ids {
            if let Some(entry) = self.jobs.get_mut(id) {
                entry.stored_rev = entry.status.get().rev;
            }
        }
        ids.into_iter().for_each(|id| self.make_free(id));
    }

    pub(crate) fn dependencies_met_not_stored(&mut self, ids: Vec<JobId>) {
        for id in ids {
            self.store_later(id);
            self.make_free(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use jobhall_core::JobStatus;

    use super::*;
    use crate::fixtures::{assigned, entry, id, spec, time};
    use crate::matching::board::Board;

    fn after(ids: &[u64], after_any: bool) -> JobSpec {
        JobSpec { after: ids.iter().copied().map(id).collect(), after_any, ..spec() }
    }

    /// Relations in which these jobs depend on the given ones, all of which are open.
    fn relations(jobs: &[(u64, &[u64])]) -> Relations {
        let mut relations = Relations::default();
        for &(job, before) in jobs {
            let unknown = relations.dependencies.depend(id(job), &after(before, false), |_| true);
            assert!(unknown.is_empty());
        }
        relations
    }

    /// Propagates every pending end, and returns the jobs that are released.
    fn propagate(relations: &mut Relations) -> Vec<JobId> {
        let mut met = Vec::new();
        while !relations.dependencies.is_idle() {
            met.extend(relations.propagate());
        }
        met
    }

    fn ended(relations: &mut Relations, job: u64, state: StateName) -> Vec<JobId> {
        relations.dependency_ended(id(job), Dependency::of(state));
        propagate(relations)
    }

    #[test]
    fn a_job_has_its_dependencies_met_by_the_end_of_the_last_one() {
        let mut relations = relations(&[(9, &[1, 2]), (8, &[2])]);
        assert_eq!(ended(&mut relations, 1, StateName::Succeeded), []);
        assert!(!relations.dependencies.are_met(id(9)));
        assert_eq!(ended(&mut relations, 2, StateName::Succeeded), [id(9), id(8)]);
        assert!(relations.dependencies.are_met(id(9)) && relations.cascade.is_idle());
    }

    #[test]
    fn a_dependency_that_is_not_open_counts_until_its_end_is_known() {
        let mut dependencies = Dependencies::default();
        let unknown = dependencies.depend(id(9), &after(&[1, 2], false), |before| before == id(1));
        assert_eq!(unknown, [id(2)]);
        assert!(!dependencies.meets(id(9)) && dependencies.meets(id(9)));
        assert!(!dependencies.meets(id(7)), "this job waits for nothing");
    }

    #[test]
    fn an_end_reaches_only_the_dependents_of_that_job_and_only_once() {
        let mut relations = relations(&[(9, &[1]), (8, &[2])]);
        assert_eq!(ended(&mut relations, 1, StateName::Running), [], "an open job has not ended");
        assert_eq!(ended(&mut relations, 1, StateName::Succeeded), [id(9)]);
        assert_eq!(ended(&mut relations, 1, StateName::Succeeded), []);
    }

    #[test]
    fn a_failed_dependency_ends_its_dependents_unless_they_accept_any_end() {
        let mut relations = relations(&[(9, &[1])]);
        relations.dependencies.depend(id(8), &after(&[1], true), |_| true);
        assert_eq!(ended(&mut relations, 1, StateName::Failed), [id(8)]);
        let cause = CascadeCause::Dependency(id(1), Dependency::Failed);
        assert_eq!(relations.cascade.next(), Some((id(9), cause)));
        assert_eq!(relations.cascade.next(), None);
    }

    #[test]
    fn a_dependent_that_has_ended_itself_is_skipped() {
        let mut relations = relations(&[(9, &[1]), (8, &[1])]);
        relations.dependency_ended(id(9), Some(Dependency::Cancelled));
        assert_eq!(relations.dependencies.allows(id(9), Dependency::Met), None);
        assert_eq!(ended(&mut relations, 1, StateName::Succeeded), [id(8)]);
    }

    #[test]
    fn a_completed_job_is_needed_until_its_end_is_propagated() {
        let mut relations = relations(&[(9, &[1])]);
        relations.dependency_ended(id(1), Some(Dependency::Met));
        assert!(relations.needs(id(1)) && !relations.is_idle());
        assert_eq!(relations.propagate(), Some(id(9)));
        assert!(relations.needs(id(1)), "its dependents are not known to be all");
        assert_eq!(relations.propagate(), None);
        assert!(!relations.needs(id(1)) && relations.is_idle());
    }

    #[test]
    fn the_dependents_that_end_with_a_job_are_bounded() {
        let mut dependencies = relations(&[(9, &[1]), (7, &[1])]).dependencies;
        dependencies.depend(id(8), &after(&[1], true), |_| true);
        dependencies.depend(id(6), &after(&[1], false), |_| true);
        let fall = |how, most| dependencies.fall_with(id(1), how, most).collect::<Vec<_>>();
        assert_eq!(fall(Dependency::Cancelled, 9), [id(9), id(7), id(6)]);
        assert_eq!(fall(Dependency::Cancelled, 3), [id(9), id(7)]);
        assert_eq!(fall(Dependency::Met, 9), []);
    }

    #[test]
    fn a_release_is_stored_when_its_time_has_come() {
        let mut relations = Relations::default();
        assert_eq!(relations.next_release(Mono(3)), None);
        [(5, 1), (6, 2)].into_iter().for_each(|(at, n)| relations.dependencies.store_later(Mono(at), id(n)));
        assert_eq!(relations.next_release(Mono(3)), Some(Mono(5)));
        assert_eq!(relations.dependencies.take_released(Mono(4)), None);
        assert_eq!(relations.dependencies.take_released(Mono(5)), Some(id(1)));
        assert_eq!(relations.dependencies.take_released(Mono(5)), None);
        assert_eq!(relations.next_release(Mono(3)), Some(Mono(6)));
    }

    #[test]
    fn pending_ends_are_due_at_once() {
        let mut relations = relations(&[(9, &[1])]);
        relations.dependencies.store_later(Mono(50), id(2));
        relations.dependency_ended(id(1), Some(Dependency::Met));
        assert_eq!(relations.next_release(Mono(3)), Some(Mono(3)));
    }

    #[test]
    fn only_a_waiting_job_that_is_newer_than_stored_is_unsaved() {
        let unsaved = |status: JobStatus, stored_rev| {
            let mut entry = entry(&mut Board::default(), spec(), status);
            entry.stored_rev = stored_rev;
            entry.is_unsaved()
        };
        let queued = JobStatus::queued(time(0), time(0));
        assert!(unsaved(queued.clone(), 0));
        assert!(unsaved(queued.clone().after_others(), 0));
        assert!(!unsaved(queued.clone(), queued.rev));
        assert!(!unsaved(assigned(), 0), "the claim has stored it");
    }
}
