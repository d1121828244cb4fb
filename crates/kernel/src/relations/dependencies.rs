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
use crate::jobs::entry::Busy;
use crate::jobs::ids::IdMap;
use crate::kernel::{Kernel, PendingRead, StoreRequest, TaskKind};
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
    pub released: VecDeque<(Mono, JobId)>,
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

    /// The dependents of an open job.
    pub fn behind(&self, id: JobId) -> &[JobId] {
        self.dependents.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Whether a blocked job would be released by such an end; none if it waits for no job.
    pub fn allows(&self, id: JobId, how: Dependency) -> Option<bool> {
        self.waits.get(&id).map(|waits| how.allows(waits.after_any))
    }

    /// Removes a job that has ended or is gone.
    pub fn forget(&mut self, id: JobId) {
        self.waits.remove(&id);
    }
}

impl Kernel {
    /// Registers the dependencies of a blocked job. Returns those that are not known as open.
    pub(crate) fn depend(&mut self, id: JobId, spec: &JobSpec) -> Vec<JobId> {
        let (open, unknown): (Vec<JobId>, Vec<JobId>) =
            spec.after.iter().partition(|before| self.jobs.contains(**before));
        let unmet = u32::try_from(open.len() + unknown.len()).unwrap_or(u32::MAX);
        for before in open {
            self.relations.dependencies.dependents.entry(before).or_default().push(id);
        }
        self.relations.dependencies.waits.insert(id, Waits { unmet, after_any: spec.after_any });
        unknown
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
                self.relations.dependencies.dependents.entry(*before).or_default().push(job.id);
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
                self.relations.dependencies.dependents.entry(before).or_default().push(id);
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
        self.commits.read(number, StoreRequest::Jobs(number, ids.clone()), PendingRead::Ends(ids));
    }

    /// Processes how jobs ended that others still depend on. A job that was removed had ended; nothing more is known.
    pub(crate) fn ends_read(&mut self, ids: Vec<JobId>, found: Result<Vec<Option<Job>>, StoreError>) {
        let Ok(found) = found else {
            self.rest();
            return self.commits.postpone(TaskKind::ReadEnds(ids).into());
        };
        for (id, job) in ids.into_iter().zip(found) {
            let state = job.map_or(StateName::Succeeded, |job| job.life.state.name());
            self.dependency_ended(id, state);
        }
    }

    /// A job has ended: queues the end for its dependents.
    pub(crate) fn dependency_ended(&mut self, id: JobId, state: StateName) {
        self.relations.dependencies.forget(id);
        let Some(how) = Dependency::of(state) else { return };
        let Some(dependents) = self.relations.dependencies.dependents.remove(&id) else { return };
        self.relations.cascade.because_of(id);
        self.relations.dependencies.ended.push_back(Ended { id, how, dependents: dependents.into_iter() });
    }

    /// Processes pending ends, a bounded number at a time.
    pub(crate) fn propagate_ends(&mut self) {
        for _ in 0..HEAR {
            let Some(ended) = self.relations.dependencies.ended.front_mut() else { break };
            let (id, how) = (ended.id, ended.how);
            match ended.dependents.next() {
                Some(dependent) => self.hear(dependent, id, how),
                None => {
                    self.relations.dependencies.ended.pop_front();
                    self.relations.cascade.no_longer(id);
                }
            }
        }
    }

    fn hear(&mut self, dependent: JobId, id: JobId, how: Dependency) {
        match self.relations.dependencies.allows(dependent, how) {
            None => {}
            Some(false) => self.relations.cascade.push(dependent, CascadeCause::Dependency(id, how)),
            Some(true) => self.meets(dependent, 1),
        }
    }

    /// Subtracts this many met dependencies from a job.
    fn meets(&mut self, id: JobId, met: usize) {
        let Some(waits) = self.relations.dependencies.waits.get_mut(&id) else { return };
        waits.unmet = waits.unmet.saturating_sub(u32::try_from(met).unwrap_or(u32::MAX));
        if waits.unmet == 0 {
            self.enqueue(TaskKind::DependenciesMet(id).into());
        }
    }

    /// Moves a job without open dependencies to its queue.
    pub(crate) fn dependencies_met(&mut self, id: JobId) {
        if self.relations.dependencies.waits.get(&id).is_none_or(|waits| waits.unmet > 0) {
            return;
        }
        let Some(entry) = self.jobs.get_mut(id) else { return };
        let Ok(Decision::Step(step)) = transition(&entry.life, &Event::DependenciesMet, self.env.wall())
        else {
            return;
        };
        entry.life = step.life;
        let state = entry.life.state.name();
        entry.recount(&mut self.board, &mut self.groups, self.env.wall());
        self.relations.dependencies.forget(id);
        self.effect(Effect::Live(id, state));
        self.store_later(id);
        self.place(id);
    }

    fn store_later(&mut self, id: JobId) {
        let at = self.env.mono().plus_ms(self.env.config().save_ms);
        self.relations.dependencies.released.push_back((at, id));
    }

    /// Stores the releases that are old enough to be worth a write.
    pub(crate) fn store_released(&mut self) {
        let mut ids = Vec::new();
        while let Some(&(at, id)) = self.relations.dependencies.released.front().filter(|_| ids.len() < SLICE)
        {
            if at > self.env.mono() {
                break;
            }
            self.relations.dependencies.released.pop_front();
            if self.is_unsaved(id) {
                ids.push(id);
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

    /// Whether the release of a job is in memory only, and nothing in flight stores it.
    fn is_unsaved(&self, id: JobId) -> bool {
        self.jobs.get(id).is_some_and(|entry| {
            let waits = matches!(entry.life.state, State::Queued(_) | State::Blocked(_));
            waits && entry.busy == Busy::Free && entry.life.rev != entry.stored_rev
        })
    }

    pub(crate) fn dependencies_met_stored(&mut self, ids: Vec<JobId>) {
        for &id in &ids {
            if let Some(entry) = self.jobs.get_mut(id) {
                entry.stored_rev = entry.life.rev;
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
