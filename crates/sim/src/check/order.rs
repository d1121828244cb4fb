//! Order: a worker is assigned the first ready job that it matches.
//!
//! From outside this can be checked only for jobs that the kernel certainly knew to be ready: stored as queued, due
//! at the last tick and now, not part of a pending or just answered unit, not being read.

use std::collections::BTreeSet;

use jobhall_core::{Job, JobId, JobStatus, State, Time, WorkerName};
use jobhall_store::Unit;

use super::leases::touches;
use super::{Checker, Invariant};
use crate::script::calendar::start_of;
use crate::script::words;

impl Checker {
    /// A call to the kernel begins.
    pub fn call(&mut self) {
        self.touched.clear();
    }

    /// The kernel ran its timers.
    pub fn ticked(&mut self) {
        self.ticked_wall = self.now.wall;
        self.latest_wall = self.latest_wall.max(self.now.wall);
        self.sessions_in_time();
        self.slots_are_taken();
        self.waits_in_time();
    }

    /// The kernel reads a job.
    pub fn reads(&mut self, id: JobId) {
        *self.reading.entry(id).or_default() += 1;
    }

    /// The kernel has read a job.
    pub fn has_read(&mut self, id: JobId) {
        self.touched.insert(id);
        self.limited.unread.remove(&id);
        if let Some(count) = self.reading.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.reading.remove(&id);
            }
        }
    }

    pub(super) fn in_order(&mut self, units: &[Unit]) {
        if !self.exact || self.violation.is_some() {
            return;
        }
        let mine: BTreeSet<_> = units.iter().flat_map(touches).collect();
        for (job, worker) in units.iter().flat_map(|unit| self.claims(unit)) {
            if let Some(better) = self.better(rank(&job, self.now.wall), &worker, &mine) {
                let id = job.id;
                let text =
                    format!("job {id} is assigned to {worker}, but job {better} matches and precedes it");
                return self.fail(Invariant::Order, &[id, better], text);
            }
        }
    }

    /// The jobs that a unit assigns: stored jobs, and new jobs that are created as assigned.
    fn claims(&self, unit: &Unit) -> Vec<(Job, WorkerName)> {
        let worker = |status: &JobStatus| status.state.leased().map(|held| held.lease.worker.clone());
        let stored = unit.changes.iter().filter_map(|change| {
            let before = self.rows.get(&change.id).filter(|row| change.status.claim > row.status.claim)?;
            Some((before.clone(), worker(&change.status)?))
        });
        let new = unit.inserts.iter().filter_map(|new| Some((new.job.clone(), worker(&new.job.status)?)));
        stored.chain(new).collect()
    }

    /// A ready job that matches the worker and precedes this rank.
    fn better(&self, than: (i32, Time, JobId), worker: &WorkerName, mine: &BTreeSet<JobId>) -> Option<JobId> {
        let mut seen = self.sessions.values().filter(|seen| seen.worker == *worker && !seen.ended);
        let (session, other) = (seen.next()?, seen.next());
        if other.is_some() {
            // It is unknown which of two sessions of a worker is meant.
            return None;
        }
        let (now, ticked) = (self.now.wall, self.ticked_wall);
        let due = |job: &&Job| start_of(job, now) <= now && start_of(job, ticked) <= ticked;
        let known = |job: &&Job| {
            let id = job.id;
            !mine.contains(&id)
                && !self.untold.contains_key(&id)
                && !self.touched.contains(&id)
                && !self.reading.contains_key(&id)
                && !self.limited.unread.contains(&id)
        };
        let suits = |job: &&Job| words::suits(&session.worker, session.skill, session.accepts, &job.spec);
        let suited = self.rows.values().filter(suits);
        let queued = suited.clone().filter(|job| matches!(job.status.state, State::Queued(_)));
        // While an old job waits for resources, later jobs that use the same resources are skipped; also if the old
        // job could not start after all because of a limit or because the clock was set back. The old job may be
        // released only in memory.
        let waits = |job: &&Job| match job.status.state {
            State::Queued(_) => true,
            State::Blocked(blocked) => blocked.holder.is_none() && self.is_released(job),
            _ => false,
        };
        let users = suited.filter(waits).filter(|job| words::used(&job.spec) != [0, 0] && self.was_due(job));
        let users: Vec<_> = users.map(|job| (rank(job, now).min(stored_rank(job)), job.id)).collect();
        let first_user = |job: &Job| users.iter().all(|&(other, id)| id == job.id || rank(job, now) < other);
        let ready = queued.filter(|job| due(job) && !self.may_be_kept(job)).filter(known);
        let mut better: Vec<_> = ready.filter(|job| rank(job, now) < than).collect();
        better.sort_by_key(|job| rank(job, now));
        // The earlier worker of a job, or the original of a copy, is not known here.
        let fits = |job: &&Job| {
            let used = words::used(&job.spec);
            let told = !(job.spec.avoid && (job.status.attempt > 0 || job.spec.copy_of.is_some()));
            told && (used == [0, 0] || (first_user(job) && self.certainly_left(session, used, mine)))
        };
        better.into_iter().find(fits).map(|job| job.id)
    }

    /// Whether a waiting job was due at some time, so that the kernel may have it among the ready jobs.
    fn was_due(&self, job: &Job) -> bool {
        let latest = self.latest_wall.max(self.now.wall);
        job.status.run_at <= latest
    }
}

fn stored_rank(job: &Job) -> (i32, Time, JobId) {
    (job.spec.priority, job.status.run_at, job.id)
}

fn rank(job: &Job, now: Time) -> (i32, Time, JobId) {
    (job.spec.priority, start_of(job, now), job.id)
}
