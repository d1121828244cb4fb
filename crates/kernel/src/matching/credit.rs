//! Credit: the number of jobs that may be assigned to a session, set only by its worker.
//!
//! It is counted from the beginning of the session, so messages may cross: setting it is idempotent, and a worker that
//! frees a slot adds one whether or not it has received its last assignment. Internally it is a vacancy that lasts as
//! long as the session is connected.

use jobhall_core::JobId;
use jobhall_core::bounds::VACANCY_SLOTS;

use crate::api::answer::{Noted, Rejected};
use crate::api::effect::{Ended, SessionId, VacancyId};
use crate::api::ticket::Ticket;
use crate::kernel::Kernel;
use crate::matching::Fleet;
use crate::matching::board::Board;
use crate::matching::vacancy::Vacancy;

impl Fleet {
    /// The slot of an attempt that waits counts as free for its session.
    pub(crate) fn lend_slot(&mut self, id: JobId, board: &mut Board) {
        let Some(session) = self.holder(id) else { return };
        if let Some(state) = self.session_mut(session) {
            state.suspended.insert(id);
        }
        self.count_lent(session, board);
    }

    /// The slot of an attempt that resumes, or is no longer held, does not count as free any more.
    pub(crate) fn take_slot(&mut self, id: JobId, session: SessionId, board: &mut Board) {
        let Some(state) = self.session_mut(session) else { return };
        state.ready.retain(|ready| *ready != id);
        if state.suspended.remove(&id) {
            self.count_lent(session, board);
        }
    }

    fn count_lent(&mut self, session: SessionId, board: &mut Board) {
        let Some(state) = self.session(session) else { return };
        let (lent, credit) = (state.suspended.len(), state.credit);
        let Some((id, vacancy)) = credit.and_then(|id| Some((id, self.vacancy_mut(id)?))) else {
            return;
        };
        vacancy.lent = lent as u64;
        if vacancy.free() == 0 {
            let (profile, turn) = (vacancy.profile, vacancy.turn);
            board.unpark(profile, (turn, id));
        }
    }
}

impl Kernel {
    /// Sets the total number of jobs that may be assigned to a session.
    pub(crate) fn credit(&mut self, session: SessionId, total: i64, ticket: Ticket<Noted>) {
        let id = match self.credit_of(session) {
            Ok(id) => id,
            Err(refused) => return self.answer(ticket, Err(refused)),
        };
        let turn = self.env.number();
        let Some(vacancy) = self.fleet.vacancies.get_mut(&id) else { return };
        let (given, most) = (total.saturating_sub_unsigned(vacancy.taken + vacancy.pending), VACANCY_SLOTS);
        let (given, most) = (u64::try_from(given).unwrap_or(0), u64::from(most));
        if given > most {
            let refused = Rejected::Bound { field: "vacancies", given, least: 0, most };
            return self.answer(ticket, Err(refused));
        }
        if vacancy.free() == 0 {
            vacancy.turn = turn;
        }
        vacancy.total = total;
        let (profile, place, free) = (vacancy.profile, (vacancy.turn, id), vacancy.free());
        self.answer(ticket, Ok(Noted));
        if free == 0 {
            self.board.unpark(profile, place);
        } else {
            self.fill(id);
        }
    }

    /// The vacancy that represents a session's credit, created if there is none.
    fn credit_of(&mut self, session: SessionId) -> Result<VacancyId, Rejected> {
        let id = VacancyId(self.env.number());
        let state = self.fleet.sessions.get_mut(&session).filter(|state| state.connected);
        let state = state.ok_or(Rejected::NoSuchSession)?;
        if let Some(id) = state.credit {
            return Ok(id);
        }
        let profile = state.profile.ok_or(Rejected::NoSuchSession)?;
        state.credit = Some(id);
        state.vacancies.insert(id);
        let (worker, paused, turn) = (state.worker.clone(), state.paused, id.0);
        let lent = state.suspended.len() as u64;
        let (total, taken, pending, until, ended) = (0, 0, 0, None, None);
        let vacancy =
            Vacancy { session, profile, worker, total, lent, taken, pending, turn, until, paused, ended };
        self.fleet.vacancies.insert(id, vacancy);
        Ok(id)
    }

    /// Ends a vacancy at the request of its worker. A vacancy that has already ended is accepted too.
    pub(crate) fn withdraw(&mut self, session: SessionId, vacancy: VacancyId) -> Result<Noted, Rejected> {
        let state = self.fleet.sessions.get(&session).ok_or(Rejected::NoSuchSession)?;
        if state.vacancies.contains(&vacancy) && state.credit != Some(vacancy) {
            self.end_vacancy(vacancy, Ended::Withdrawn);
        }
        Ok(Noted)
    }
}
