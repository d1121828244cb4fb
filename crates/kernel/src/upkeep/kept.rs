//! How many completed jobs are stored, by type. The store counts them after the start, in steps, and again when other jobs
//! are counted together; otherwise the counts change with the jobs.
//!
//! ```text
//!   ids:  1 ──────────── counted ────────── last ─────────────── highest ───────────▶
//!          counted before       this step          later steps         made since: counted as they end
//! ```
//!
//! A job that ends is counted at once where no later step will find it. A step leaves out the jobs that were open when it
//! was requested: they are counted when they end. If a job was created in its range since, the store may have seen its end
//! or not: the step is repeated.

use std::collections::HashMap;

use jobhall_core::{JobId, QueueName, TypeName};
use jobhall_store::{JobCounts, StoreError};

use crate::kernel::{Kernel, StoreRequest};

/// Ids in one step.
const STEP: u64 = 10_000;
/// Maximum number of counts. Of more, the smaller half is forgotten, except where the type has its own number: these
/// jobs are counted again from 0, so more of them may be kept, never fewer.
const MOST: usize = 40_000;

/// Jobs that are counted together: of one type, and in one queue if the queue's number counts.
pub(crate) type CountOf = (TypeName, Option<QueueName>);

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct CompletedCounts {
    counts: HashMap<CountOf, u64>,
    total: u64,
    /// Distinguishes the replies to this counting from those to an earlier one.
    round: u64,
    counting: Counting,
}

/// How far the store has counted.
#[derive(Debug, Default)]
enum Counting {
    #[default]
    NotBegun,
    Step(Step),
    Done,
}

#[derive(Debug)]
struct Step {
    /// Everything up to this id is counted.
    counted: u64,
    /// The last id of this step.
    last: u64,
    /// The last id that is counted by the store.
    highest: u64,
    /// The jobs in its range that were open when it was requested, which the store leaves out, by id.
    open: Vec<JobId>,
    /// What has ended of them since.
    ended: Vec<CountOf>,
    /// Whether another job in its range has ended or was removed since it was requested: it is repeated.
    disturbed: bool,
}

impl CompletedCounts {
    /// The number of these jobs; 0 until all are counted.
    pub fn count(&self, of: &CountOf) -> u64 {
        if self.is_counted() { self.counts.get(of).copied().unwrap_or(0) } else { 0 }
    }

    /// The number of all completed jobs; none until they are counted.
    pub fn total(&self) -> Option<u64> {
        self.is_counted().then_some(self.total)
    }

    pub fn is_counted(&self) -> bool {
        matches!(self.counting, Counting::Done)
    }

    /// All counts, once everything is counted.
    pub fn iter(&self) -> impl Iterator<Item = (&CountOf, u64)> {
        self.counts.iter().filter(|_| self.is_counted()).map(|(of, count)| (of, *count))
    }

    /// A job has ended.
    pub fn ended(&mut self, id: JobId, of: &CountOf) {
        match &mut self.counting {
            Counting::NotBegun => return,
            Counting::Step(step) => match id.get() {
                number if number <= step.counted || number > step.highest => {}
                number if number <= step.last => {
                    match step.open.binary_search(&id) {
                        Ok(_) => step.ended.push(of.clone()),
                        Err(_) => step.disturbed = true,
                    }
                    return;
                }
                _ => return,
            },
            Counting::Done => {}
        }
        self.add(of, 1);
    }

    /// A completed job was removed.
    pub fn removed(&mut self, id: JobId, of: &CountOf) {
        match &mut self.counting {
            Counting::NotBegun => return,
            Counting::Step(step) => match id.get() {
                id if id <= step.counted || id > step.highest => {}
                id if id <= step.last => {
                    step.disturbed = true;
                    return;
                }
                _ => return,
            },
            Counting::Done => {}
        }
        self.total = self.total.saturating_sub(1);
        if let Some(count) = self.counts.get_mut(of) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(of);
            }
        }
    }

    fn add(&mut self, of: &CountOf, jobs: u64) {
        self.total += jobs;
        match self.counts.get_mut(of) {
            Some(count) => *count += jobs,
            None => drop(self.counts.insert(of.clone(), jobs)),
        }
    }

    fn is_full(&self) -> bool {
        self.counts.len() > MOST
    }

    /// Forgets the smaller counts, except these.
    fn shrink(&mut self, stays: impl Fn(&CountOf) -> bool) {
        let mut small: Vec<_> = self.counts.iter().filter(|(of, _)| !stays(of)).collect();
        small.sort_by_key(|(of, count)| (**count, *of));
        let forgotten: Vec<_> = small.iter().take(MOST / 2).map(|(of, _)| (*of).clone()).collect();
        forgotten.iter().for_each(|of| {
            self.counts.remove(of);
        });
    }
}

impl Kernel {
    /// Counts the completed jobs, if that has not begun and it is known which ids they can have.
    pub(crate) fn begin_counting(&mut self) {
        let kept = &mut self.deadlines.retention.kept;
        let (Counting::NotBegun, Some(highest)) = (&kept.counting, self.ids.highest()) else { return };
        (kept.counts, kept.total, kept.round) = (HashMap::new(), 0, kept.round + 1);
        self.count_step(0, STEP, highest);
    }

    /// Counts again: other jobs are counted together from now on.
    pub(crate) fn count_again(&mut self) {
        self.deadlines.retention.kept.counting = Counting::NotBegun;
        self.begin_counting();
    }

    fn count_step(&mut self, counted: u64, last: u64, highest: u64) {
        let last = last.min(highest);
        let open = self.open_between(counted, last);
        let kept = &mut self.deadlines.retention.kept;
        let Ok(until) = JobId::new(last) else {
            // There is no job yet.
            kept.counting = Counting::Done;
            return;
        };
        let (after, round, except) = (JobId::new(counted).ok(), kept.round, open.clone());
        kept.counting =
            Counting::Step(Step { counted, last, highest, open, ended: Vec::new(), disturbed: false });
        self.want(StoreRequest::Count { round, after, last: until, except });
    }

    /// The open jobs after this id, up to that one.
    fn open_between(&self, after: u64, last: u64) -> Vec<JobId> {
        let ids = (after + 1..=last).filter_map(|id| JobId::new(id).ok());
        ids.filter(|id| self.jobs.contains(*id)).collect()
    }

    pub(crate) fn counted(&mut self, round: u64, result: Result<JobCounts, StoreError>) {
        let kept = &mut self.deadlines.retention.kept;
        if round != kept.round {
            return;
        }
        let Counting::Step(step) = std::mem::take(&mut kept.counting) else { return };
        // After an error the next pass begins again.
        let Ok(found) = result else { return };
        let is_new = |id: &JobId| step.open.binary_search(id).is_err();
        if step.disturbed || self.open_between(step.counted, step.last).iter().any(is_new) {
            return self.count_step(step.counted, step.last, step.highest);
        }
        for count in found.counts {
            let of = self.settings.count_of(&count.job_type, &count.queue);
            self.deadlines.retention.kept.add(&of, count.jobs);
        }
        step.ended.iter().for_each(|of| self.deadlines.retention.kept.add(of, 1));
        self.bound_counts();
        match found.next.map(JobId::get).filter(|next| *next <= step.highest) {
            Some(next) => self.count_step(next - 1, next - 1 + STEP, step.highest),
            None => self.deadlines.retention.kept.counting = Counting::Done,
        }
    }

    pub(super) fn bound_counts(&mut self) {
        if self.deadlines.retention.kept.is_full() {
            let settings = &self.settings;
            self.deadlines.retention.kept.shrink(|(job_type, _)| settings.has_count(job_type));
            self.deadlines.retention.forget();
        }
    }

    /// The number of completed jobs, and the types with most of them; none until they are counted.
    pub fn kept(&self, types: usize) -> Option<(u64, Vec<(TypeName, u64)>)> {
        let kept = &self.deadlines.retention.kept;
        let mut by_type: HashMap<&TypeName, u64> = HashMap::new();
        for ((job_type, _), count) in kept.iter() {
            *by_type.entry(job_type).or_default() += count;
        }
        let mut by_type: Vec<_> = by_type.into_iter().collect();
        by_type.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        by_type.truncate(types);
        let most = by_type.into_iter().map(|(name, count)| (name.clone(), count)).collect();
        Some((kept.total()?, most))
    }
}
