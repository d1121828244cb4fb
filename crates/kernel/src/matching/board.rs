//! The board: ready jobs by class, parked vacancies by profile, and which classes match which profiles.
//!
//! A match is decided once per (class, profile), when either is first seen. Classes that match the same profiles share
//! one line, which keeps their heads in order. A profile (equal abilities and accepts) keeps its matching lines in the
//! order of their heads, lazily: when a head is taken, the profile is not updated; the next lookup finds that the
//! entry is too low and raises it. A vacancy therefore costs a few tree steps regardless of the number of classes and
//! jobs, and a new job is compared with profiles, not with workers.
//!
//! What differs between the workers of a profile (their names, their free resources, whether they had the job before) is the
//! demand of a line;
//! the caller decides whether it is met. A job with an individual demand is put into a separate class.
//!
//! ```text
//!   job ── class (queue, type, needs, uses) ── line (matching profiles, demand) ══ profile ── session ── vacancy
//! ```

mod line;
mod profile;
mod ready;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{Class, JobId, JobSpec, QueueName, Time, TypeName};

use crate::api::effect::VacancyId;
use crate::jobs::ids::IdMap;
use crate::limits::LimitOf;
use crate::stats::queues::{QueueId, Queues};

pub(crate) use line::{Demand, Line};
use line::{LineId, Lines};
use profile::Profiles;
pub(crate) use profile::{Place, ProfileId};
use ready::Ready;

/// A class of jobs that match the same workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(u64);

/// The order among matching jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub priority: i32,
    pub run_at: Time,
    pub id: JobId,
}

/// Maximum number of unused classes kept, so that they need not be compared again.
const IDLE: usize = 16_384;

#[derive(Debug)]
struct ClassState {
    class: Class,
    /// The job of a class that was made for one job.
    apart: Option<JobId>,
    queue: QueueId,
    line: LineId,
    ready: Ready,
    /// Open jobs of the class, ready or not.
    jobs: usize,
    /// Its queue or its type is paused: its jobs are not assigned.
    paused: bool,
}

impl ClassState {
    /// The first ready job.
    fn head(&self) -> Option<Rank> {
        self.ready.first().filter(|_| !self.paused)
    }
}

/// Ready jobs and parked vacancies.
#[derive(Debug, Default)]
pub(crate) struct Board {
    classes: IdMap<ClassId, ClassState>,
    class_ids: HashMap<Class, (ClassId, QueueId)>,
    /// The class of the last lookup: the next job is usually of the same class.
    last: Option<(Class, (ClassId, QueueId))>,
    lines: Lines,
    profiles: Profiles,
    idle_classes: usize,
    next: u64,
    paused: Paused,
    queues: Queues,
}

/// The paused queues and types.
#[derive(Debug, Default)]
struct Paused {
    queues: BTreeSet<QueueName>,
    types: BTreeSet<TypeName>,
}

impl Paused {
    fn stops(&self, class: &Class) -> bool {
        self.queues.contains(&class.queue) || self.types.contains(&class.job_type)
    }
}

impl Board {
    /// The queues, which count open jobs.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    pub fn queues_mut(&mut self) -> &mut Queues {
        &mut self.queues
    }

    /// Returns the id of a job's class, creating the class if there is none.
    pub fn class_of(&mut self, spec: &JobSpec) -> ClassId {
        self.known_of(spec).0
    }

    /// Counts one open job into its class.
    pub fn enter_job(&mut self, spec: &JobSpec) -> (ClassId, QueueId) {
        let known = self.known_of(spec);
        self.count(known.0);
        known
    }

    fn known_of(&mut self, spec: &JobSpec) -> (ClassId, QueueId) {
        if let Some((class, known)) = &self.last
            && spec.is_of(class)
            && self.classes.contains_key(&known.0)
        {
            return *known;
        }
        let class = spec.class();
        let known = self.known(&class);
        self.last = Some((class, known));
        known
    }

    fn known(&mut self, class: &Class) -> (ClassId, QueueId) {
        match self.class_ids.get(class) {
            Some(&known) => known,
            None => self.new_class(class.clone(), None),
        }
    }

    /// Counts one open job into this class.
    pub fn enter(&mut self, class: &Class) -> (ClassId, QueueId) {
        let known = self.known(class);
        self.count(known.0);
        known
    }

    /// Moves an open job that is matched differently from its class into a separate class.
    pub fn stand_apart(&mut self, from: ClassId, job: JobId) -> Option<ClassId> {
        let state = self.classes.get(&from).filter(|state| state.apart.is_none())?;
        let (id, _) = self.new_class(state.class.clone(), Some(job));
        self.count(id);
        self.leave(from);
        Some(id)
    }

    fn count(&mut self, id: ClassId) {
        if let Some(state) = self.classes.get_mut(&id) {
            state.jobs += 1;
            if state.jobs == 1 {
                self.idle_classes = self.idle_classes.saturating_sub(1);
            }
        }
    }

    fn new_class(&mut self, class: Class, apart: Option<JobId>) -> (ClassId, QueueId) {
        self.next += 1;
        let id = ClassId(self.next);
        let suits = self.profiles.suiting(&class);
        let line = self.lines.enter(suits, Demand::of(&class, apart));
        let queue = self.queues.enter(&class.queue);
        if apart.is_none() {
            self.class_ids.insert(class.clone(), (id, queue));
        }
        let (ready, paused) = (Ready::default(), self.paused.stops(&class));
        self.classes.insert(id, ClassState { class, apart, queue, line, ready, jobs: 0, paused });
        self.idle_classes += 1;
        (id, queue)
    }

    /// Counts one open job out of its class.
    pub fn leave(&mut self, id: ClassId) {
        let Some(state) = self.classes.get_mut(&id) else { return };
        state.jobs -= 1;
        match (state.jobs, state.apart) {
            (0, None) => {
                self.idle_classes += 1;
                if self.idle_classes > IDLE {
                    self.sweep_classes();
                }
            }
            (0, Some(_)) => {
                if let Some(state) = self.classes.remove(&id) {
                    self.forget(&state);
                }
            }
            _ => {}
        }
    }

    fn sweep_classes(&mut self) {
        let idle: Vec<_> = self.classes.extract_if(|_, state| state.jobs == 0).collect();
        for (_, state) in idle {
            self.class_ids.remove(&state.class);
            self.forget(&state);
        }
        self.idle_classes = 0;
    }

    fn forget(&mut self, state: &ClassState) {
        self.queues.leave(state.queue);
        self.lines.leave(state.line, &mut self.profiles);
    }

    /// Marks a job as claimable.
    pub fn ready(&mut self, class: ClassId, rank: Rank) {
        self.change(class, |state| state.ready.insert(rank));
    }

    /// Changes a class, and updates its line if the head has changed.
    fn change(&mut self, class: ClassId, change: impl FnOnce(&mut ClassState)) {
        let Some(state) = self.classes.get_mut(&class) else { return };
        let before = state.head();
        change(state);
        let after = state.head();
        if before != after {
            self.lines.replace(state.line, class, before, after, &mut self.profiles);
        }
    }

    /// Pauses or resumes a queue or type. Returns whether jobs may be taken again.
    pub fn pause(&mut self, of: &LimitOf, pause: bool) -> bool {
        let changed = match (of, pause) {
            (LimitOf::Queue(name), true) => self.paused.queues.insert(name.clone()),
            (LimitOf::Queue(name), false) => self.paused.queues.remove(name),
            (LimitOf::Type(name), true) => self.paused.types.insert(name.clone()),
            (LimitOf::Type(name), false) => self.paused.types.remove(name),
        };
        let ids: Vec<ClassId> = self.classes.keys().copied().filter(|_| changed).collect();
        let mut resumed = false;
        for id in ids {
            let Some(state) = self.classes.get(&id) else { continue };
            let (before, paused) = (state.paused, self.paused.stops(&state.class));
            self.change(id, |state| state.paused = paused);
            resumed |= before && !paused && self.head(id).is_some();
        }
        resumed
    }

    /// Whether the queue of a class is paused, and whether its type is.
    pub fn is_paused(&self, class: &Class) -> (bool, bool) {
        (self.paused.queues.contains(&class.queue), self.paused.types.contains(&class.job_type))
    }

    /// Marks a job as no longer claimable.
    pub fn unready(&mut self, class: ClassId, rank: Rank) {
        self.change(class, |state| state.ready.remove(rank));
    }

    /// The first ready job of a class.
    pub fn head(&self, class: ClassId) -> Option<Rank> {
        self.classes.get(&class)?.head()
    }

    /// Whether jobs of a class are ready, paused or not.
    pub fn waits(&self, class: ClassId) -> bool {
        self.classes.get(&class).is_some_and(|state| !state.ready.is_empty())
    }

    /// The first ready job for a profile whose demand is met.
    pub fn best(
        &mut self,
        profile: ProfileId,
        meets: impl Fn(&Abilities, &Line, Rank) -> bool,
    ) -> Option<Rank> {
        self.profiles.get_mut(profile)?.best(&self.lines, meets)
    }

    /// The parked vacancy that has waited longest among those that match a class and meet its demand.
    pub fn vacancy_for(
        &self,
        class: ClassId,
        meets: impl Fn(&Abilities, &Line, VacancyId) -> bool + Copy,
    ) -> Option<VacancyId> {
        let state = self.classes.get(&class).filter(|state| !state.paused)?;
        self.profiles.longest_parked(self.lines.get(state.line)?, meets)
    }

    /// The line of a class.
    pub fn line(&self, class: ClassId) -> Option<&Line> {
        self.lines.get(self.classes.get(&class)?.line)
    }

    /// The lines of the classes of this queue.
    pub fn lines_of(&self, queue: QueueId) -> Vec<&Line> {
        let classes = self.classes.values().filter(|state| state.queue == queue);
        let lines: BTreeSet<LineId> = classes.map(|state| state.line).collect();
        lines.into_iter().filter_map(|line| self.lines.get(line)).collect()
    }

    /// Adds a session with these abilities.
    pub fn join(&mut self, abilities: Abilities, accepts: Accepts) -> ProfileId {
        let (id, is_new) = self.profiles.join(abilities, accepts);
        if is_new {
            self.compare(id);
        }
        id
    }

    /// Decides for every class whether it matches a new profile. Lines that match only in part are split.
    fn compare(&mut self, id: ProfileId) {
        let Some(profile) = self.profiles.get(id) else { return };
        let mut suited: HashMap<LineId, Vec<ClassId>> = HashMap::new();
        for (&class, state) in &self.classes {
            if state.class.suits(&profile.abilities, &profile.accepts) {
                suited.entry(state.line).or_default().push(class);
            }
        }
        for (line, classes) in suited {
            let Some(other) = self.lines.widen(line, classes.len(), id, &mut self.profiles) else { continue };
            for class in classes {
                let Some(state) = self.classes.get_mut(&class) else { continue };
                let head = state.head();
                self.lines.replace(line, class, head, None, &mut self.profiles);
                state.line = other;
                self.lines.replace(other, class, None, head, &mut self.profiles);
            }
        }
    }

    /// Removes a session of this profile.
    pub fn part(&mut self, profile: ProfileId) {
        if self.profiles.part(profile) {
            self.sweep_profiles();
        }
    }

    /// Removes unused profiles. Lines that differed only by them are merged.
    fn sweep_profiles(&mut self) {
        self.profiles.sweep();
        let old = std::mem::take(&mut self.lines);
        for (&class, state) in &mut self.classes {
            let suits = old.get(state.line).map_or(&[][..], |line| &line.suits).iter().copied();
            let kept = suits.filter(|&profile| self.profiles.get(profile).is_some()).collect();
            state.line = self.lines.enter(kept, Demand::of(&state.class, state.apart));
            let head = state.head();
            self.lines.replace(state.line, class, None, head, &mut self.profiles);
        }
    }

    /// Parks a vacancy.
    pub fn park(&mut self, profile: ProfileId, place: Place) {
        self.profiles.park(profile, place);
    }

    /// Removes a parked vacancy.
    pub fn unpark(&mut self, profile: ProfileId, place: Place) {
        self.profiles.unpark(profile, place);
    }

    /// What a profile offers, for explanations.
    pub fn profile(&self, profile: ProfileId) -> Option<(&Abilities, &Accepts)> {
        self.profiles.get(profile).map(|profile| (&profile.abilities, &profile.accepts))
    }

    /// The class itself.
    pub fn class(&self, class: ClassId) -> Option<&Class> {
        self.classes.get(&class).map(|state| &state.class)
    }

    /// All parked vacancies, longest waiting first within each profile.
    pub fn parked(&self) -> Vec<VacancyId> {
        self.profiles.parked().collect()
    }
}
