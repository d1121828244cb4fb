//! Jobs in memory: open jobs, the cache of completed ones, the tasks that wait for a job, and the requests about a
//! single job.

pub(crate) mod cancel;
pub(crate) mod edit;
pub(crate) mod entry;
pub(crate) mod ids;
pub(crate) mod load;
mod open;
pub(crate) mod remove;
pub(crate) mod retry;
pub(crate) mod show;
pub(crate) mod specs;
pub(crate) mod windows;

use std::num::NonZeroUsize;

use jobhall_core::{Job, JobId, PastAttempt, Time};
use lru::LruCache;

use crate::api::config::Config;
use crate::api::request::Indicator;
use crate::api::time::Now;
use crate::jobs::entry::{Entry, Placed};
use crate::jobs::ids::{IdHash, IdMap};
use crate::jobs::open::Open;
use crate::jobs::specs::Specs;
use crate::kernel::{Reading, Task};
use crate::stats::counts::Totals;
use crate::stats::queues::ready_since;

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
    /// Completed jobs with their ended attempts.
    cached: LruCache<JobId, (Job, Vec<PastAttempt>), IdHash>,
    /// By job: the latest progress of its live attempt.
    progress: IdMap<JobId, Vec<Indicator>>,
    totals: Totals,
}

impl Jobs {
    pub fn new(config: &Config, now: Now) -> Jobs {
        let cached = NonZeroUsize::new(config.cached).unwrap_or(NonZeroUsize::MIN);
        Jobs {
            open: Open::default(),
            specs: Specs::default(),
            in_line: IdMap::default(),
            reading: IdMap::default(),
            successors: IdMap::default(),
            cached: LruCache::with_hasher(cached, IdHash::default()),
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
        in_line.chain(reading.flat_map(|reading| reading.now.into_iter().chain(reading.later))).collect()
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
        self.cached.get(&id)
    }

    pub fn peek_completed(&self, id: JobId) -> Option<&(Job, Vec<PastAttempt>)> {
        self.cached.peek(&id)
    }

    /// The store has removed these completed jobs. Reads that began before are repeated.
    pub fn removed(&mut self, ids: &[JobId]) {
        for id in ids {
            self.cached.pop(id);
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

    /// Returns whether a job is ready since this time.
    pub fn waits(&self) -> impl Fn(JobId, Time) -> bool + '_ {
        |id, since| {
            self.get(id)
                .is_some_and(|entry| entry.placed == Placed::Ready && ready_since(&entry.life) == since)
        }
    }
}
