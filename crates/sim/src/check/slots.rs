//! Slots: while a session certainly has a free slot, no job that matches it and is certainly ready stays ready, except
//! one that waits for a worker that it does not avoid, and that only for a bounded time.
//!
//! Only jobs without limits and resources are examined, and only sessions that give credit: what else may hold a job
//! back is not known here. A failed request of the store pauses the kernel, so jobs count as ready anew after it.

use std::collections::BTreeSet;

use jobhall_core::{Job, State};

use super::{Checker, Invariant, Seen};
use crate::script::calendar::start_of;
use crate::script::words;

/// The time that the kernel pauses after a failure of the store, and more.
const MARGIN_MS: u64 = 2_000;

impl Checker {
    /// The kernel receives that the store has failed.
    pub fn store_failed(&mut self) {
        self.ready_since.clear();
        self.waits_pause();
    }

    /// The kernel ran its timers.
    pub(super) fn slots_are_taken(&mut self) {
        let now = self.now.mono;
        let ready: BTreeSet<_> =
            self.rows.values().filter(|job| self.is_ready(job)).map(|job| job.id).collect();
        self.ready_since.retain(|id, _| ready.contains(id));
        for id in ready {
            self.ready_since.entry(id).or_insert(now);
        }
        // A pending claim may have the slot.
        if !self.untold.is_empty() || self.violation.is_some() {
            return;
        }
        let late = |job: &&Job, since: u64| now - since > self.patience(job) + MARGIN_MS;
        let mut late = self.ready_since.iter().filter_map(|(id, since)| {
            let job = self.rows.get(id)?;
            late(&job, *since).then_some((job, now - since))
        });
        let found = late.find_map(|(job, ms)| {
            let free = |seen: &&Seen| words::suits(&seen.worker, seen.skill, seen.accepts, &job.spec);
            Some((job.id, ms, self.with_room().find(free)?.worker.clone()))
        });
        if let Some((id, ms, worker)) = found {
            let text = format!("job {id} has been ready for {ms} ms, and {worker} has a free slot");
            self.fail(Invariant::Slots, &[id], text);
        }
    }

    /// How long a ready job may wait for another worker.
    fn patience(&self, job: &Job) -> u64 {
        let avoids = job.spec.avoid && (job.status.attempt > 0 || job.spec.copy_of.is_some());
        if avoids { self.config.avoid_ms } else { 0 }
    }

    /// Connected sessions that certainly have a free slot.
    fn with_room(&self) -> impl Iterator<Item = &Seen> {
        let live = self.sessions.iter().filter(|(_, seen)| seen.connected && !seen.ended && !seen.closed);
        let room =
            |id, seen: &Seen| self.credit.last(id).is_some_and(|total| total > seen.assigned.cast_signed());
        live.filter(move |&(&id, seen)| room(id, seen)).map(|(_, seen)| seen)
    }

    /// Whether the kernel certainly has a job among the ready ones, and nothing but workers can hold it back.
    fn is_ready(&self, job: &Job) -> bool {
        let (id, now) = (job.id, self.now.wall);
        matches!(job.status.state, State::Queued(_))
            && !job.status.hold
            && start_of(job, now) <= now
            && words::used(&job.spec) == [0, 0]
            && !self.may_be_kept(job)
            && !self.untold.contains_key(&id)
            && !self.reading.contains_key(&id)
            && !self.limited.unread.contains(&id)
    }
}
