//! Dependencies: no job starts before the jobs it depends on have ended as its client required.
//!
//! A release may exist only in memory until the claim, so a job that is stored as blocked may be claimed.

use jobhall_core::{Job, JobId, StateName, Unsuccessful};
use jobhall_store::Unit;

use super::{Checker, Invariant};

impl Checker {
    /// Units leave the kernel: the jobs they claim must have no open dependencies.
    pub(super) fn after_all(&mut self, units: &[Unit]) {
        for unit in units {
            let changed = unit.changes.iter().filter_map(|change| {
                self.rows.get(&change.id).filter(|row| change.status.claim > row.status.claim).cloned()
            });
            let new = unit.inserts.iter().filter(|insert| insert.job.status.claim > 0);
            let claimed: Vec<Job> = changed.chain(new.map(|insert| insert.job.clone())).collect();
            for job in claimed {
                self.is_free(&job, "claimed");
                if !job.spec.after.is_empty() {
                    self.seen.push(("dependencies", "claimed after others"));
                }
            }
        }
    }

    /// A job that continues must have no open dependencies.
    pub(super) fn is_free(&mut self, job: &Job, what: &str) {
        let id = job.id;
        if let Some(before) = job.spec.after.iter().find(|before| !self.is_met(job, **before)) {
            let state = self.rows.get(before).map(|row| row.status.state.name());
            let text = format!("job {id} is {what}, but depends on job {before}, which is {state:?}");
            self.fail(Invariant::Dependency, &[id, *before], text);
        }
    }

    /// Whether a dependency is met. A removed job has ended, but it is no success.
    fn is_met(&self, job: &Job, before: JobId) -> bool {
        match self.rows.get(&before).map(|row| row.status.state.name()) {
            None => job.spec.after_any && self.removed.contains(&before),
            Some(StateName::Succeeded) => true,
            Some(state) => state.is_terminal() && job.spec.after_any,
        }
    }

    /// An open job that comes after this one, which is to be removed.
    pub(super) fn dependent(&self, id: JobId) -> Option<JobId> {
        let open = self.rows.values().filter(|job| !job.status.state.is_terminal());
        open.filter(|job| job.spec.after.contains(&id)).map(|job| job.id).next()
    }

    /// A completed job is gone without a removal by the kernel.
    pub fn lost_input(&mut self, id: JobId) {
        self.rows.remove(&id);
        self.removed.insert(id);
    }

    /// Whether a blocked job has no open dependencies, so that the kernel may have released it.
    pub(super) fn is_released(&self, job: &Job) -> bool {
        !job.spec.after.is_empty() && job.spec.after.iter().all(|before| self.is_met(job, *before))
    }

    /// A cascade ended a job because of one of its dependencies.
    pub(super) fn cascaded(&mut self, job: &Job, defeat: &Unsuccessful) {
        let id = job.id;
        let cancelled = defeat.failure.reason == "dependency_cancelled";
        let removed = defeat.failure.reason == "dependency_removed";
        let caused = job.spec.after.iter().any(|before| {
            let state = self.rows.get(before).map(|row| row.status.state.name());
            match state {
                Some(StateName::Cancelled) => cancelled,
                Some(StateName::Failed | StateName::Crashed) => !cancelled && !removed,
                None => removed && self.removed.contains(before),
                _ => false,
            }
        });
        self.seen.push(("dependencies", if cancelled { "cancelled along" } else { "failed along" }));
        self.must(caused && !job.spec.after_any, Invariant::Dependency, &[id], || {
            format!("job {id} ended as {}, but none of its dependencies did", defeat.failure.reason)
        });
    }
}

/// Whether the job was ended by a cascade.
pub(super) fn is_cascading(defeat: &Unsuccessful) -> bool {
    ["dependency_failed", "dependency_cancelled", "dependency_removed"]
        .contains(&defeat.failure.reason.as_str())
}
