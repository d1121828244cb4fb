//! Vacancies: free capacity of workers, and the claims that fill it.

use std::sync::Arc;

use jobhall_core::bounds::VACANCY_SLOTS;
use jobhall_core::needs::Uses;
use jobhall_core::{AttemptId, Decision, Event, Job, JobId, JobSpec, JobStatus, WorkerName, transition};
use jobhall_store::{Change, Conflict, Unit};

use crate::api::answer::Rejected;
use crate::api::effect::{Assignment, Effect, Ended, SessionId, VacancyId};
use crate::api::ticket::Ticket;
use crate::api::time::Mono;
use crate::attempts::timing::Timing;
use crate::commits::settle::Pending;
use crate::commits::step::change;
use crate::jobs::entry::{Busy, Shared};
use crate::kernel::{AgendaItem, JobWork, Kernel};
use crate::limits::SENT_AWAY;
use crate::limits::Share;
use crate::matching::Fleet;
use crate::matching::board::{Board, ClassId, ProfileId, Rank};
use crate::matching::resources::Allocation;
use crate::matching::session::Hold;
use crate::upkeep::Deadline;

/// A worker's statement that it can take jobs now.
#[derive(Debug)]
pub(crate) struct Vacancy {
    pub session: SessionId,
    pub profile: ProfileId,
    pub worker: WorkerName,
    /// Maximum number of jobs over its lifetime.
    pub total: i64,
    /// Additional slots that are free because their attempts wait.
    pub lent: u64,
    /// Jobs that it has taken.
    pub taken: u64,
    /// Jobs whose claim for it is in flight.
    pub pending: u64,
    /// Its position among parked vacancies: the lowest has waited longest.
    pub turn: u64,
    /// When it expires; none for the credit of a session, which expires with the session.
    pub until: Option<Mono>,
    /// Whether its worker is paused: it takes no jobs until the worker is resumed.
    pub paused: bool,
    /// Why it takes no more jobs.
    pub ended: Option<Ended>,
}

impl Vacancy {
    /// Number of jobs it can take now.
    pub fn free(&self) -> u64 {
        if self.paused { 0 } else { self.room() }
    }

    /// Number of free slots, whether or not new jobs can take them.
    pub fn room(&self) -> u64 {
        let free =
            self.total.saturating_add_unsigned(self.lent).saturating_sub_unsigned(self.taken + self.pending);
        if self.ended.is_some() { 0 } else { u64::try_from(free).unwrap_or(0) }
    }

    /// Why it is removed; none while it stays. A credit stays without free slots.
    pub(super) fn over(&self) -> Option<Ended> {
        match self.ended {
            _ if self.pending > 0 => None,
            Some(why) => Some(why),
            None => (self.until.is_some() && self.free() == 0).then_some(Ended::Filled),
        }
    }
}

/// A slot reserved for a claim in flight, and the allocation of its job.
#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    pub vacancy: VacancyId,
    pub session: SessionId,
    pub allocation: Allocation,
}

/// A claim in flight.
#[derive(Debug)]
pub(crate) struct ClaimPending {
    pub id: JobId,
    pub status: JobStatus,
    pub reserved: Reserved,
    /// The version of the limits under which it was made.
    pub version: u64,
}

impl Fleet {
    /// Takes one slot of a vacancy, and allocates what the job uses. A credit with free slots goes behind the others,
    /// so that workers alternate.
    pub(super) fn reserve(
        &mut self,
        id: VacancyId,
        uses: &Uses,
        next_turn: u64,
        board: &mut Board,
    ) -> Option<(Reserved, WorkerName)> {
        let vacancy = self.vacancies.get_mut(&id).filter(|vacancy| vacancy.free() > 0)?;
        vacancy.pending += 1;
        if vacancy.free() == 0 {
            board.unpark(vacancy.profile, (vacancy.turn, id));
        } else if vacancy.until.is_none() {
            board.unpark(vacancy.profile, (vacancy.turn, id));
            vacancy.turn = next_turn;
            board.park(vacancy.profile, (vacancy.turn, id));
        }
        let (session, worker) = (vacancy.session, vacancy.worker.clone());
        let allocation = self.allocate(&worker, uses);
        Some((Reserved { vacancy: id, session, allocation }, worker))
    }
}

impl Kernel {
    pub(crate) fn vacancy(
        &mut self,
        session: SessionId,
        slots: u32,
        wait_ms: u64,
        ticket: Ticket<VacancyId>,
    ) {
        if !(1..=VACANCY_SLOTS).contains(&slots) {
            let (given, most) = (u64::from(slots), u64::from(VACANCY_SLOTS));
            return self.answer(ticket, Err(Rejected::Bound { field: "slots", given, least: 1, most }));
        }
        let id = VacancyId(self.env.number());
        let until = self.env.mono().plus_ms(wait_ms);
        let Some(state) = self.fleet.sessions.get_mut(&session).filter(|state| state.connected) else {
            return self.answer(ticket, Err(Rejected::NoSuchSession));
        };
        let Some(profile) = state.profile else {
            return self.answer(ticket, Err(Rejected::NoSuchSession));
        };
        state.vacancies.insert(id);
        let (worker, paused, total, turn) = (state.worker.clone(), state.paused, i64::from(slots), id.0);
        let (lent, taken, pending, until_then, ended) = (0, 0, 0, Some(until), None);
        let vacancy = Vacancy {
            session,
            profile,
            worker,
            total,
            lent,
            taken,
            pending,
            turn,
            until: until_then,
            paused,
            ended,
        };
        self.fleet.vacancies.insert(id, vacancy);
        self.deadlines.set(Deadline::Vacancy(until, id));
        self.answer(ticket, Ok(id));
        self.fill(id);
    }

    /// Fills a vacancy with the first ready jobs that match; the rest of it is parked.
    ///
    /// Between two claims, a limit may release a waiting job. It takes no slot by itself: a better job may be ready.
    pub(crate) fn fill(&mut self, id: VacancyId) {
        if self.agenda.grew() {
            return self.agenda.push(AgendaItem::Fill(id));
        }
        let began = self.begin_sweep();
        self.fill_in_order(id);
        self.close_sweep(began);
    }

    fn fill_in_order(&mut self, id: VacancyId) {
        if let Some(session) = self.fleet.vacancies.get(&id).map(|vacancy| vacancy.session) {
            self.resume_ready(session);
        }
        let mut sent_away = 0;
        loop {
            self.retry_waiters();
            if self.agenda.grew() {
                return self.agenda.push(AgendaItem::Fill(id));
            }
            let Some(vacancy) = self.fleet.vacancies.get(&id) else { return };
            if vacancy.free() == 0 || !self.matches() {
                break;
            }
            let Some(rank) = self.best_for(id) else { break };
            sent_away += usize::from(!self.claim(rank.id, id));
            if sent_away == SENT_AWAY {
                self.admission.fill_later(id);
                break;
            }
        }
        let Some(vacancy) = self.fleet.vacancies.get(&id) else { return };
        if vacancy.free() > 0 {
            self.board.park(vacancy.profile, (vacancy.turn, id));
        }
    }

    /// Offers a ready job of the class to a parked vacancy.
    pub(crate) fn wake(&mut self, class: ClassId) {
        let mut sent_away = 0;
        while self.matches() {
            if self.agenda.grew() {
                return self.agenda.push(AgendaItem::Wake(class));
            }
            if self.admission.wakes_later(class) {
                return;
            }
            let Some(rank) = self.board.head(class) else { return };
            let Some(vacancy) = self.vacancy_for(class, rank) else { return };
            sent_away += usize::from(!self.claim(rank.id, vacancy));
            if sent_away == SENT_AWAY {
                self.admission.fill_later(vacancy);
                return;
            }
        }
    }

    /// Whether jobs are assigned: not while matching is paused after a failed write, nor after the kernel has stopped.
    pub(crate) fn matches(&self) -> bool {
        self.commits.lets_match()
    }

    /// Matches everything that waits, after a pause or after a change that makes many jobs eligible.
    pub(crate) fn wake_all(&mut self) {
        let began = self.begin_sweep();
        self.read_shares();
        for vacancy in self.board.parked() {
            self.fill(vacancy);
        }
        self.close_sweep(began);
    }

    /// From now on, a job that becomes ready waits until the vacancies have been examined. Returns false if it does so
    /// already.
    pub(crate) fn begin_sweep(&mut self) -> bool {
        self.admission.begin_sweep()
    }

    /// Ends a sweep that began here, once its vacancies have been examined.
    pub(crate) fn close_sweep(&mut self, began: bool) {
        match (began, self.agenda.grew()) {
            (true, true) => self.agenda.push(AgendaItem::EndSweep),
            (true, false) => self.end_sweep(),
            (false, _) => {}
        }
    }

    /// The vacancies were examined: matches the jobs that became ready meanwhile.
    pub(crate) fn end_sweep(&mut self) {
        let mut classes: Vec<_> = self.admission.end_sweep().into_iter().collect();
        classes.sort_by_key(|&class| self.board.head(class));
        for class in classes {
            self.wake(class);
        }
    }

    /// Takes one slot of a vacancy, and allocates what the job uses.
    fn reserve(&mut self, id: VacancyId, uses: &Uses) -> Option<(Reserved, WorkerName)> {
        let next_turn = self.env.number();
        self.fleet.reserve(id, uses, next_turn, &mut self.board)
    }

    /// Returns the slot of a claim that failed.
    pub(crate) fn give_back(&mut self, reserved: Reserved) {
        self.free(reserved.allocation);
        if let Some(vacancy) = self.fleet.vacancies.get_mut(&reserved.vacancy) {
            vacancy.pending -= 1;
            self.end_if_over(reserved.vacancy);
            self.fill(reserved.vacancy);
        }
    }

    /// Claims a ready job for a vacancy. Returns whether the claim was sent; the job may have to wait after all.
    fn claim(&mut self, id: JobId, vacancy: VacancyId) -> bool {
        if self.not_due_after_all(id) || !self.take_limits(id) {
            return false;
        }
        let (uses, version) = (self.uses_of(id), self.admission.version());
        let Some((reserved, worker)) = self.reserve(vacancy, &uses) else {
            self.give_back_limits(id, version);
            return false;
        };
        let lease = self.env.lease();
        self.make_busy(id, Busy::Unit);
        let Some(entry) = self.jobs.get(id) else { return false };
        let event = Event::Claim { lease, worker };
        let Ok(Decision::Step(step)) = transition(&entry.status.get(), &event, self.env.wall()) else {
            self.give_back_limits(id, version);
            self.unclaim(id, reserved);
            return false;
        };
        let status = step.status;
        let want_spec = entry.spec.is_none();
        let change = Change { want_spec, ..change(id, entry.stored_rev, status.clone()) };
        let unit = Unit { changes: vec![change], ..Unit::default() };
        self.send(unit, Pending::Claim(Box::new(ClaimPending { id, status, reserved, version })));
        true
    }

    /// Reverts a claim that the state of the job does not allow.
    fn unclaim(&mut self, id: JobId, reserved: Reserved) {
        if let Some(vacancy) = self.fleet.vacancies.get_mut(&reserved.vacancy) {
            vacancy.pending -= 1;
            self.agenda.push(AgendaItem::Fill(reserved.vacancy));
        }
        self.free(reserved.allocation);
        if let Some(entry) = self.jobs.get_mut(id) {
            entry.busy = Busy::Free;
        }
    }

    /// A ready job whose time is in the future or whose windows are closed, because the wall clock was changed, waits
    /// again.
    fn not_due_after_all(&mut self, id: JobId) -> bool {
        let early = self.jobs.get(id).is_some_and(|entry| entry.too_early(self.env.wall()));
        if early {
            self.unplace(id);
            self.agenda.push(AgendaItem::Place(id));
        }
        early
    }

    /// Assigns a new job if a vacancy is parked, so that one write both inserts and assigns it.
    pub(crate) fn hand_over(&mut self, job: &mut Job, share: Option<&Share>) -> Option<Reserved> {
        // A copy must first exclude the workers of its original, which is not done for a new job.
        if !self.matches() || self.admission.is_sweeping() || (job.spec.avoid && job.spec.copy_of.is_some()) {
            return None;
        }
        let class = self.board.class_of(&job.spec);
        let rank = Rank { priority: job.spec.priority, run_at: job.status.run_at, id: job.id };
        let vacancy = self.vacancy_for(class, rank)?;
        if let Some(share) = share {
            if self.is_share_unknown(class) {
                return None;
            }
            let lenders = self.free_lenders(job.id);
            self.admission.take(rank, share, &lenders, self.env.mono())?;
        }
        let claimed = self.reserve(vacancy, &job.spec.uses).and_then(|(reserved, worker)| {
            let event = Event::Claim { lease: self.env.lease(), worker };
            match transition(&job.status, &event, self.env.wall()) {
                Ok(Decision::Step(step)) => job.status = step.status,
                _ => {
                    self.give_back(reserved);
                    return None;
                }
            }
            Some(reserved)
        });
        if let Some(share) = share.filter(|_| claimed.is_none()) {
            let version = self.admission.version();
            self.admission.give_back(job.id, share, version, self.env.mono());
        }
        claimed
    }

    /// The claim is stored.
    pub(crate) fn claimed(&mut self, pending: ClaimPending, spec: Option<Arc<JobSpec>>) {
        let ClaimPending { id, status, reserved, .. } = pending;
        self.stored(id, status.clone());
        if let (Some(entry), Some(spec)) = (self.jobs.get_mut(id), spec) {
            entry.spec = Some(spec);
            if *entry.share() == Shared::Unread {
                self.find_share(id);
            }
        }
        self.assigned(id, &status, reserved);
        self.make_free(id);
    }

    /// The job is durably assigned: the assignment is sent to the worker, unless its session has ended meanwhile.
    pub(crate) fn assigned(&mut self, id: JobId, status: &JobStatus, reserved: Reserved) {
        let Reserved { vacancy, session, allocation } = reserved;
        self.end_patience(id);
        if let Some(vacancy) = self.fleet.vacancies.get_mut(&vacancy) {
            vacancy.pending -= 1;
            vacancy.taken += 1;
        }
        let claim = status.claim;
        let Some(state) = self.fleet.sessions.get_mut(&session).filter(|state| state.connected) else {
            self.end_if_over(vacancy);
            self.free(allocation);
            return self.enqueue(JobWork::TakeBack(claim).on(id));
        };
        state.attempts.insert(id);
        let since = self.env.mono();
        let timing = Timing::default();
        self.fleet.holders.insert(id, Hold { session, since, check: None, timing, allocation });
        self.arm(id, since.plus_ms(self.env.config().save_ms.min(self.env.config().accept_ms)));
        let (Some(held), Some(entry)) = (status.state.leased(), self.jobs.get(id)) else { return };
        let Some(spec) = entry.spec.clone() else { return };
        let attempt = AttemptId { job: id, claim };
        self.env.observer().assigned(attempt, held);
        let (lease, number) = (held.lease.id, status.attempt + 1);
        let external = self.settings.type_config(&spec.job_type).external;
        let assignment = Assignment { attempt, lease, number, vacancy, spec, external };
        self.effect(Effect::Assign(session, assignment));
        self.end_if_over(vacancy);
    }

    pub(crate) fn claim_conflicted(&mut self, pending: ClaimPending, conflicts: Vec<Conflict>) {
        self.learn_all(conflicts);
        self.claim_undone(pending);
    }

    pub(crate) fn claim_undone(&mut self, pending: ClaimPending) {
        let lenders = self.give_back_limits(pending.id, pending.version);
        self.make_free(pending.id);
        self.give_back(pending.reserved);
        self.help_lenders(lenders);
    }

    /// Ends a vacancy for new jobs. It is removed once none of its claims is in flight.
    pub(crate) fn end_vacancy(&mut self, id: VacancyId, why: Ended) {
        let Some(vacancy) = self.fleet.vacancies.get_mut(&id) else { return };
        vacancy.ended.get_or_insert(why);
        let (profile, turn) = (vacancy.profile, vacancy.turn);
        self.board.unpark(profile, (turn, id));
        self.end_if_over(id);
    }

    fn end_if_over(&mut self, id: VacancyId) {
        let Some(vacancy) = self.fleet.vacancies.get(&id) else { return };
        let Some(why) = vacancy.over() else { return };
        let (session, until) = (vacancy.session, vacancy.until);
        self.fleet.vacancies.remove(&id);
        if let Some(until) = until {
            self.deadlines.clear(Deadline::Vacancy(until, id));
        }
        if let Some(state) = self.fleet.sessions.get_mut(&session) {
            state.vacancies.remove(&id);
        }
        self.effect(Effect::VacancyEnded(session, id, why));
    }
}
