//! Jobs that avoid the workers that had them before.
//!
//! This is a preference: while another matching worker is connected, the job waits for it; if there is none, an
//! avoided worker gets it immediately. Such a job has a separate class, so that it does not block the jobs behind it.

use std::collections::BTreeSet;

use jobhall_core::{JobId, JobSpec, WorkerName};

use crate::jobs::entry::Placed;
use crate::kernel::Kernel;
use crate::matching::board::ProfileId;
use crate::matching::resources::Gate;

/// The workers that a job avoids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Avoids {
    /// The workers that had it.
    pub had: BTreeSet<WorkerName>,
    /// The job that it is a copy of: the worker that holds that job is avoided too.
    pub copy_of: Option<JobId>,
}

impl Gate<'_> {
    /// Whether the job avoids this worker and another matching one is connected.
    pub(crate) fn goes_elsewhere(&self, job: JobId, worker: &WorkerName, suits: &[ProfileId]) -> bool {
        let Some(avoids) = self.avoids.get(&job) else { return false };
        let avoided = |worker: &WorkerName| avoids.had.contains(worker) || self.has_original(avoids, worker);
        let other = |worker: &WorkerName| !avoided(worker);
        let mut there = self.sessions.values().filter(|session| {
            session.connected && session.profile.is_some_and(|profile| suits.binary_search(&profile).is_ok())
        });
        avoided(worker) && there.any(|session| other(&session.worker))
    }

    fn has_original(&self, avoids: &Avoids, worker: &WorkerName) -> bool {
        let Some(original) = avoids.copy_of else { return false };
        let had = self.avoids.get(&original).is_some_and(|avoids| avoids.had.contains(worker));
        let state = self.workers.get(worker);
        let sessions = state.into_iter().flat_map(|state| &state.sessions);
        had || sessions
            .filter_map(|id| self.sessions.get(id))
            .any(|session| session.attempts.contains(&original))
    }
}

impl Kernel {
    /// An attempt ended and its job continues: its worker is avoided from now on.
    pub(crate) fn note_had(&mut self, id: JobId, worker: &WorkerName) {
        let spec = self.jobs.get(id).and_then(|entry| entry.spec.as_ref());
        if spec.is_some_and(|spec| spec.avoid) {
            self.fleet.avoids.entry(id).or_default().had.insert(worker.clone());
        }
    }

    /// A copy avoids the worker that holds the original.
    pub(crate) fn note_copy(&mut self, id: JobId, spec: &JobSpec) {
        if spec.avoid && spec.copy_of.is_some() {
            self.fleet.avoids.entry(id).or_default().copy_of = spec.copy_of;
        }
    }

    /// Moves a job that avoids workers into a separate class.
    pub(crate) fn stand_apart(&mut self, id: JobId) {
        if !self.fleet.avoids.contains_key(&id) {
            return;
        }
        if let Some(entry) = self.jobs.get_mut(id)
            && let Some(class) = self.board.stand_apart(entry.class, id)
        {
            entry.class = class;
        }
    }

    /// A worker is gone: a job that waited for it may be assigned to one that it avoids.
    pub(crate) fn reconsider(&mut self) {
        let jobs: Vec<_> = self.fleet.avoids.keys().copied().collect();
        for job in jobs {
            let Some(entry) = self.jobs.get(job).filter(|entry| entry.placed == Placed::Ready) else {
                continue;
            };
            self.wake(entry.class);
        }
    }
}
