//! Jobs in memory: open jobs, the cache of completed ones, the tasks that wait for a job, and the requests about a
//! single job.

pub(crate) mod cancel;
pub(crate) mod compact_status;
mod completed;
pub(crate) mod edit;
pub(crate) mod entry;
pub(crate) mod ids;
pub(crate) mod load;
mod open;
pub(crate) mod past;
pub(crate) mod remove;
pub(crate) mod retry;
pub(crate) mod show;
pub(crate) mod specs;
pub(crate) mod windows;

use jobhall_core::{Indicator, Job, JobId, PastAttempt};

use crate::api::config::Config;
use crate::api::time::Now;
use crate::jobs::completed::Completed;
use crate::jobs::entry::{Entry, Placed};
use crate::jobs::ids::IdMap;
use crate::jobs::open::Open;
use crate::jobs::specs::Specs;
use crate::kernel::{JobTask, Reading, Task};
use crate::stats::counts::Totals;

/// The jobs in memory.
#[derive(Debug)]
pub(crate) struct Jobs {
    open: Open<Entry>,
    specs: Specs,
    /// By busy job: the tasks that wait for it.
    in_line: IdMap<JobId, Vec<Task>>,
    /// By job: the read in progress for it.
    reading: IdMap<JobId, Reading>,
    /// By holder of a key: the job that waits for the key.
    successors: IdMap<JobId, JobId>,
    cached: Completed,
    /// By job: the latest progress of its live attempt.
    progress: IdMap<JobId, Vec<Indicator>>,
    totals: Totals,
}

impl Jobs {
    pub fn new(config: &Config, now: Now) -> Jobs {
        Jobs {
            open: Open::default(),
            specs: Specs::default(),
            in_line: IdMap::default(),
            reading: IdMap::default(),
            successors: IdMap::default(),
            cached: Completed::new(config.cached),
            progress: IdMap::default(),
            totals: Totals::new(now),
        }
    }

    /// An open job.
    pub fn get(&self, id: JobId) -> Option<&Entry> {
        self.open.get(id)
    }

    pub fn get_mut(&mut self, id: JobId) -> Option<&mut Entry> {
        self.open.get_mut(id)
    }

    /// Whether a job is open.
    pub fn contains(&self, id: JobId) -> bool {
        self.open.contains(id)
    }

    /// Number of open jobs.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// The open jobs, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Entry)> {
        self.open.iter()
    }

    /// Whether no read is in progress.
    pub fn is_idle(&self) -> bool {
        self.reading.is_empty()
    }

    /// Keeps a task until its job is no longer busy.
    pub fn line_up(&mut self, id: JobId, task: Task) {
        self.in_line.entry(id).or_default().push(task);
    }

    /// The same, before the tasks that wait already.
    pub fn line_up_first(&mut self, id: JobId, task: Task) {
        self.in_line.entry(id).or_default().insert(0, task);
    }

    /// Whether such a task waits for a job.
    pub fn has_in_line(&self, id: JobId, such: impl Fn(&Task) -> bool) -> bool {
        self.in_line.get(&id).is_some_and(|tasks| tasks.iter().any(such))
    }

    /// Takes the tasks that wait for a job.
    pub fn take_line(&mut self, id: JobId) -> Vec<Task> {
        self.in_line.remove(&id).unwrap_or_default()
    }

    /// Takes all tasks that wait for a job or a read.
    pub fn take_waiting(&mut self) -> Vec<Task> {
        let in_line = std::mem::take(&mut self.in_line).into_values().flatten();
        let reading = std::mem::take(&mut self.reading).into_values();
        in_line
            .chain(reading.flat_map(|reading| reading.now.into_iter().chain(reading.later)).map(Task::from))
            .collect()
    }

    /// Adds a task to the reads of a job. Returns whether a read is to be requested.
    pub fn read_for(&mut self, id: JobId, task: JobTask) -> bool {
        match self.reading.get_mut(&id) {
            // A read in flight may be older than what the task knows, so the task gets a new read.
            Some(reading) => {
                reading.later.push(task);
                false
            }
            None => {
                self.reading.insert(id, Reading { now: vec![task], later: Vec::new() });
                true
            }
        }
    }

    /// Takes the tasks that a read was made for. Returns also whether another read is to be requested, because others
    /// arrived meanwhile.
    pub fn readers(&mut self, id: JobId) -> (Vec<JobTask>, bool) {
        let Some(Reading { now, later }) = self.reading.remove(&id) else { return (Vec::new(), false) };
        let again = !later.is_empty();
        if again {
            self.reading.insert(id, Reading { now: later, later: Vec::new() });
        }
        (now, again)
    }

    /// Drops the specs of the jobs that have waited longest in their place, when specs exceed this number of bytes.
    /// New jobs that are claimed immediately keep theirs, regardless of how many jobs wait.
    pub fn forget_specs(&mut self, budget: usize) {
        while let Some(id) = self.specs.surplus(budget) {
            let Some(entry) = self.open.get_mut(id).filter(|entry| entry.placed() != Placed::Nowhere) else {
                continue;
            };
            if let Some(spec) = entry.spec.take() {
                self.specs.drop(&spec);
            }
        }
    }

    /// The job that waits for the key of this one.
    pub fn successor(&self, id: JobId) -> Option<JobId> {
        self.successors.get(&id).copied()
    }

    pub fn set_successor(&mut self, id: JobId, next: JobId) {
        self.successors.insert(id, next);
    }

    /// A completed job in the cache; it counts as used.
    pub fn completed(&mut self, id: JobId) -> Option<&(Job, Vec<PastAttempt>)> {
        self.cached.get(id)
    }

    pub fn peek_completed(&self, id: JobId) -> Option<&(Job, Vec<PastAttempt>)> {
        self.cached.peek(id)
    }

    /// The store has removed these completed jobs. Reads that began before are repeated.
    pub fn removed(&mut self, ids: &[JobId]) {
        for id in ids {
            self.cached.remove(*id);
            if let Some(reading) = self.reading.get_mut(id) {
                let now = std::mem::take(&mut reading.now);
                reading.later.splice(..0, now);
            }
        }
    }

    /// The latest progress of a live attempt.
    pub fn progress(&self, id: JobId) -> Option<&Vec<Indicator>> {
        self.progress.get(&id)
    }

    pub fn progress_mut(&mut self, id: JobId) -> &mut Vec<Indicator> {
        self.progress.entry(id).or_default()
    }

    pub fn forget_progress(&mut self, id: JobId) {
        self.progress.remove(&id);
    }

    pub fn totals_mut(&mut self) -> &mut Totals {
        &mut self.totals
    }
}

#[cfg(test)]
mod tests {
    use jobhall_core::JobStatus;

    use super::*;
    use crate::fixtures::{entry, id, numbers, spec, task, time};
    use crate::matching::board::Board;

    fn jobs() -> Jobs {
        Jobs::new(&Config::default(), Now::default())
    }

    /// Adds an open job, placed here with its spec.
    fn placed(jobs: &mut Jobs, n: u64, place: Placed) {
        let mut entry = entry(&mut Board::default(), spec(), JobStatus::queued(time(2), time(5)));
        entry.set_placed(place);
        jobs.specs.keep(id(n), entry.spec.as_ref().unwrap());
        jobs.open.insert(id(n), entry);
    }

    #[test]
    fn tasks_for_a_busy_job_keep_their_order_and_one_may_go_first() {
        let mut jobs = jobs();
        [2, 3].into_iter().for_each(|n| jobs.line_up(id(1), task(n)));
        jobs.line_up_first(id(1), task(4));
        jobs.line_up(id(9), task(5));
        assert!(jobs.has_in_line(id(1), |task| numbers(std::slice::from_ref(task)) == [3]));
        assert!(!jobs.has_in_line(id(1), |task| numbers(std::slice::from_ref(task)) == [5]));
        assert_eq!(numbers(&jobs.take_line(id(1))), [4, 2, 3]);
        assert!(jobs.take_line(id(1)).is_empty() && !jobs.has_in_line(id(1), |_| true));
        assert_eq!(numbers(&jobs.take_line(id(9))), [5]);
    }

    #[test]
    fn a_task_that_arrives_during_a_read_gets_another_read() {
        let mut jobs = jobs();
        assert!(jobs.is_idle());
        assert!(jobs.read_for(id(1), task(2)));
        assert!(!jobs.read_for(id(1), task(3)) && !jobs.read_for(id(1), task(4)));
        assert!(jobs.read_for(id(9), task(5)), "another job has another read");
        let (now, again) = jobs.readers(id(1));
        assert_eq!((numbers(&now), again), (vec![2], true));
        let (now, again) = jobs.readers(id(1));
        assert_eq!((numbers(&now), again), (vec![3, 4], false));
        assert!(jobs.readers(id(1)).0.is_empty() && !jobs.is_idle());
        jobs.readers(id(9));
        assert!(jobs.is_idle());
    }

    #[test]
    fn all_waiting_tasks_include_those_of_this_read_and_of_the_next() {
        let mut jobs = jobs();
        jobs.line_up(id(1), task(1));
        assert_eq!([2, 3].map(|n| jobs.read_for(id(1), task(n))), [true, false]);
        let mut all = numbers(&jobs.take_waiting());
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
        assert!(jobs.is_idle() && jobs.take_waiting().is_empty());
    }

    #[test]
    fn specs_beyond_the_budget_are_dropped_from_jobs_that_still_wait() {
        let mut jobs = jobs();
        placed(&mut jobs, 1, Placed::Ready);
        placed(&mut jobs, 2, Placed::Nowhere);
        placed(&mut jobs, 3, Placed::Due);
        placed(&mut jobs, 4, Placed::Ready);
        let weight = 400 + spec().params.as_str().len();
        jobs.forget_specs(4 * weight);
        assert!(jobs.iter().all(|(_, entry)| entry.spec.is_some()));
        jobs.forget_specs(2 * weight);
        let kept = [1, 2, 3, 4].map(|n| jobs.get(id(n)).unwrap().spec.is_some());
        assert_eq!(kept, [false, true, false, true], "the claimed job keeps its spec");
    }

    #[test]
    fn the_successor_of_a_key_is_the_last_one_set() {
        let mut jobs = jobs();
        jobs.set_successor(id(1), id(2));
        jobs.set_successor(id(1), id(3));
        assert_eq!((jobs.successor(id(1)), jobs.successor(id(3))), (Some(id(3)), None));
    }

    #[test]
    fn progress_is_forgotten_for_one_job() {
        let mut jobs = jobs();
        [1, 2].into_iter().for_each(|n| jobs.progress_mut(id(n)).clear());
        jobs.forget_progress(id(1));
        assert!(jobs.progress(id(1)).is_none() && jobs.progress(id(2)).is_some());
    }
}
