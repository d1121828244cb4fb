//! The order of what waits: ready jobs by class, parked vacancies by profile, and which suits which.
//!
//! Suiting is decided once per (class, profile), when either is first seen. A profile (equal abilities and accepts)
//! keeps the heads of the classes that suit it in order, lazily: when a head is taken, nobody is told, and the next
//! look finds the entry too low and lifts it. So a vacancy costs a few tree steps however many classes and jobs wait,
//! and a new job is compared with profiles, not with workers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{Class, JobId, QueueName, Time, TypeName};

use crate::effect::VacancyId;
use crate::ids::IdMap;
use crate::limits::LimitOf;
use crate::queues::{QueueId, Queues};

/// Jobs that are matched alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(u64);

/// Workers that are matched alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProfileId(u64);

/// A vacancy's place in the line of those that wait: the lowest turn is next.
pub(crate) type Place = (u64, VacancyId);

/// The order among suitable jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub priority: i32,
    pub run_at: Time,
    pub id: JobId,
}

/// Classes and profiles that nobody uses are kept up to this many, so that they need not be compared anew.
const IDLE: usize = 1_024;

#[derive(Debug)]
struct ClassState {
    class: Class,
    queue: QueueId,
    ready: BTreeSet<Rank>,
    suits: Vec<ProfileId>,
    /// Open jobs of the class, ready or not.
    jobs: usize,
    /// Its queue or its type is paused: nothing of it is given to anyone.
    paused: bool,
}

impl ClassState {
    /// The first ready job.
    fn head(&self) -> Option<Rank> {
        self.ready.first().copied().filter(|_| !self.paused)
    }
}

#[derive(Debug)]
struct Profile {
    abilities: Abilities,
    accepts: Accepts,
    sessions: usize,
    /// Lower bounds of the heads of suitable classes.
    heads: BTreeSet<(Rank, ClassId)>,
    head_of: IdMap<Rank>,
    /// Parked vacancies, longest waiting first.
    parked: BTreeSet<Place>,
}

impl Profile {
    fn offer(&mut self, class: ClassId, rank: Rank) {
        match self.head_of.insert(class.0, rank) {
            Some(known) if known <= rank => {
                self.head_of.insert(class.0, known);
            }
            Some(known) => {
                self.heads.remove(&(known, class));
                self.heads.insert((rank, class));
            }
            None => {
                self.heads.insert((rank, class));
            }
        }
    }

    fn lift(&mut self, class: ClassId, from: Rank, to: Option<Rank>) {
        self.heads.remove(&(from, class));
        self.head_of.remove(&class.0);
        if let Some(rank) = to {
            self.offer(class, rank);
        }
    }
}

/// Ready jobs and parked vacancies.
#[derive(Debug, Default)]
pub(crate) struct Board {
    classes: IdMap<ClassState>,
    class_ids: HashMap<Class, (ClassId, QueueId)>,
    profiles: BTreeMap<ProfileId, Profile>,
    profile_ids: HashMap<(Abilities, Accepts), ProfileId>,
    idle_classes: usize,
    next: u64,
    paused: Paused,
    pub queues: Queues,
}

/// What is paused.
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
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The class's number, given now if it has none.
    pub fn class_of(&mut self, class: &Class) -> ClassId {
        self.known(class).0
    }

    fn known(&mut self, class: &Class) -> (ClassId, QueueId) {
        match self.class_ids.get(class) {
            Some(&known) => known,
            None => self.new_class(class.clone()),
        }
    }

    /// Counts one open job into its class.
    pub fn enter(&mut self, class: &Class) -> (ClassId, QueueId) {
        let (id, queue) = self.known(class);
        if let Some(state) = self.classes.get_mut(&id.0) {
            state.jobs += 1;
            if state.jobs == 1 {
                self.idle_classes = self.idle_classes.saturating_sub(1);
            }
        }
        (id, queue)
    }

    fn new_class(&mut self, class: Class) -> (ClassId, QueueId) {
        let id = ClassId(self.fresh());
        let suits = self.profiles.iter().filter(|(_, p)| class.suits(&p.abilities, &p.accepts));
        let suits = suits.map(|(&id, _)| id).collect();
        let queue = self.queues.enter(&class.queue);
        self.class_ids.insert(class.clone(), (id, queue));
        let (ready, paused) = (BTreeSet::new(), self.paused.stops(&class));
        self.classes.insert(id.0, ClassState { class, queue, ready, suits, jobs: 0, paused });
        self.idle_classes += 1;
        (id, queue)
    }

    /// Counts one open job out of its class.
    pub fn leave(&mut self, id: ClassId) {
        let Some(state) = self.classes.get_mut(&id.0) else { return };
        state.jobs -= 1;
        if state.jobs == 0 {
            self.idle_classes += 1;
            if self.idle_classes > IDLE {
                self.sweep_classes();
            }
        }
    }

    fn sweep_classes(&mut self) {
        let Board { classes, class_ids, profiles, queues, .. } = self;
        classes.retain(|&id, state| {
            if state.jobs == 0 {
                class_ids.remove(&state.class);
                queues.leave(state.queue);
                for profile in profiles.values_mut() {
                    if let Some(&rank) = profile.head_of.get(&id) {
                        profile.lift(ClassId(id), rank, None);
                    }
                }
            }
            state.jobs > 0
        });
        self.idle_classes = 0;
    }

    /// A job may be claimed from now on.
    pub fn ready(&mut self, class: ClassId, rank: Rank) {
        let Some(state) = self.classes.get_mut(&class.0) else { return };
        state.ready.insert(rank);
        if state.head() == Some(rank) {
            self.offer(class, rank);
        }
    }

    /// Tells the profiles that suit a class what its first ready job is.
    fn offer(&mut self, class: ClassId, rank: Rank) {
        let Some(state) = self.classes.get(&class.0) else { return };
        for id in &state.suits {
            if let Some(profile) = self.profiles.get_mut(id) {
                profile.offer(class, rank);
            }
        }
    }

    /// A queue or type is paused, or goes on. Says whether jobs may be taken again.
    pub fn pause(&mut self, of: &LimitOf, pause: bool) -> bool {
        let changed = match (of, pause) {
            (LimitOf::Queue(name), true) => self.paused.queues.insert(name.clone()),
            (LimitOf::Queue(name), false) => self.paused.queues.remove(name),
            (LimitOf::Type(name), true) => self.paused.types.insert(name.clone()),
            (LimitOf::Type(name), false) => self.paused.types.remove(name),
        };
        let mut resumed = Vec::new();
        for (&id, state) in self.classes.iter_mut().filter(|_| changed) {
            let paused = self.paused.stops(&state.class);
            if std::mem::replace(&mut state.paused, paused) && !paused {
                resumed.extend(state.head().map(|rank| (ClassId(id), rank)));
            }
        }
        resumed.iter().for_each(|&(class, rank)| self.offer(class, rank));
        !resumed.is_empty()
    }

    /// Whether the queue of a class is paused, and whether its type is.
    pub fn is_paused(&self, class: &Class) -> (bool, bool) {
        (self.paused.queues.contains(&class.queue), self.paused.types.contains(&class.job_type))
    }

    /// A job may no longer be claimed.
    pub fn unready(&mut self, class: ClassId, rank: Rank) {
        if let Some(state) = self.classes.get_mut(&class.0) {
            state.ready.remove(&rank);
        }
    }

    /// The first ready job of a class.
    pub fn head(&self, class: ClassId) -> Option<Rank> {
        self.classes.get(&class.0)?.head()
    }

    /// The first ready job for a profile.
    pub fn best(&mut self, profile: ProfileId) -> Option<Rank> {
        let profile = self.profiles.get_mut(&profile)?;
        loop {
            let &(rank, class) = profile.heads.first()?;
            let head = self.classes.get(&class.0).and_then(ClassState::head);
            if head == Some(rank) {
                return head;
            }
            profile.lift(class, rank, head);
        }
    }

    /// The parked vacancy that has waited longest among those that suit a class.
    pub fn vacancy_for(&self, class: ClassId) -> Option<VacancyId> {
        let state = self.classes.get(&class.0).filter(|state| !state.paused)?;
        state.suits.iter().filter_map(|id| self.profiles.get(id)?.parked.first()).min().map(|&(_, id)| id)
    }

    /// The profiles that suit a class of this queue.
    pub fn suiting(&self, queue: QueueId) -> BTreeSet<ProfileId> {
        let mut found = BTreeSet::new();
        for state in self.classes.values().filter(|state| state.queue == queue) {
            found.extend(&state.suits);
            if found.len() == self.profiles.len() {
                break;
            }
        }
        found
    }

    /// A session with these abilities begins.
    pub fn join(&mut self, abilities: Abilities, accepts: Accepts) -> ProfileId {
        let key = (abilities, accepts);
        let id = match self.profile_ids.get(&key) {
            Some(&id) => id,
            None => self.new_profile(key),
        };
        if let Some(profile) = self.profiles.get_mut(&id) {
            profile.sessions += 1;
        }
        id
    }

    fn new_profile(&mut self, key: (Abilities, Accepts)) -> ProfileId {
        self.sweep_profiles();
        let id = ProfileId(self.fresh());
        let (abilities, accepts) = key.clone();
        let (heads, head_of, parked) = (BTreeSet::new(), IdMap::default(), BTreeSet::new());
        let mut profile = Profile { abilities, accepts, sessions: 0, heads, head_of, parked };
        for (&class, state) in &mut self.classes {
            if state.class.suits(&profile.abilities, &profile.accepts) {
                state.suits.push(id);
                if let Some(rank) = state.head() {
                    profile.offer(ClassId(class), rank);
                }
            }
        }
        self.profile_ids.insert(key, id);
        self.profiles.insert(id, profile);
        id
    }

    fn sweep_profiles(&mut self) {
        if self.profiles.len() < IDLE {
            return;
        }
        self.profiles.retain(|_, profile| profile.sessions > 0);
        let profiles = &self.profiles;
        self.profile_ids.retain(|_, id| profiles.contains_key(id));
        for state in self.classes.values_mut() {
            state.suits.retain(|id| profiles.contains_key(id));
        }
    }

    /// A session of this profile is over.
    pub fn part(&mut self, profile: ProfileId) {
        if let Some(profile) = self.profiles.get_mut(&profile) {
            profile.sessions -= 1;
        }
    }

    /// A vacancy waits.
    pub fn park(&mut self, profile: ProfileId, place: Place) {
        if let Some(profile) = self.profiles.get_mut(&profile) {
            profile.parked.insert(place);
        }
    }

    /// A vacancy waits no longer.
    pub fn unpark(&mut self, profile: ProfileId, place: Place) {
        if let Some(profile) = self.profiles.get_mut(&profile) {
            profile.parked.remove(&place);
        }
    }

    /// What a profile offers, for explanations.
    pub fn profile(&self, profile: ProfileId) -> Option<(&Abilities, &Accepts)> {
        self.profiles.get(&profile).map(|profile| (&profile.abilities, &profile.accepts))
    }

    /// The class itself.
    pub fn class(&self, class: ClassId) -> Option<&Class> {
        self.classes.get(&class.0).map(|state| &state.class)
    }

    /// All parked vacancies, longest waiting first within each profile.
    pub fn parked(&self) -> Vec<(ProfileId, VacancyId)> {
        let parked =
            self.profiles.iter().flat_map(|(&id, p)| p.parked.iter().map(move |&(_, vacancy)| (id, vacancy)));
        parked.collect()
    }
}
