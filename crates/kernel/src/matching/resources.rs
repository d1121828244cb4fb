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
use crate::api::time::Mono;
use crate::jobs::ids::IdMap;
use crate::kernel::{AgendaItem, Kernel};
use crate::matching::Fleet;
use crate::matching::avoid::Avoids;
use crate::matching::board::{ClassId, Line, Rank};
use crate::matching::session::{SessionState, Silence};

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
    /// If it has sent no heartbeat for longer than usual.
    pub silence: Option<Silence>,
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
    pub now: Mono,
}

impl Gate<'_> {
    /// Whether the first job of a line, which has this rank, may be assigned to this worker.
    pub fn meets(&self, worker: &WorkerName, abilities: &Abilities, line: &Line, rank: Rank) -> bool {
        line.demand.admits(worker)
            && self.leaves(worker, abilities, &line.demand.uses, rank)
            && line.demand.apart.is_none_or(|job| !self.goes_elsewhere(job, worker, line))
    }

    fn leaves(&self, worker: &WorkerName, abilities: &Abilities, uses: &Uses, rank: Rank) -> bool {
        let Some(state) = self.workers.get(worker) else { return uses.is_empty() };
        match &state.reserved_for {
            Some(kept) if rank > kept.rank => state.taken.leaves_beside(abilities, uses, &kept.uses),
            _ => state.taken.leaves(abilities, uses),
        }
    }
}

impl Fleet {
    pub(crate) fn gate(&self, now: Mono) -> Gate<'_> {
        Gate { workers: &self.workers, sessions: &self.sessions, avoids: &self.avoids, now }
    }

    /// Allocates what a job uses on its worker.
    pub(super) fn allocate(&mut self, worker: &WorkerName, uses: &Uses) -> Allocation {
        if uses.is_empty() {
            return None;
        }
        self.workers.entry(worker.clone()).or_default().taken.take(uses);
        Some(Box::new((worker.clone(), uses.clone())))
    }

    /// Frees an allocation. Returns its worker, whose vacancies are to be filled again.
    fn free(&mut self, allocation: Allocation) -> Option<WorkerName> {
        let (worker, uses) = *allocation?;
        if let Some(state) = self.workers.get_mut(&worker) {
            let whole = state.taken.give_back(&uses);
            debug_assert!(whole, "what is given back was taken");
        }
        self.forget_worker(&worker);
        Some(worker)
    }

    /// Removes a worker that has no session and no allocation.
    pub(super) fn forget_worker(&mut self, worker: &WorkerName) {
        let gone = |state: &WorkerState| state.sessions.is_empty() && state.taken.is_empty();
        if self.workers.get(worker).is_some_and(gone) {
            self.workers.remove(worker);
        }
    }

    /// Reserves a known worker for a job.
    fn reserve_worker(&mut self, worker: WorkerName, kept: Reservation) {
        if let Some(state) = self.workers.get_mut(&worker) {
            self.reservations.insert(kept.rank.id, worker);
            state.reserved_for = Some(kept);
        }
    }

    /// Ends the reservation for a job. Returns the worker that was reserved.
    fn unreserve(&mut self, job: JobId) -> Option<WorkerName> {
        let worker = self.reservations.remove(&job)?;
        if let Some(state) = self.workers.get_mut(&worker) {
            state.reserved_for = None;
        }
        Some(worker)
    }

    /// The jobs of a class that have a reservation.
    fn reserved_in(&self, class: ClassId) -> Vec<JobId> {
        let kept = |worker: &WorkerName| self.workers.get(worker)?.reserved_for.as_ref();
        let kept = self.reservations.values().filter_map(kept).filter(|kept| kept.class == class);
        kept.map(|kept| kept.rank.id).collect()
    }

    /// Takes the reservation of a worker.
    fn take_reservation(&mut self, worker: &WorkerName) -> Option<Reservation> {
        let kept = self.workers.get_mut(worker)?.reserved_for.take()?;
        self.reservations.remove(&kept.rank.id);
        Some(kept)
    }
}

impl Kernel {
    pub(crate) fn gate(&self) -> Gate<'_> {
        self.fleet.gate(self.env.mono())
    }

    /// The first ready job that a vacancy may take.
    pub(crate) fn best_for(&mut self, id: VacancyId) -> Option<Rank> {
        let vacancy = self.fleet.vacancies.get(&id)?;
        let gate = self.fleet.gate(self.env.mono());
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
        let (State::Assigned(held) | State::Accepted(held) | State::Running(held)) = entry.status.state()
        else {
            let hold = self.fleet.holders.get_mut(&id);
            let allocation = hold.and_then(|hold| hold.allocation.take());
            return self.free(allocation);
        };
        if self.fleet.holders.get(&id).is_some_and(|hold| hold.allocation.is_none()) {
            let worker = held.lease.worker.clone();
            let uses = self.uses_of(id);
            let allocation = self.fleet.allocate(&worker, &uses);
            if let Some(hold) = self.fleet.holders.get_mut(&id) {
                hold.allocation = allocation;
            }
        }
    }

    /// Frees an allocation, and fills the worker's vacancies again.
    pub(crate) fn free(&mut self, allocation: Allocation) {
        if let Some(worker) = self.fleet.free(allocation) {
            self.agenda.push(AgendaItem::Refill(worker));
        }
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

    /// Every worker that is present or has an allocation, by name.
    pub fn workers_in_use(&self) -> Vec<WorkerUse> {
        let told = |(worker, state): (&WorkerName, &WorkerState)| WorkerUse {
            worker: worker.clone(),
            taken: state.taken.clone(),
            reserved_for: state.reserved_for.as_ref().map(|kept| kept.rank.id),
            silence: self.silence_of(worker),
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
            session.takes_jobs()
                && session.profile.is_some_and(|profile| suits.binary_search(&profile).is_ok())
                && line.demand.admits(worker)
                && !kept
                && self.lacks(worker, &line.demand.uses)
                && line.demand.apart.is_none_or(|job| !gate.goes_elsewhere(job, worker, line))
        };
        let best = self.fleet.sessions.values().filter(free).min_by_key(|session| session.attempts.len());
        let Some(worker) = best.map(|session| session.worker.clone()) else { return };
        let kept = Reservation { rank, class, uses: line.demand.uses.clone() };
        self.unreserve(rank.id);
        self.fleet.reserve_worker(worker, kept);
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
        if let Some(worker) = self.fleet.unreserve(job) {
            self.agenda.push(AgendaItem::Refill(worker));
        }
    }

    /// Ends the reservations of a class whose jobs cannot be taken at the moment.
    pub(crate) fn unkeep_all(&mut self, class: ClassId) {
        for job in self.fleet.reserved_in(class) {
            self.unreserve(job);
        }
    }

    /// The worker reserved for a job is gone, takes no jobs, or came back in sessions that do not match: reserves
    /// another one.
    pub(crate) fn keep_elsewhere(&mut self, worker: &WorkerName) {
        let Some(state) = self.fleet.workers.get(worker) else { return };
        let Some(kept) = &state.reserved_for else { return };
        let suits = self.board.line(kept.class).map_or(&[][..], |line| &line.suits);
        let mut sessions = state.sessions.iter().filter_map(|id| self.fleet.sessions.get(id));
        let suited = |profile| suits.binary_search(&profile).is_ok();
        if sessions.any(|session| session.takes_jobs() && session.profile.is_some_and(suited)) {
            return;
        }
        let Some(kept) = self.fleet.take_reservation(worker) else { return };
        self.reserve_for(kept.class, kept.rank);
        self.agenda.push(AgendaItem::Refill(worker.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{id, rank, spec, worker};
    use crate::matching::board::Board;
    use crate::matching::tests::{add_session, profiles};

    fn uses(text: &str) -> Uses {
        Uses::parse(text).unwrap()
    }

    fn reservation(n: u64, gpus: &str) -> Reservation {
        Reservation { rank: rank(n), class: Board::default().class_of(&spec()), uses: uses(gpus) }
    }

    fn leaves(fleet: &Fleet, gpus: &str, n: u64) -> bool {
        let abilities = Abilities::parse("gpu=4").unwrap();
        fleet.gate(Mono(0)).leaves(&worker("a"), &abilities, &uses(gpus), rank(n))
    }

    #[test]
    fn what_attempts_use_is_added_up_per_worker_until_it_is_freed() {
        let mut fleet = Fleet::default();
        add_session(&mut fleet, 1, "a", Some(profiles()[0]));
        let one = fleet.allocate(&worker("a"), &uses("gpu=1"));
        fleet.allocate(&worker("b"), &uses("gpu=4"));
        fleet.allocate(&worker("a"), &uses("gpu=2"));
        assert!(leaves(&fleet, "gpu=1", 1) && !leaves(&fleet, "gpu=2", 1));
        assert_eq!(fleet.free(one), Some(worker("a")));
        assert!(leaves(&fleet, "gpu=2", 1) && !leaves(&fleet, "gpu=3", 1));
    }

    #[test]
    fn a_job_that_uses_nothing_allocates_nothing() {
        let mut fleet = Fleet::default();
        assert!(fleet.allocate(&worker("a"), &uses("")).is_none());
        assert!(fleet.worker(&worker("a")).is_none());
        assert_eq!(fleet.free(None), None);
    }

    #[test]
    fn a_worker_is_forgotten_when_it_has_neither_session_nor_allocation() {
        let mut fleet = Fleet::default();
        let one = fleet.allocate(&worker("a"), &uses("gpu=1"));
        fleet.forget_worker(&worker("a"));
        assert!(fleet.worker(&worker("a")).is_some(), "it has an allocation");
        add_session(&mut fleet, 1, "a", None);
        fleet.free(one);
        assert!(fleet.worker(&worker("a")).is_some(), "it has a session");
        let one = fleet.allocate(&worker("a"), &uses("gpu=1"));
        fleet.workers.get_mut(&worker("a")).unwrap().sessions.clear();
        fleet.free(one);
        assert!(fleet.worker(&worker("a")).is_none());
    }

    #[test]
    fn a_reservation_holds_back_later_ranks_only() {
        let mut fleet = Fleet::default();
        add_session(&mut fleet, 1, "a", Some(profiles()[0]));
        fleet.allocate(&worker("a"), &uses("gpu=2"));
        fleet.reserve_worker(worker("a"), reservation(5, "gpu=4"));
        assert_eq!(fleet.reserved_for(id(5)), Some(&worker("a")));
        assert!([4, 5].iter().all(|n| leaves(&fleet, "gpu=1", *n)));
        assert!(!leaves(&fleet, "gpu=1", 6));
        assert_eq!(fleet.unreserve(id(5)), Some(worker("a")));
        assert!(leaves(&fleet, "gpu=1", 6) && fleet.reserved_for(id(5)).is_none());
        assert_eq!(fleet.unreserve(id(5)), None);
    }

    #[test]
    fn an_unknown_worker_is_not_reserved_and_takes_only_jobs_that_use_nothing() {
        let mut fleet = Fleet::default();
        fleet.reserve_worker(worker("a"), reservation(5, "gpu=4"));
        assert!(fleet.reserved_for(id(5)).is_none());
        assert!(leaves(&fleet, "", 1) && !leaves(&fleet, "gpu=1", 1));
    }

    #[test]
    fn the_reservations_of_a_class_are_those_of_its_jobs() {
        let mut fleet = Fleet::default();
        let mut board = Board::default();
        let kept = |class, n| Reservation { class, ..reservation(n, "gpu=1") };
        let other = jobhall_core::JobSpec { uses: uses("gpu=1"), ..spec() };
        let [one, other] = [spec(), other].map(|spec| board.enter_job(&spec).0);
        for (n, name, class) in [(5, "a", one), (6, "b", other)] {
            add_session(&mut fleet, n, name, None);
            fleet.reserve_worker(worker(name), kept(class, n));
        }
        assert_eq!((fleet.reserved_in(one), fleet.reserved_in(other)), (vec![id(5)], vec![id(6)]));
        assert_eq!(fleet.take_reservation(&worker("a")).unwrap().rank, rank(5));
        assert!(fleet.reserved_in(one).is_empty() && fleet.reserved_for(id(5)).is_none());
        assert!(fleet.take_reservation(&worker("a")).is_none());
    }
}
