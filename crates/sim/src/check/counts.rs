//! Compares the kernel's counts with the rows, by queue and by state.

use std::collections::BTreeMap;

use jobhall_core::{JobId, QueueName, State, StateName, Time};
use jobhall_kernel::{Counts, Tally};

use super::{Checker, Invariant};
use crate::script::calendar;

/// Open jobs of one queue by stored state. The progress of an attempt may not be stored yet.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    fresh: u64,
    retrying: u64,
    blocked: u64,
    held: u64,
}

impl Found {
    fn told(tally: &Tally) -> Found {
        let held = [StateName::Assigned, StateName::Accepted, StateName::Running, StateName::Waiting];
        Found {
            fresh: tally.of(StateName::Queued) + tally.of(StateName::Scheduled),
            retrying: tally.of(StateName::Retrying),
            blocked: tally.of(StateName::Blocked),
            held: held.into_iter().map(|state| tally.of(state)).sum(),
        }
    }
}

impl Checker {
    /// The kernel reports its counts; no unit is pending in the store.
    pub fn counted(&mut self, counts: &Counts, latest_wall: Time) {
        let mut found: BTreeMap<QueueName, Found> = BTreeMap::new();
        let (mut ahead, mut open) = (0, Vec::<JobId>::new());
        // A job without open dependencies may have been released only in memory.
        let mut released: BTreeMap<QueueName, u64> = BTreeMap::new();
        let mut released_ahead = 0;
        for job in self.rows.values().filter(|job| !job.status.state.is_terminal()) {
            let queue = found.entry(job.spec.queue.clone()).or_default();
            match job.status.state {
                State::Queued(_) if job.status.attempt > 0 => queue.retrying += 1,
                State::Queued(_) => {
                    queue.fresh += 1;
                    ahead += u64::from(calendar::start_of(job, self.now.wall) > self.now.wall);
                }
                State::Blocked(blocked) => {
                    queue.blocked += 1;
                    if blocked.holder.is_none() && self.is_released(job) {
                        *released.entry(job.spec.queue.clone()).or_default() += 1;
                        released_ahead += u64::from(calendar::start_of(job, self.now.wall) > self.now.wall);
                    }
                }
                _ => queue.held += 1,
            }
            open.push(job.id);
        }
        let told = counts.queues.iter().filter(|(_, tally)| tally.open() > 0);
        let told: BTreeMap<_, _> = told.map(|(name, tally)| (name.clone(), Found::told(tally))).collect();
        let mut found_now = found;
        for (queue, found) in &mut found_now {
            let told_blocked = told.get(queue).map_or(0, |told| told.blocked);
            let gone =
                found.blocked.saturating_sub(told_blocked).min(released.get(queue).copied().unwrap_or(0));
            (found.blocked, found.fresh) = (found.blocked - gone, found.fresh + gone);
        }
        let found = found_now;
        self.must(told == found, Invariant::Counted, &open, || {
            format!("the kernel counts {told:?}, the rows have {found:?}")
        });
        // If the clock was set back, jobs that are not yet due stay among the ready jobs until a worker requests
        // them. A job that is being read when it becomes due, or when its window closes, is counted in its new state
        // after the read.
        let scheduled = counts.open.of(StateName::Scheduled);
        let (back, reading) = (self.now.wall < latest_wall, self.reading.len() as u64);
        let same = if scheduled < ahead {
            back || ahead - scheduled <= reading
        } else {
            scheduled - ahead <= reading + released_ahead
        };
        self.must(same, Invariant::Counted, &open, || {
            format!("the kernel counts {scheduled} scheduled jobs, the rows say {ahead}")
        });
    }

    /// Compares the number of completed jobs; the kernel has not seen yet that some of them were removed.
    pub fn kept(&mut self, told: u64, leaving: u64) {
        let found = self.rows.values().filter(|job| job.status.state.is_terminal()).count() as u64;
        self.must(told == found + leaving, Invariant::Counted, &[], || {
            format!(
                "the kernel counts {told} completed jobs, the rows have {found}, {leaving} were just removed"
            )
        });
    }
}
