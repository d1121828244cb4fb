//! Sessions of workers. A session owns its leases, and survives the loss of its connection.

use std::collections::{BTreeSet, VecDeque};

use jobhall_core::bounds::LEASE_MS;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{AttemptId, JobId, LeaseId, Time, WorkerName};

use crate::api::answer::{Noted, OpenedSession, Rejected};
use crate::api::effect::{Effect, Ended, SessionId, VacancyId};
use crate::api::ticket::Ticket;
use crate::api::time::Mono;
use crate::attempts::timing::Timing;
use crate::kernel::{JobWork, Kernel};
use crate::matching::Fleet;
use crate::matching::board::{Board, ProfileId};
use crate::matching::pause::WorkerConfig;
use crate::matching::resources::Allocation;
use crate::upkeep::Deadline;

/// The session of a worker.
#[derive(Debug)]
pub(crate) struct SessionState {
    pub worker: WorkerName,
    /// None for a session that is known only by its leases, after a restart.
    pub profile: Option<ProfileId>,
    /// How long it lives without a renewal.
    pub lease_ms: u64,
    pub until: Mono,
    pub connected: bool,
    /// Whether its worker is paused.
    pub paused: bool,
    /// Whether its worker finishes its jobs and exits.
    pub draining: bool,
    /// Whether its connection has ended and no renewal has arrived since.
    pub away: bool,
    pub attempts: BTreeSet<JobId>,
    pub vacancies: BTreeSet<VacancyId>,
    /// Attempts that wait for jobs: their slots are free.
    pub suspended: BTreeSet<JobId>,
    /// Suspended attempts whose wait is over, in order.
    pub ready: VecDeque<JobId>,
    /// The vacancy that represents the session's credit, if the worker gave one.
    pub credit: Option<VacancyId>,
}

/// What a worker opens a session with.
#[derive(Debug)]
pub(crate) struct Opening {
    pub worker: WorkerName,
    pub abilities: Abilities,
    pub accepts: Accepts,
    pub attempts: Vec<(AttemptId, LeaseId)>,
    pub lease_ms: Option<u64>,
    pub fresh: bool,
}

/// A worker that has sent no heartbeat for longer than usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The time since its last heartbeat.
    pub silent_ms: u64,
    /// When its leases end, unless it returns.
    pub until: Time,
    /// The attempts that it holds.
    pub attempts: Vec<AttemptId>,
}

/// The session that holds a live attempt, and when to check the attempt.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub session: SessionId,
    /// When it was assigned, or found at start.
    pub since: Mono,
    /// When to check it: it is not accepted yet, or not stored yet.
    pub check: Option<Mono>,
    /// Its time limits.
    pub timing: Timing,
    /// What it uses of its worker.
    pub allocation: Allocation,
}

impl SessionState {
    /// Whether jobs are assigned to it as soon as it has a free slot.
    pub fn takes_jobs(&self) -> bool {
        self.connected && !self.paused && !self.draining
    }
}

impl Fleet {
    /// Adds a session of a worker; one without a profile is known only by its leases.
    pub(super) fn add_session(
        &mut self,
        id: SessionId,
        worker: WorkerName,
        profile: Option<ProfileId>,
        (lease_ms, until): (u64, Mono),
    ) {
        let (connected, away) = (profile.is_some(), profile.is_none());
        let (attempts, vacancies) = (BTreeSet::new(), BTreeSet::new());
        let (suspended, ready, credit) = (BTreeSet::new(), VecDeque::new(), None);
        let WorkerConfig { paused, draining } = self.config(&worker);
        let draining = draining.is_some();
        self.workers.entry(worker.clone()).or_default().sessions.insert(id);
        let state = SessionState {
            worker,
            profile,
            lease_ms,
            until,
            connected,
            paused,
            draining,
            away,
            attempts,
            vacancies,
            suspended,
            ready,
            credit,
        };
        self.sessions.insert(id, state);
    }

    /// Gives a session another profile. Its vacancies are returned, none of them parked.
    fn set_profile(&mut self, id: SessionId, profile: ProfileId, board: &mut Board) -> Vec<VacancyId> {
        let Some(state) = self.sessions.get_mut(&id) else { return Vec::new() };
        state.profile = Some(profile);
        let all: Vec<_> = state.vacancies.iter().copied().collect();
        for id in &all {
            if let Some(vacancy) = self.vacancies.get_mut(id) {
                board.unpark(vacancy.profile, (vacancy.turn, *id));
                vacancy.profile = profile;
            }
        }
        all
    }

    /// The session of a worker that is known only by its leases.
    pub(super) fn lost_session(&self, worker: &WorkerName) -> Option<SessionId> {
        let mut sessions = self.sessions.iter();
        let lost = sessions.find(|(_, state)| state.profile.is_none() && state.worker == *worker);
        lost.map(|(&id, _)| id)
    }
}

impl Kernel {
    fn add_session(&mut self, worker: WorkerName, profile: Option<ProfileId>, lease_ms: u64) -> SessionId {
        let id = SessionId(self.env.secret());
        let until = self.env.mono().plus_ms(lease_ms);
        self.fleet.add_session(id, worker, profile, (lease_ms, until));
        self.deadlines.set(Deadline::Session(until, id));
        id
    }

    /// The lease of a new session: what its worker asks for, within bounds, or the server's.
    fn lease_of(&self, asked: Option<u64>) -> Result<u64, Rejected> {
        let most = self.env.config().lease_ms;
        let (given, least) = (asked.unwrap_or(most), LEASE_MS.min(most));
        if (least..=most).contains(&given) {
            return Ok(given);
        }
        Err(Rejected::Bound { field: "lease_ms", given, least, most })
    }

    /// Opens a session for a worker. Attempts that it still has and still holds move to the new session. A pending
    /// cancel of one of them is sent after the answer, because the answer announces the session.
    pub(crate) fn open_session(&mut self, opening: Opening, ticket: Ticket<OpenedSession>) {
        let Opening { worker, abilities, accepts, attempts, lease_ms, fresh } = opening;
        let lease_ms = match self.lease_of(lease_ms) {
            Ok(lease_ms) => lease_ms,
            Err(refused) => return self.answer(ticket, Err(refused)),
        };
        let profile = self.board.join(abilities, accepts);
        let session = self.add_session(worker.clone(), Some(profile), lease_ms);
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        for (attempt, lease) in attempts {
            if self.is_current(attempt, lease, &worker) {
                self.move_to(attempt.job, session);
                kept.push((attempt, lease));
            } else {
                lost.push(attempt);
            }
        }
        let told = kept.iter().map(|&(attempt, _)| attempt).collect();
        self.answer(ticket, Ok(OpenedSession { session, lease_ms, kept: told, lost }));
        for (attempt, lease) in kept {
            self.enqueue(JobWork::Keep(attempt.claim, lease).on(attempt.job));
        }
        if fresh {
            self.end_disconnected(&worker);
        }
    }

    /// Ends the sessions of a worker that have no connection: its process began anew, so nobody has their attempts.
    fn end_disconnected(&mut self, worker: &WorkerName) {
        let sessions = self.fleet.worker(worker).into_iter().flat_map(|state| &state.sessions);
        let gone = |id: &&SessionId| self.fleet.session(**id).is_some_and(|state| !state.connected);
        for session in sessions.filter(gone).copied().collect::<Vec<_>>() {
            self.end_session(session);
        }
    }

    /// Whether this is the current attempt of its job, and held by this worker.
    pub(crate) fn is_current(&self, attempt: AttemptId, lease: LeaseId, worker: &WorkerName) -> bool {
        self.jobs.get(attempt.job).is_some_and(|entry| {
            let held = entry.status.state().leased();
            entry.status.claim() == attempt.claim
                && held.is_some_and(|held| held.lease.id == lease && held.lease.worker == *worker)
        })
    }

    fn move_to(&mut self, id: JobId, session: SessionId) {
        let (since, timing) = (self.env.mono(), Timing::default());
        let new = Hold { session, since, check: None, timing, allocation: None };
        let hold = self.fleet.holders.entry(id).or_insert(new);
        let before = std::mem::replace(&mut hold.session, session);
        self.take_slot(id, before);
        if let Some(state) = self.fleet.sessions.get_mut(&before) {
            state.attempts.remove(&id);
        }
        if let Some(state) = self.fleet.sessions.get_mut(&session) {
            state.attempts.insert(id);
        }
        self.balance(id);
        if self.jobs.get(id).is_some_and(|entry| entry.waits_for_jobs()) {
            self.lend_slot(id);
            self.ready_again(id, session);
        }
    }

    /// Queues an attempt whose wait is over in its new session, which first announces its free slots.
    fn ready_again(&mut self, id: JobId, session: SessionId) {
        let over = self.relations.is_wait_over(id);
        if let Some(state) = self.fleet.sessions.get_mut(&session).filter(|_| over) {
            state.ready.push_back(id);
        }
    }

    /// Sets the time at which a live attempt is checked, replacing any other.
    pub(crate) fn arm(&mut self, id: JobId, at: Mono) {
        if let Some(hold) = self.fleet.holders.get_mut(&id) {
            if let Some(before) = hold.check.replace(at) {
                self.deadlines.clear(Deadline::Check(before, id));
            }
            self.deadlines.set(Deadline::Check(at, id));
        }
    }

    /// Registers a leased job found at start: its worker has one full term to reconnect.
    pub(crate) fn orphan(&mut self, id: JobId, worker: WorkerName) {
        let session = match self.fleet.lost_session(&worker) {
            Some(session) => session,
            None => self.add_session(worker, None, self.env.config().lease_ms),
        };
        self.move_to(id, session);
    }

    /// Removes the holder of a job.
    pub(crate) fn let_go(&mut self, id: JobId) {
        let Some(hold) = self.fleet.holders.remove(&id) else { return };
        if let Some(at) = hold.check {
            self.deadlines.clear(Deadline::Check(at, id));
        }
        if let Some(at) = hold.timing.at {
            self.deadlines.clear(Deadline::Timeout(at, id));
        }
        self.take_slot(id, hold.session);
        if let Some(state) = self.fleet.sessions.get_mut(&hold.session) {
            state.attempts.remove(&id);
        }
        self.free(hold.allocation);
    }

    pub(crate) fn renew(&mut self, session: SessionId) -> Result<Noted, Rejected> {
        let now = self.env.mono();
        let state = self.fleet.sessions.get_mut(&session).ok_or(Rejected::NoSuchSession)?;
        let until = now.plus_ms(state.lease_ms);
        self.deadlines.clear(Deadline::Session(state.until, session));
        state.until = until;
        state.away = false;
        self.deadlines.set(Deadline::Session(until, session));
        self.resume_ready(session);
        Ok(Noted)
    }

    /// The time since the last heartbeat of a session, and when the session ends; none if it is not silent. Workers
    /// renew after a third of the lease.
    pub(crate) fn silence(&self, session: &SessionState) -> Option<(u64, Time)> {
        let (now, lease_ms) = (self.env.mono(), session.lease_ms);
        let left_ms = session.until.0.saturating_sub(now.0);
        let silent_ms = lease_ms.saturating_sub(left_ms);
        let is_silent = session.away || silent_ms > lease_ms / 2;
        is_silent.then(|| (silent_ms, self.env.wall().plus_ms(left_ms)))
    }

    /// The same of a worker: none if one of its sessions is not silent.
    pub(crate) fn silence_of(&self, worker: &WorkerName) -> Option<Silence> {
        let sessions = &self.fleet.worker(worker)?.sessions;
        let sessions: Vec<_> = sessions.iter().filter_map(|id| self.fleet.session(*id)).collect();
        let silences: Option<Vec<_>> = sessions.iter().map(|session| self.silence(session)).collect();
        let (silent_ms, until) = silences?.into_iter().min()?;
        let attempt = |id: &JobId| Some(AttemptId { job: *id, claim: self.jobs.get(*id)?.status.claim() });
        let attempts = sessions.iter().flat_map(|session| &session.attempts).filter_map(attempt).collect();
        Some(Silence { silent_ms, until, attempts })
    }

    /// Replaces what a connected session offers, and fills its vacancies again. Its attempts go on, and a claim in flight
    /// was decided on what it offered before.
    pub(crate) fn set_abilities(
        &mut self,
        session: SessionId,
        abilities: Abilities,
        accepts: Accepts,
        ticket: Ticket<Noted>,
    ) {
        let state = self.fleet.sessions.get(&session).filter(|state| state.connected);
        let Some(before) = state.and_then(|state| state.profile) else {
            return self.answer(ticket, Err(Rejected::NoSuchSession));
        };
        let profile = self.board.join(abilities, accepts);
        let vacancies = self.fleet.set_profile(session, profile, &mut self.board);
        self.board.part(before);
        self.answer(ticket, Ok(Noted));
        if let Some(worker) = self.fleet.sessions.get(&session).map(|state| state.worker.clone()) {
            // A worker may be reserved for a job that it does not match any more, and be avoided by one that now waits
            // for nobody else.
            self.keep_elsewhere(&worker);
            self.reconsider();
        }
        for vacancy in vacancies {
            self.fill(vacancy);
        }
    }

    pub(crate) fn disconnect(&mut self, session: SessionId) -> Result<Noted, Rejected> {
        let state = self.fleet.sessions.get_mut(&session).ok_or(Rejected::NoSuchSession)?;
        state.connected = false;
        state.away = true;
        let worker = state.worker.clone();
        for vacancy in state.vacancies.clone() {
            self.end_vacancy(vacancy, Ended::Gone);
        }
        self.gone(&worker);
        Ok(Noted)
    }

    pub(crate) fn close_session(&mut self, session: SessionId) -> Result<Noted, Rejected> {
        self.disconnect(session)?;
        self.end_session(session);
        Ok(Noted)
    }

    /// Ends all sessions of a worker.
    pub(crate) fn end_worker(&mut self, worker: &WorkerName) -> Noted {
        let sessions = self.fleet.worker(worker).map(|state| state.sessions.clone());
        for session in sessions.into_iter().flatten() {
            self.end_session(session);
        }
        Noted
    }

    /// Ends a session and all its leases.
    pub(crate) fn end_session(&mut self, session: SessionId) {
        let Some(state) = self.fleet.sessions.get(&session) else { return };
        for vacancy in state.vacancies.clone() {
            self.end_vacancy(vacancy, Ended::Gone);
        }
        let Some(state) = self.fleet.sessions.remove(&session) else { return };
        self.deadlines.clear(Deadline::Session(state.until, session));
        if let Some(profile) = state.profile {
            self.board.part(profile);
        }
        if let Some(worker) = self.fleet.workers.get_mut(&state.worker) {
            worker.sessions.remove(&session);
        }
        self.gone(&state.worker);
        for id in state.attempts {
            if let Some(entry) = self.jobs.get(id) {
                let claim = entry.status.claim();
                self.enqueue(JobWork::LeaseEnd(claim, session).on(id));
            }
        }
        self.effect(Effect::SessionEnded(session));
    }

    /// A session of this worker takes no more jobs: what was reserved there is moved elsewhere.
    fn gone(&mut self, worker: &WorkerName) {
        self.keep_elsewhere(worker);
        self.fleet.forget_worker(worker);
        self.reconsider();
    }
}
