//! Resources of workers: what is in use, and which jobs may take the rest.
//!
//! Each claim in flight and each live attempt has an allocation of what its job uses. Nothing else takes resources, so
//! the amount in use is always the sum over the attempts, also after a restart, which finds them in the store. It is
//! counted per worker: a polling worker has a session for every poll, and a reconnecting worker has a new one.
//!
//! Small jobs fill every gap that a large job waits for. Therefore a worker is reserved for a job that has waited
//! long: on that worker, no job of a later rank takes what the large job needs (the rule and its proof are in
//! `core/needs/taken.rs`).

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::needs::{Abilities, Taken, Uses};
use jobhall_core::{JobId, State, WorkerName};

use crate::api::effect::{SessionId, VacancyId};
use crate::jobs::ids::IdMap;
use crate::kernel::{AgendaItem, Kernel};
use crate::matching::avoid::Avoids;
use crate::matching::board::{ClassId, Line, Rank};
use crate::matching::session::SessionState;

/// What one claim or attempt has allocated on its worker; none if its job uses nothing.
pub(crate) type Allocation = Option<Box<(WorkerName, Uses)>>;

/// The state of a worker beyond its sessions.
#[derive(Debug, Default)]
pub(crate) struct WorkerState {
    pub sessions: BTreeSet<SessionId>,
    pub taken: Taken,
    /// The long-waiting job that the worker is reserved for.
    pub reserved_for: Option<Reservation>,
}

/// The resources of a worker that are in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerUse {
    /// The worker.
    pub worker: WorkerName,
    /// What claims in flight and live attempts use.
    pub taken: Taken,
    /// The long-waiting job that the worker is reserved for.
    pub reserved_for: Option<JobId>,
}

/// A reservation for a job that has waited long for more than is free.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    pub rank: Rank,
    pub class: ClassId,
    pub uses: Uses,
}

/// Decides whether a worker meets the demand of a line now.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a> {
    pub workers: &'a BTreeMap<WorkerName, WorkerState>,
    pub sessions: &'a BTreeMap<SessionId, SessionState>,
    pub avoids: &'a IdMap<JobId, Avoids>,
}

impl Gate<'_> {
    /// Whether the first job of a line, which has this rank, may be assigned to this worker.
    pub fn meets(&self, worker: &WorkerName, abilities: &Abilities, line: &Line, rank: Rank) -> bool {
        self.leaves(worker, abilities, &line.demand.uses, rank)
            && line.demand.apart.is_none_or(|job| !self.goes_elsewhere(job, worker, &line.suits))
    }

    fn leaves(&self, worker: &WorkerName, abilities: &Abilities, uses: &Uses, rank: Rank) -> bool {
        let Some(state) = self.workers.get(worker) else { return uses.is_empty() };
        match &state.reserved_for {
            Some(kept) if rank > kept.rank => state.taken.leaves_beside(abilities, uses, &kept.uses),
            _ => state.taken.leaves(abilities, uses),
        }
    }
}

impl Kernel {
    pub(crate) fn gate(&self) -> Gate<'_> {
        Gate { workers: &self.fleet.workers, sessions: &self.fleet.sessions, avoids: &self.fleet.avoids }
    }

    /// The first ready job that a vacancy may take.
    pub(crate) fn best_for(&mut self, id: VacancyId) -> Option<Rank> {
        let vacancy = self.fleet.vacancies.get(&id)?;
        let gate =
            Gate { workers: &self.fleet.workers, sessions: &self.fleet.sessions, avoids: &self.fleet.avoids };
        let meets =
            |abilities: &Abilities, line: &Line, rank| gate.meets(&vacancy.worker, abilities, line, rank);
        self.board.best(vacancy.profile, meets)
    }

    /// The parked vacancy that may take a job of this class and rank.
    pub(crate) fn vacancy_for(&self, class: ClassId, rank: Rank) -> Option<VacancyId> {
        let gate = self.gate();
        let meets = |abilities: &Abilities, line: &Line, id| {
            let vacancy = self.fleet.vacancies.get(&id);
            vacancy.is_some_and(|vacancy| gate.meets(&vacancy.worker, abilities, line, rank))
        };
        self.board.vacancy_for(class, meets)
    }

    /// What an open job uses.
    pub(crate) fn uses_of(&self, id: JobId) -> Uses {
        let class = self.jobs.get(id).and_then(|entry| self.board.class(entry.class));
        class.map_or_else(Uses::default, |class| class.uses.clone())
    }

    /// Adjusts the allocation of an attempt to its state: while it waits for others it uses nothing.
    pub(crate) fn balance(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get(id) else { return };
        let (State::Assigned(held) | State::Accepted(held) | State::Running(held)) = &entry.life.state else {
            let hold = self.fleet.holders.get_mut(&id);
            let allocation = hold.and_then(|hold| hold.allocation.take());
            return self.free(allocation);
        };
        if self.fleet.holders.get(&id).is_some_and(|hold| hold.allocation.is_none()) {
            let worker = held.lease.worker.clone();
            let allocation = self.allocate(&worker, &self.uses_of(id));
            if let Some(hold) = self.fleet.holders.get_mut(&id) {
                hold.allocation = allocation;
            }
        }
    }

    /// Allocates what a job uses on its worker.
    pub(crate) fn allocate(&mut self, worker: &WorkerName, uses: &Uses) -> Allocation {
        if uses.is_empty() {
            return None;
        }
        self.fleet.workers.entry(worker.clone()).or_default().taken.take(uses);
        Some(Box::new((worker.clone(), uses.clone())))
    }

    /// Frees an allocation, and fills the worker's vacancies again.
    pub(crate) fn free(&mut self, allocation: Allocation) {
        let Some((worker, uses)) = allocation.map(|allocation| *allocation) else { return };
        if let Some(state) = self.fleet.workers.get_mut(&worker) {
            let whole = state.taken.give_back(&uses);
            debug_assert!(whole, "what is given back was taken");
        }
        self.agenda.push(AgendaItem::Refill(worker.clone()));
        self.forget_worker(&worker);
    }

    /// Fills every vacancy of a worker again.
    pub(crate) fn refill(&mut self, worker: &WorkerName) {
        let began = self.begin_sweep();
        self.refill_in_order(worker);
        self.close_sweep(began);
    }

    fn refill_in_order(&mut self, worker: &WorkerName) {
        let Some(state) = self.fleet.workers.get(worker) else { return };
        for session in state.sessions.clone() {
            self.resume_ready(session);
        }
        let Some(state) = self.fleet.workers.get(worker) else { return };
        let sessions = state.sessions.iter().filter_map(|id| self.fleet.sessions.get(id));
        let vacancies: Vec<_> = sessions.flat_map(|session| session.vacancies.iter().copied()).collect();
        for vacancy in vacancies {
            self.fill(vacancy);
        }
    }

    /// Removes a worker that has no session and no allocation.
    pub(crate) fn forget_worker(&mut self, worker: &WorkerName) {
        let gone = |state: &WorkerState| state.sessions.is_empty() && state.taken.is_empty();
        if self.fleet.workers.get(worker).is_some_and(gone) {
            self.fleet.workers.remove(worker);
        }
    }

    /// Every worker that is present or has an allocation, by name.
    pub fn workers_in_use(&self) -> Vec<WorkerUse> {
        let told = |(worker, state): (&WorkerName, &WorkerState)| WorkerUse {
            worker: worker.clone(),
            taken: state.taken.clone(),
            reserved_for: state.reserved_for.as_ref().map(|kept| kept.rank.id),
        };
        self.fleet.workers.iter().map(told).collect()
    }

    /// Reserves a worker for a job that has waited long: of the workers that match and lack what the job uses, the one
    /// with the fewest attempts. A worker that lacks only a slot needs no reservation: its next free slot goes to the
    /// job with the first rank.
    pub(crate) fn reserve_for(&mut self, class: ClassId, rank: Rank) {
        let Some(line) = self.board.line(class).filter(|line| !line.demand.uses.is_empty()) else { return };
        if self.fleet.reservations.get(&rank.id).is_some_and(|worker| self.lacks(worker, &line.demand.uses)) {
            return;
        }
        let gate = self.gate();
        let free = |session: &&SessionState| {
            let (worker, suits) = (&session.worker, &line.suits);
            let kept = self.fleet.workers.get(worker).is_some_and(|state| state.reserved_for.is_some());
            session.connected
                && session.profile.is_some_and(|profile| suits.binary_search(&profile).is_ok())
                && !kept
                && self.lacks(worker, &line.demand.uses)
                && line.demand.apart.is_none_or(|job| !gate.goes_elsewhere(job, worker, suits))
        };
        let best = self.fleet.sessions.values().filter(free).min_by_key(|session| session.attempts.len());
        let Some(worker) = best.map(|session| session.worker.clone()) else { return };
        let kept = Reservation { rank, class, uses: line.demand.uses.clone() };
        self.unreserve(rank.id);
        if let Some(state) = self.fleet.workers.get_mut(&worker) {
            state.reserved_for = Some(kept);
            self.fleet.reservations.insert(rank.id, worker);
        }
    }

    /// Whether a worker has too little left for this in every one of its sessions.
    fn lacks(&self, worker: &WorkerName, uses: &Uses) -> bool {
        let Some(state) = self.fleet.workers.get(worker) else { return false };
        let profiles = state.sessions.iter().filter_map(|id| self.fleet.sessions.get(id)?.profile);
        let mut abilities = profiles.filter_map(|profile| self.board.profile(profile));
        abilities.all(|(abilities, _)| !state.taken.leaves(abilities, uses))
    }

    /// Ends the reservation for a job that no longer waits.
    pub(crate) fn unreserve(&mut self, job: JobId) {
        let Some(worker) = self.fleet.reservations.remove(&job) else { return };
        if let Some(state) = self.fleet.workers.get_mut(&worker) {
            state.reserved_for = None;
        }
        self.agenda.push(AgendaItem::Refill(worker));
    }

    /// Ends the reservations of a class whose jobs cannot be taken at the moment.
    pub(crate) fn unkeep_all(&mut self, class: ClassId) {
        let kept = |worker: &WorkerName| self.fleet.workers.get(worker)?.reserved_for.as_ref();
        let kept = self.fleet.reservations.values().filter_map(kept).filter(|kept| kept.class == class);
        for job in kept.map(|kept| kept.rank.id).collect::<Vec<_>>() {
            self.unreserve(job);
        }
    }

    /// The worker reserved for a job is gone, or came back in sessions that do not match: reserves another one.
    pub(crate) fn keep_elsewhere(&mut self, worker: &WorkerName) {
        let Some(state) = self.fleet.workers.get(worker) else { return };
        let Some(kept) = &state.reserved_for else { return };
        let suits = self.board.line(kept.class).map_or(&[][..], |line| &line.suits);
        let mut sessions = state.sessions.iter().filter_map(|id| self.fleet.sessions.get(id));
        let suited = |profile| suits.binary_search(&profile).is_ok();
        if sessions.any(|session| session.connected && session.profile.is_some_and(suited)) {
            return;
        }
        let Some(kept) = self.fleet.workers.get_mut(worker).and_then(|state| state.reserved_for.take())
        else {
            return;
        };
        self.fleet.reservations.remove(&kept.rank.id);
        self.reserve_for(kept.class, kept.rank);
        self.agenda.push(AgendaItem::Refill(worker.clone()));
    }
}
