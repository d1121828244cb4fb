//! Credit: no session is assigned more jobs than its worker gave credit for. A waiting attempt adds its slot to the
//! credit, and takes it back when it continues.
//!
//! Credit is checked when a claim is decided; messages that arrive while the claim is being stored come too late
//! for it. All changes of one moment count for the whole moment, because the kernel may have decided before it
//! received them.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{AttemptId, JobId, JobStatus, State, WorkerName};
use jobhall_kernel::SessionId;
use jobhall_store::{Committed, Unit};

use super::{Checker, Holding, Invariant, Seen};

#[derive(Debug, Default)]
pub(super) struct Credit {
    /// The credit of each session, and its maximum at this time.
    totals: BTreeMap<SessionId, Total>,
    /// Attempts that wait, as far as the kernel knows: their slots are lent.
    waiting: BTreeSet<JobId>,
    /// Attempts that ended at this time.
    ended: (u64, BTreeSet<JobId>),
    /// Attempts that moved to another session at this time, each with its former session.
    moved: (u64, BTreeSet<(SessionId, JobId)>),
    /// For each pending claim: the number of jobs that may be assigned to each session of its worker.
    allowed: BTreeMap<AttemptId, BTreeMap<SessionId, i64>>,
}

#[derive(Clone, Copy, Debug)]
struct Total {
    at: u64,
    last: i64,
    most: i64,
}

impl Credit {
    /// A worker gives credit. It counts from now on, whether or not the worker receives the reply.
    pub fn given(&mut self, session: SessionId, total: i64, now: u64) {
        let known = self.totals.get(&session).copied();
        let most = known.map_or(total, |known| if known.at == now { known.most } else { known.last });
        self.totals.insert(session, Total { at: now, last: total, most: most.max(total) });
    }

    /// A worker brings an attempt along into another session. The claims of this moment may have been decided before.
    pub fn moved(&mut self, id: JobId, from: SessionId, now: u64) {
        if self.moved.0 != now {
            self.moved = (now, BTreeSet::new());
        }
        self.moved.1.insert((from, id));
    }

    /// Whether this session had the attempt in this moment, until it moved.
    fn had(&self, session: SessionId, id: JobId, now: u64) -> bool {
        self.moved.0 == now && self.moved.1.contains(&(session, id))
    }

    fn total(&self, session: SessionId, now: u64) -> Option<i64> {
        let total = self.totals.get(&session)?;
        Some(if total.at == now { total.most } else { total.last })
    }

    /// The credit of a session, if it has any.
    pub fn last(&self, session: SessionId) -> Option<i64> {
        self.totals.get(&session).map(|total| total.last)
    }

    /// Whether the slot of this attempt is lent, or was at this time.
    fn lends(&self, id: JobId, now: u64) -> bool {
        self.waiting.contains(&id) || (self.ended.0 == now && self.ended.1.contains(&id))
    }
}

impl Checker {
    /// The kernel received the results of units: from here on it knows which attempts wait.
    pub fn waits_told(&mut self, units: &[Unit], committed: Option<&Committed>) {
        let Some(committed) = committed else { return };
        let stored = units.iter().zip(&committed.results).filter(|(_, result)| result.is_ok());
        for change in stored.flat_map(|(unit, _)| &unit.changes) {
            if waits(&change.status) {
                self.credit.waiting.insert(change.id);
            } else {
                self.waits_no_more(change.id);
            }
        }
    }

    /// An attempt continues: it takes its slot back.
    pub fn goes_on(&mut self, id: JobId) {
        self.credit.waiting.remove(&id);
    }

    /// A waiting attempt ended. Its slot stays free until its worker reports new credit.
    fn waits_no_more(&mut self, id: JobId) {
        if self.credit.waiting.remove(&id) {
            if self.credit.ended.0 != self.now.mono {
                self.credit.ended = (self.now.mono, BTreeSet::new());
            }
            self.credit.ended.1.insert(id);
        }
    }

    /// After a restart of the server: attempts that are stored as waiting lend their slots.
    pub(super) fn lend_again(&mut self) {
        let waiting = self.rows.values().filter(|row| waits(&row.status)).map(|row| row.id);
        self.credit.waiting = waiting.collect();
    }

    /// Whether the kernel knows that the attempt of this job waits.
    pub(super) fn waits_known(&self, id: JobId) -> bool {
        self.credit.waiting.contains(&id)
    }

    /// Whether an attempt of this session waits.
    pub fn lends_slots(&self, session: SessionId) -> bool {
        self.credit.waiting.iter().any(|id| self.holds.get(id).is_some_and(|hold| hold.session == session))
    }

    /// Claims leave the kernel: records how many jobs each session of their workers may have.
    pub(super) fn credit_of_claims(&mut self, units: &[Unit]) {
        for unit in units {
            let changed = unit.changes.iter().filter(|change| {
                self.rows.get(&change.id).is_some_and(|row| change.status.claim > row.status.claim)
            });
            let changed = changed.map(|change| (change.id, &change.status));
            let new = unit.inserts.iter().map(|insert| (insert.job.id, &insert.job.status));
            let claims = changed.chain(new).filter_map(|(id, status)| {
                let held = status.state.leased()?;
                Some((AttemptId { job: id, claim: status.claim }, held.lease.worker.clone()))
            });
            for (attempt, worker) in claims.collect::<Vec<_>>() {
                let allowed = self.allowance(&worker);
                self.credit.allowed.insert(attempt, allowed);
            }
        }
    }

    /// How many claims are not stored yet that may be for this session: each has taken a slot.
    pub(super) fn pending_claims(&self, session: SessionId) -> u64 {
        let is_pending = |attempt: &AttemptId| {
            self.untold.contains_key(&attempt.job)
                || self.rows.get(&attempt.job).is_none_or(|row| row.status.claim < attempt.claim)
        };
        let claims = self.credit.allowed.iter().filter(|(_, allowed)| allowed.contains_key(&session));
        claims.filter(|(attempt, _)| is_pending(attempt)).count() as u64
    }

    fn allowance(&self, worker: &WorkerName) -> BTreeMap<SessionId, i64> {
        let now = self.now.mono;
        let sessions = self.sessions.iter().filter(|(_, seen)| seen.worker == *worker && !seen.ended);
        let allowed = sessions.filter_map(|(&session, _)| {
            let is_of = |id, hold: &Holding| hold.session == session || self.credit.had(session, id, now);
            let held = self.holds.iter().filter(|&(&id, hold)| is_of(id, hold));
            let lent = held.filter(|(id, _)| self.credit.lends(**id, now)).count();
            Some((session, self.credit.total(session, now)?.saturating_add_unsigned(lent as u64)))
        });
        allowed.collect()
    }

    /// Checks that an attempt is assigned within the credit of its session.
    pub(super) fn within_credit(&mut self, session: SessionId, attempt: AttemptId, seen: &Seen) {
        let Some(allowed) = self.credit.allowed.remove(&attempt) else { return };
        let Some(&most) = allowed.get(&session) else { return };
        self.must(seen.assigned.cast_signed() <= most, Invariant::Credit, &[attempt.job], || {
            let (worker, assigned) = (&seen.worker, seen.assigned);
            format!("{attempt} is assigned to {worker} as number {assigned}, which gave credit for {most}")
        });
        self.seen.push(("credit", "assigned within it"));
    }
}

/// Whether an attempt waits for jobs.
fn waits(status: &JobStatus) -> bool {
    matches!(status.state, State::Waiting(_)) && status.state.leased().is_some()
}
