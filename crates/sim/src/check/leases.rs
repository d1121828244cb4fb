//! Leases: sessions, assignments, and decisions to end a lease, each checked when it is made.

use jobhall_core::{AttemptId, Job, JobId, JobStatus, State, StopWhy, Timeouts};
use jobhall_kernel::{Assignment, SessionId};
use jobhall_store::Unit;

use super::ends::{By, End};
use super::{Checker, Holding, Invariant, Seen};
use crate::script::calendar;
use crate::script::words;

/// The default timeout of an attempt.
const DAY_MS: u64 = 24 * 3_600_000;

impl Checker {
    /// The kernel opened a session.
    pub fn session_opened(&mut self, session: SessionId, seen: Seen, kept: &[AttemptId]) {
        self.sessions.insert(session, seen);
        for attempt in kept {
            let known = self.holds.get(&attempt.job).filter(|hold| hold.claim == attempt.claim);
            let since = known.map_or(self.now.mono, |hold| hold.since);
            if let Some(from) = known.map(|hold| hold.session) {
                self.credit.moved(attempt.job, from, self.now.mono);
            }
            self.holds.insert(attempt.job, Holding { claim: attempt.claim, session, since });
        }
    }

    /// A worker starts the work of a job that runs at most once.
    pub fn starts_once(&mut self, attempt: AttemptId) {
        self.seen.push(("orders", "started at most once"));
        if let Some(before) = self.once.insert(attempt.job, attempt) {
            let text = format!("{attempt} is started, but the job was started before, as {before}");
            self.fail(Invariant::Once, &[attempt.job], text);
        }
    }

    /// The kernel ends a session.
    pub fn session_ended(&mut self, session: SessionId) {
        let (now, lease_ms) = (self.now.mono, self.config.lease_ms);
        let Some(seen) = self.sessions.get_mut(&session) else {
            let (age, anew) = (now - self.started, !self.anew.is_empty());
            return self.must(age >= lease_ms || anew, Invariant::Renewed, &[], || {
                format!("a session from before the start ended {age} ms after it")
            });
        };
        seen.ended = true;
        let lapsed = seen.closed || seen.replaced || now >= seen.renewed + seen.lease_ms;
        let worker = seen.worker.clone();
        let silent = now - seen.renewed;
        let reported =
            |end: &&End| end.worker == worker && matches!(end.by, By::Success(..) | By::Failure(..));
        if self.ends.values().any(|end| reported(&end)) {
            self.seen.push(("orders", "lease ended after its report"));
        }
        let jobs: Vec<_> = self.held_by(session);
        self.must(lapsed, Invariant::Renewed, &jobs, || {
            format!("the session of {worker} ended {silent} ms after its last renewal")
        });
    }

    /// Whether the attempt of a job waits, as far as is stored.
    pub(super) fn waits_for_jobs(&self, id: JobId) -> bool {
        let row = self.rows.get(&id);
        row.is_some_and(|row| {
            matches!(row.status.state, State::Waiting(_)) && row.status.state.leased().is_some()
        })
    }

    fn held_by(&self, session: SessionId) -> Vec<JobId> {
        let held = self.holds.iter().filter(|(_, hold)| hold.session == session);
        held.map(|(&id, _)| id).collect()
    }

    /// A worker is assigned a job.
    pub fn assigned_to(&mut self, session: SessionId, assignment: &Assignment) {
        let attempt = assignment.attempt;
        let id = attempt.job;
        if let Some(seen) = self.sessions.get_mut(&session) {
            seen.assigned += 1;
        }
        let Some(seen) = self.sessions.get(&session).cloned() else {
            return self.fail(
                Invariant::Suits,
                &[id],
                format!("{attempt} is assigned to an unknown session"),
            );
        };
        self.must(seen.connected && !seen.ended, Invariant::Suits, &[id], || {
            format!("{attempt} is assigned to {}, which is not connected", seen.worker)
        });
        let Some(row) = self.rows.get(&id).cloned() else {
            return self.fail(Invariant::Lease, &[id], format!("{attempt} is assigned, but not stored"));
        };
        let first = self.assigned.insert(attempt);
        self.must(first, Invariant::Lease, &[id], || format!("{attempt} is assigned twice"));
        self.uses_what_is_there(&row, &seen);
        self.must(
            words::suits(&seen.worker, seen.skill, seen.accepts, &row.spec),
            Invariant::Suits,
            &[id],
            || format!("{attempt} is assigned to {}, which does not match", seen.worker),
        );
        self.assigned_as_stored(&row, assignment, &seen);
        self.within_credit(session, attempt, &seen);
        let since = self.now.mono;
        self.begun.insert(attempt, since);
        self.holds.insert(id, Holding { claim: attempt.claim, session, since });
    }

    fn assigned_as_stored(&mut self, row: &Job, assignment: &Assignment, seen: &Seen) {
        let (id, attempt) = (row.id, assignment.attempt);
        self.must(!row.status.state.is_terminal(), Invariant::Cancel, &[id], || {
            format!("{attempt} is assigned after the job was completed")
        });
        let held = row.status.state.leased();
        let good = row.status.claim == attempt.claim
            && held.is_some_and(|held| held.lease.id == assignment.lease && held.lease.worker == seen.worker);
        self.must(good, Invariant::Lease, &[id], || {
            format!(
                "{attempt} is assigned to {} with a lease that is not the stored one: {:?}",
                seen.worker, row.status
            )
        });
        let number = row.status.attempt + u32::from(matches!(row.status.state, State::Assigned(_)));
        self.must(assignment.number == number, Invariant::Lease, &[id], || {
            format!("{attempt} is called attempt {} and not {number}", assignment.number)
        });
        self.must(assignment.spec.params == row.spec.params, Invariant::Stored, &[id], || {
            format!("{attempt} has the params {:?}, stored are {:?}", assignment.spec.params, row.spec.params)
        });
    }

    /// Units leave the kernel: their decisions are made now.
    pub fn decided(&mut self, units: &[Unit]) {
        for unit in units {
            for change in &unit.changes {
                if let Some(before) = self.rows.get(&change.id).cloned() {
                    self.decision(&before, &change.status);
                }
            }
            for insert in unit.inserts.iter().filter(|insert| insert.job.status.claim > 0) {
                self.in_time(&insert.job);
            }
        }
        self.after_all(units);
        self.in_order(units);
        self.within_limits(units);
        self.credit_of_claims(units);
        for id in units.iter().flat_map(touches) {
            self.ready_since.remove(&id);
            *self.untold.entry(id).or_default() += 1;
        }
    }

    /// The kernel received their results.
    pub fn told(&mut self, units: &[Unit]) {
        for id in units.iter().flat_map(touches) {
            self.touched.insert(id);
            self.limited.unread.remove(&id);
            if let Some(count) = self.untold.get_mut(&id) {
                *count -= 1;
                if *count == 0 {
                    self.untold.remove(&id);
                }
            }
        }
    }

    fn decision(&mut self, before: &Job, after: &JobStatus) {
        let id = before.id;
        if after.claim > before.status.claim {
            self.in_time(before);
            let cancelled = self.cancelled.contains(&id);
            self.must(!cancelled, Invariant::Cancel, &[id], || {
                format!("job {id} is claimed after its cancel")
            });
        }
        self.stops(before, after);
        self.external_in_time(before, after);
        let held = before.status.state.leased().is_some() && after.state.leased().is_none();
        let cancel_of_lost = matches!(&after.state, State::Cancelled(defeat)
            if defeat.outcome == jobhall_core::Outcome::Lost);
        if held && (after.lost > before.status.lost || cancel_of_lost) {
            self.loss(id, before.status.claim);
        }
        let cancel_unaccepted = matches!(&after.state, State::Cancelled(defeat)
            if defeat.last.is_none());
        if held && (after.unaccepted > before.status.unaccepted || cancel_unaccepted) {
            self.take_back(id, before.status.claim);
        }
    }

    /// An attempt is stopped when its time is over, and given up when the grace period of its worker is over. After a
    /// restart of the server only the wall clock is available, which may have been set.
    fn stops(&mut self, before: &Job, after: &JobStatus) {
        let (id, now) = (before.id, self.now.mono);
        let attempt = AttemptId { job: id, claim: before.status.claim };
        let timed_out = |status: &JobStatus| {
            let stop = status.state.leased().and_then(|held| held.stop.as_ref());
            stop.is_some_and(|stop| stop.why == StopWhy::TimeOut)
        };
        if timed_out(after) && !timed_out(&before.status) {
            self.stopped.insert(attempt, now);
            self.seen.push(("orders", "stopped for its time"));
            let Timeouts { total_ms, silence_ms } = before.spec.timeouts;
            let least = total_ms.unwrap_or(u64::MAX).min(silence_ms.unwrap_or(u64::MAX)).min(DAY_MS);
            let took = self.begun.get(&attempt).map(|since| now - since);
            self.must(took.is_none_or(|took| took >= least), Invariant::Early, &[id], || {
                format!("{attempt} is stopped after {took:?} ms, its limit is {least}")
            });
        }
        let forced = timed_out(&before.status) && after.state.leased().is_none() && !self.spoke(attempt);
        let session = self.holds.get(&id).and_then(|hold| self.sessions.get(&hold.session));
        let lost = after.lost > before.status.lost || session.is_none_or(|seen| seen.ended);
        if let Some(&at) = self.stopped.get(&attempt).filter(|_| forced && !lost) {
            self.seen.push(("orders", "given up for its time"));
            let grace = now - at;
            self.must(grace >= self.config.force_ms, Invariant::Early, &[id], || {
                format!("{attempt} is given up {grace} ms after the order to stop")
            });
        }
    }

    /// Whether an end of this attempt, or that it started external work, was reported, received or not.
    fn spoke(&self, attempt: AttemptId) -> bool {
        let of = (attempt.job, attempt.claim);
        self.reports.contains_key(&of) || self.started_external.contains_key(&of)
    }

    fn in_time(&mut self, job: &Job) {
        let (id, run_at, wall) = (job.id, job.status.run_at, self.now.wall);
        if !job.spec.windows.is_always() {
            let missed = calendar::start_of(job, wall) > run_at;
            self.seen.push((
                "windows",
                if missed { "claimed after a missed one" } else { "claimed in the first" },
            ));
            self.must(calendar::open(&job.spec, wall), Invariant::Early, &[id], || {
                format!("job {id} is claimed at {wall:?}, outside of {}", job.spec.windows)
            });
        }
        self.must(run_at <= wall, Invariant::Early, &[id], || {
            format!("job {id} is claimed {} ms before its time", run_at.since(wall))
        });
    }

    /// A lease is declared lost: its session must have ended, or the server was started a full lease term ago.
    fn loss(&mut self, id: JobId, claim: u32) {
        let hold = self.holds.get(&id).filter(|hold| hold.claim == claim).copied();
        let lapsed = match hold {
            Some(hold) => self.sessions.get(&hold.session).is_none_or(|seen| seen.ended),
            None => self.now.mono >= self.started + self.config.lease_ms || self.holder_began_anew(id),
        };
        self.must(lapsed, Invariant::Renewed, &[id], || {
            format!("{id}-{claim} is lost, but its session continues: {hold:?}")
        });
    }

    fn take_back(&mut self, id: JobId, claim: u32) {
        let attempt = AttemptId { job: id, claim };
        let accepted = self.accepted.contains(&attempt);
        self.must(!accepted, Invariant::Lease, &[id], || {
            format!("{attempt} is taken back although its accept was acknowledged")
        });
        let Some(hold) = self.holds.get(&id).filter(|hold| hold.claim == claim).copied() else { return };
        let there = self.sessions.get(&hold.session).is_some_and(|seen| seen.connected && !seen.ended);
        let waited = self.now.mono - hold.since;
        self.must(!there || waited >= self.config.accept_ms, Invariant::Renewed, &[id], || {
            format!("{attempt} is taken back after {waited} ms")
        });
    }
}

pub(super) fn touches(unit: &Unit) -> Vec<JobId> {
    let changed = unit.changes.iter().map(|change| change.id);
    changed.chain(unit.inserts.iter().map(|insert| insert.job.id)).collect()
}
