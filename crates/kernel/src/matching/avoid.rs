//! Jobs that avoid the workers that had them before.
//!
//! This is a preference: while another matching worker is connected and takes jobs, the job waits for it, but only for
//! a bounded time after it became ready (its patience); then, and if there is no other worker, an avoided worker gets it.
//! Such a job has a separate class, so that it does not block the jobs behind it.

use std::collections::BTreeSet;

use jobhall_core::{JobId, JobSpec, WorkerName};

use crate::api::time::Mono;
use crate::jobs::entry::Placed;
use crate::kernel::Kernel;
use crate::matching::Fleet;
use crate::matching::board::Line;
use crate::matching::resources::Gate;
use crate::upkeep::Deadline;

/// The shortest patience, in milliseconds.
const PATIENCE_MS: u64 = 1_000;

/// The workers that a job avoids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Avoids {
    /// The workers that had it.
    pub had: BTreeSet<WorkerName>,
    /// The job that it is a copy of: the worker that holds that job is avoided too.
    pub copy_of: Option<JobId>,
    /// When its patience ends; none until it becomes ready.
    pub until: Option<Mono>,
    /// Whether its ended attempts must be read before it is assigned: only the store knows who had it.
    pub unread: bool,
}

impl Avoids {
    /// Whether it waits for another worker no longer.
    fn is_impatient(&self, now: Mono) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// How long a job of a type with this expected duration waits for another worker. Without one, the longest time.
fn patience_ms(expected_ms: Option<u64>, most: u64) -> u64 {
    expected_ms.map_or(most, |ms| ms.max(PATIENCE_MS).min(most))
}

impl Gate<'_> {
    /// Whether the job avoids this worker and still waits for another matching one, which is connected.
    pub(crate) fn goes_elsewhere(&self, job: JobId, worker: &WorkerName, line: &Line) -> bool {
        let Some(avoids) = self.avoids.get(&job) else { return false };
        if avoids.is_impatient(self.now) {
            return false;
        }
        let avoided = |worker: &WorkerName| avoids.had.contains(worker) || self.has_original(avoids, worker);
        let other = |worker: &WorkerName| !avoided(worker);
        let mut there = self.sessions.values().filter(|session| {
            session.takes_jobs()
                && session.profile.is_some_and(|profile| line.suits.binary_search(&profile).is_ok())
                && line.demand.admits(&session.worker)
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

impl Fleet {
    /// A job whose attempt ended and that continues avoids its worker, if its spec says so.
    fn note_had(&mut self, id: JobId, spec: &JobSpec, worker: &WorkerName) {
        if spec.avoid {
            self.avoids.entry(id).or_default().had.insert(worker.clone());
        }
    }

    /// Sets when the patience of a job ends, unless it has begun before. Returns that time if it is new.
    fn begin_patience(&mut self, id: JobId, until: Mono) -> Option<Mono> {
        let avoids = self.avoids.get_mut(&id).filter(|avoids| avoids.until.is_none())?;
        avoids.until = Some(until);
        avoids.until
    }

    /// A job is no longer ready: its next patience begins when it is again. Returns the time that was set.
    fn end_patience(&mut self, id: JobId) -> Option<Mono> {
        self.avoids.get_mut(&id)?.until.take()
    }

    /// Only the store knows which workers had a job that avoids them.
    pub(crate) fn forget_past(&mut self, id: JobId) {
        self.avoids.entry(id).or_default().unread = true;
    }

    /// The ended attempts of a job were read.
    pub(crate) fn past_read(&mut self, id: JobId) {
        if let Some(avoids) = self.avoids.get_mut(&id) {
            avoids.unread = false;
        }
    }

    /// Whether the ended attempts of a job must be read before it is assigned.
    pub(crate) fn is_past_unread(&self, id: JobId) -> bool {
        self.avoids.get(&id).is_some_and(|avoids| avoids.unread)
    }

    /// A copy avoids the worker that holds the original.
    pub(crate) fn note_copy(&mut self, id: JobId, spec: &JobSpec) {
        if spec.avoid && spec.copy_of.is_some() {
            self.avoids.entry(id).or_default().copy_of = spec.copy_of;
        }
    }
}

impl Kernel {
    /// An attempt ended and its job continues: its worker is avoided from now on.
    pub(crate) fn note_had(&mut self, id: JobId, worker: &WorkerName) {
        if let Some(spec) = self.jobs.get(id).and_then(|entry| entry.spec.as_ref()) {
            self.fleet.note_had(id, spec, worker);
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

    /// A job became ready: if it avoids workers, it waits for others from now on.
    pub(crate) fn begin_patience(&mut self, id: JobId) {
        if !self.fleet.avoids.contains_key(&id) {
            return;
        }
        let class = self.jobs.get(id).and_then(|entry| self.board.class(entry.class));
        let expected_ms = class.and_then(|class| self.settings.type_config(&class.job_type).expected_ms);
        let until = self.env.mono().plus_ms(patience_ms(expected_ms, self.env.config().avoid_ms));
        if let Some(until) = self.fleet.begin_patience(id, until) {
            self.deadlines.set(Deadline::Avoided(until, id));
        }
    }

    /// A job was assigned, or waits for its time or its release.
    pub(crate) fn end_patience(&mut self, id: JobId) {
        if let Some(until) = self.fleet.end_patience(id) {
            self.deadlines.clear(Deadline::Avoided(until, id));
        }
    }

    /// A job avoids no workers any more.
    pub(crate) fn forget_avoids(&mut self, id: JobId) {
        self.end_patience(id);
        self.fleet.avoids.remove(&id);
    }

    /// The patience of a job is over: a worker that it avoids may get it.
    pub(crate) fn patience_over(&mut self, id: JobId) {
        let entry = self.jobs.get(id).filter(|entry| entry.placed() == Placed::Ready);
        if let Some(class) = entry.map(|entry| entry.class) {
            self.wake(class);
        }
    }

    /// A worker is gone: a job that waited for it may be assigned to one that it avoids.
    pub(crate) fn reconsider(&mut self) {
        let jobs: Vec<_> = self.fleet.avoids.keys().copied().collect();
        for job in jobs {
            let Some(entry) = self.jobs.get(job).filter(|entry| entry.placed() == Placed::Ready) else {
                continue;
            };
            self.wake(entry.class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{id, spec, worker};
    use crate::matching::board::ProfileId;
    use crate::matching::tests::{add_session, profiles};

    fn line(suits: &[ProfileId]) -> Line {
        Line::of(suits.to_vec())
    }

    fn avoiding(copy_of: Option<u64>) -> JobSpec {
        JobSpec { avoid: true, copy_of: copy_of.map(id), ..spec() }
    }

    /// Workers a and b with profiles 0 and 1; the job suits both.
    fn fleet() -> Fleet {
        let mut fleet = Fleet::default();
        let [one, other] = profiles();
        add_session(&mut fleet, 1, "a", Some(one));
        add_session(&mut fleet, 2, "b", Some(other));
        fleet
    }

    #[test]
    fn a_job_goes_elsewhere_while_another_matching_worker_is_connected() {
        let (mut fleet, [one, other]) = (fleet(), profiles());
        fleet.note_had(id(1), &avoiding(None), &worker("a"));
        let elsewhere = |fleet: &Fleet, name, suits: &[_]| {
            fleet.gate(Mono(0)).goes_elsewhere(id(1), &worker(name), &line(suits))
        };
        assert!(elsewhere(&fleet, "a", &[one, other]));
        assert!(!elsewhere(&fleet, "b", &[one, other]), "this worker did not have it");
        assert!(!elsewhere(&fleet, "a", &[one]), "the other worker does not match");
        fleet.sessions.get_mut(&crate::SessionId(2)).unwrap().connected = false;
        assert!(!elsewhere(&fleet, "a", &[one, other]), "the other worker is not connected");
    }

    #[test]
    fn ground_9_a_job_takes_what_is_free_when_its_patience_is_over() {
        let (mut fleet, suits) = (fleet(), profiles());
        fleet.note_had(id(1), &avoiding(None), &worker("a"));
        assert_eq!(fleet.begin_patience(id(1), Mono(5_000)), Some(Mono(5_000)));
        assert_eq!(fleet.begin_patience(id(1), Mono(9_000)), None, "it began before");
        let elsewhere =
            |fleet: &Fleet, now| fleet.gate(Mono(now)).goes_elsewhere(id(1), &worker("a"), &line(&suits));
        assert!(elsewhere(&fleet, 4_999) && !elsewhere(&fleet, 5_000));
        assert_eq!(fleet.end_patience(id(1)), Some(Mono(5_000)));
        assert!(elsewhere(&fleet, 5_000), "it waits again when it is ready again");
        assert_eq!(fleet.begin_patience(id(2), Mono(1)), None, "it avoids nobody");
    }

    #[test]
    fn ground_9_the_patience_is_the_expected_duration_between_one_and_ten_seconds() {
        let all = [None, Some(0), Some(999), Some(4_000), Some(10_001)]
            .map(|expected_ms| patience_ms(expected_ms, 10_000));
        assert_eq!(all, [10_000, 1_000, 1_000, 4_000, 10_000]);
    }

    #[test]
    fn a_job_that_had_all_workers_takes_any() {
        let (mut fleet, suits) = (fleet(), profiles());
        ["a", "b"].into_iter().for_each(|name| fleet.note_had(id(1), &avoiding(None), &worker(name)));
        assert!(["a", "b"].iter().all(|name| !fleet.gate(Mono(0)).goes_elsewhere(
            id(1),
            &worker(name),
            &line(&suits)
        )));
    }

    #[test]
    fn a_job_that_does_not_avoid_workers_records_none() {
        let mut fleet = fleet();
        fleet.note_had(id(1), &spec(), &worker("a"));
        fleet.note_copy(id(1), &avoiding(None));
        fleet.note_copy(id(1), &JobSpec { copy_of: Some(id(2)), ..spec() });
        assert!(fleet.avoids.is_empty());
    }

    #[test]
    fn a_copy_avoids_the_workers_that_hold_or_had_the_original() {
        let (mut fleet, suits) = (fleet(), profiles());
        fleet.note_copy(id(2), &avoiding(Some(1)));
        let elsewhere =
            |fleet: &Fleet, name| fleet.gate(Mono(0)).goes_elsewhere(id(2), &worker(name), &line(&suits));
        assert!(!elsewhere(&fleet, "a"));
        fleet.sessions.get_mut(&crate::SessionId(1)).unwrap().attempts.insert(id(1));
        assert!(elsewhere(&fleet, "a") && !elsewhere(&fleet, "b"));
        fleet.sessions.get_mut(&crate::SessionId(1)).unwrap().attempts.clear();
        fleet.note_had(id(1), &avoiding(None), &worker("b"));
        assert!(elsewhere(&fleet, "b") && !elsewhere(&fleet, "a"));
        fleet.avoids.remove(&id(2));
        assert!(!elsewhere(&fleet, "b"));
    }
}
