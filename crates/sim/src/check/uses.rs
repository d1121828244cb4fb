//! Resources that jobs use on their workers, recounted from the rows: never more than a worker has, and released
//! exactly.

use std::collections::BTreeSet;

use jobhall_core::{AttemptId, Job, JobId, State, WorkerName};
use jobhall_kernel::WorkerUse;

use super::{Checker, Invariant, Seen};
use crate::script::words::{self, Amount};

impl Checker {
    /// Jobs with a live attempt on this worker, as stored.
    fn at_work(&self, worker: &WorkerName) -> impl Iterator<Item = &Job> {
        self.rows.values().filter(move |job| {
            let held = match &job.status.state {
                State::Assigned(held) | State::Accepted(held) | State::Running(held) => Some(held),
                _ => None,
            };
            held.is_some_and(|held| held.lease.worker == *worker)
        })
    }

    /// Jobs whose attempt on this worker waits for other jobs, as stored.
    fn waiting_at(&self, worker: &WorkerName) -> impl Iterator<Item = &Job> {
        let waiting = self.rows.values().filter(|job| self.waits_for_jobs(job.id));
        waiting.filter(move |job| job.status.state.lease().is_some_and(|lease| lease.worker == *worker))
    }

    /// A job is sent to a worker: together with what was sent before and is live there, it must be within what the
    /// worker has.
    pub(super) fn uses_what_is_there(&mut self, row: &Job, seen: &Seen) {
        let used = words::used(&row.spec);
        // A worker that reconnected with other resources may have taken a job in its other session.
        let sessions = self.sessions.values().filter(|other| other.worker == seen.worker && !other.ended);
        let has = sessions.fold([0, 0], |[gpu, mem], other| {
            let [more_gpu, more_mem] = words::has(other.skill);
            [gpu.max(more_gpu), mem.max(more_mem)]
        });
        if used == [0, 0] {
            return;
        }
        // An attempt that was never sent, because its session was gone when the claim was stored, uses nothing.
        let sent = |job: &&Job| self.assigned.contains(&AttemptId { job: job.id, claim: job.status.claim });
        let live = words::sum(self.at_work(&seen.worker).filter(sent).map(|job| words::used(&job.spec)));
        // One that came back with less may have too much of another resource already.
        let within = (0..used.len()).all(|at| used[at] == 0 || live[at] <= has[at]);
        self.must(within, Invariant::Used, &[row.id], || {
            format!("job {} makes {} use {live:?} of {has:?}", row.id, seen.worker)
        });
    }

    /// Checks the resources in use according to the kernel; no unit is pending in the store. If the session of a
    /// worker ended before it received an assignment, the resources are released before the assignment is taken back.
    pub fn in_use(&mut self, told: &[WorkerUse]) {
        let mut names: BTreeSet<_> = told.iter().map(|told| told.worker.clone()).collect();
        names.extend(self.rows.values().filter_map(|job| {
            Some(job.status.state.leased().filter(|_| words::used(&job.spec) != [0, 0])?.lease.worker.clone())
        }));
        for worker in names {
            let known =
                |job: &&Job| self.holds.get(&job.id).is_some_and(|hold| hold.claim == job.status.claim);
            let least = words::sum(self.at_work(&worker).filter(known).map(|job| words::used(&job.spec)));
            // An attempt that continues after a wait may do so only in memory.
            let most = self.at_work(&worker).chain(self.waiting_at(&worker));
            let most = words::sum(most.map(|job| words::used(&job.spec)));
            let told = told.iter().find(|told| told.worker == worker).map_or([0, 0], amount);
            let jobs: Vec<JobId> = self.at_work(&worker).map(|job| job.id).collect();
            let exact = words::within(least, told) && words::within(told, most);
            self.must(exact, Invariant::Used, &jobs, || {
                format!("the kernel reports that {worker} uses {told:?}, the rows have {least:?} to {most:?}")
            });
        }
    }

    /// Whether this worker certainly has these resources free, whatever the results of all pending units are.
    pub(super) fn certainly_left(&self, seen: &Seen, used: Amount, mine: &BTreeSet<JobId>) -> bool {
        let in_flight = self.untold.keys().chain(mine).chain(&self.touched).collect::<BTreeSet<_>>();
        if in_flight.iter().any(|id| !self.rows.contains_key(id)) {
            // A new job may be created as assigned to this worker.
            return false;
        }
        let elsewhere = in_flight.into_iter().filter_map(|id| self.rows.get(id));
        let there = self.at_work(&seen.worker).map(|job| job.id).collect::<BTreeSet<_>>();
        let elsewhere = elsewhere.filter(|job| !there.contains(&job.id)).map(|job| words::used(&job.spec));
        let live = self.at_work(&seen.worker).map(|job| words::used(&job.spec));
        // A waiting attempt of this worker may have resumed in memory, and uses its resources again.
        let resumed = self.waiting_at(&seen.worker).map(|job| words::used(&job.spec));
        words::within(words::sum(live.chain(elsewhere).chain(resumed).chain([used])), words::has(seen.skill))
    }
}

fn amount(told: &WorkerUse) -> Amount {
    let of = |name: &str| {
        let found = told.taken.iter().find(|(known, _)| *known == name);
        found.map_or(0, |(_, taken)| taken.thousandths())
    };
    words::RESOURCES.map(of)
}
