//! The number of open jobs of each queue by state, and since when its oldest ready job waits. The counts change with
//! the jobs; they are never recomputed.
//!
//! A queue is known as long as one of its classes is. The oldest job is found lazily: jobs that become ready are
//! pushed on a heap, which is cheap because they arrive in time order; those taken meanwhile are dropped when the heap
//! is read, or when there are too many of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Bound;

use jobhall_core::{JobId, JobStatus, QueueName, StateName, Time};

/// States that are not terminal: the first of [`StateName::ALL`].
const PENDING: usize = 8;
/// Jobs on the heap that may have been taken, in addition to the ready ones.
const SLACK: usize = 1_024;

/// The index of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueId(u32);

impl QueueId {
    fn new(at: usize) -> QueueId {
        QueueId(u32::try_from(at).expect("fewer queues than fit into memory"))
    }

    fn at(self) -> usize {
        self.0 as usize
    }
}

/// The number of open jobs at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    states: [u64; PENDING],
    /// Jobs that a vacancy could take now.
    pub ready: u64,
    /// Since when the job that waits longest has been ready.
    pub oldest_ready: Option<Time>,
}

impl Tally {
    /// Jobs in this state; zero for terminal states.
    pub fn of(&self, state: StateName) -> u64 {
        self.states.get(state as usize).copied().unwrap_or(0)
    }

    /// Each state that is not terminal, with its number of jobs.
    pub fn states(&self) -> impl Iterator<Item = (StateName, u64)> + '_ {
        StateName::ALL.into_iter().zip(self.states)
    }

    /// Jobs in any state.
    pub fn open(&self) -> u64 {
        self.states.iter().sum()
    }

    fn step(&mut self, from: Option<StateName>, to: Option<StateName>) {
        if let Some(from) = from {
            self.states[from as usize] -= 1;
        }
        if let Some(to) = to {
            self.states[to as usize] += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.states.iter_mut().zip(other.states).for_each(|(sum, more)| *sum += more);
        self.ready += other.ready;
        self.oldest_ready = [self.oldest_ready, other.oldest_ready].into_iter().flatten().min();
    }
}

#[derive(Debug)]
struct Queue {
    name: QueueName,
    /// Number of its classes.
    classes: usize,
    tally: Tally,
    since: BinaryHeap<Reverse<(Time, JobId)>>,
}

/// All queues.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    places: Vec<Option<Queue>>,
    free: Vec<usize>,
    ids: BTreeMap<QueueName, usize>,
}

/// Since when a waiting job has been ready: it is due, and what it waited for before has ended.
pub(crate) fn ready_since(life: &JobStatus) -> Time {
    life.run_at.max(life.updated_at)
}

impl Queues {
    /// Adds a class of this queue.
    pub fn enter(&mut self, name: &QueueName) -> QueueId {
        let at = match self.ids.get(name) {
            Some(&at) => at,
            None => self.add(name.clone()),
        };
        if let Some(queue) = &mut self.places[at] {
            queue.classes += 1;
        }
        QueueId::new(at)
    }

    fn add(&mut self, name: QueueName) -> usize {
        let at = self.free.pop().unwrap_or(self.places.len());
        if at == self.places.len() {
            self.places.push(None);
        }
        self.ids.insert(name.clone(), at);
        let (tally, since) = (Tally::default(), BinaryHeap::new());
        self.places[at] = Some(Queue { name, classes: 0, tally, since });
        at
    }

    /// Removes a class of this queue, which has no jobs.
    pub fn leave(&mut self, id: QueueId) {
        let Some(queue) = &mut self.places[id.at()] else { return };
        queue.classes -= 1;
        if queue.classes == 0 {
            self.ids.remove(&queue.name);
            self.places[id.at()] = None;
            self.free.push(id.at());
        }
    }

    /// The same by name.
    pub fn leave_by_name(&mut self, name: &QueueName) {
        if let Some(&at) = self.ids.get(name) {
            self.leave(QueueId::new(at));
        }
    }

    /// Counts a job that is added, changes or is removed.
    pub fn step(&mut self, id: QueueId, from: Option<StateName>, to: Option<StateName>) {
        if let Some(queue) = &mut self.places[id.at()] {
            queue.tally.step(from, to);
        }
    }

    /// Adds a ready job; returns whether it is time to [sweep](Queues::sweep).
    pub fn ready(&mut self, queue: QueueId, id: JobId, since: Time) -> bool {
        let Some(queue) = &mut self.places[queue.at()] else { return false };
        queue.tally.ready += 1;
        queue.since.push(Reverse((since, id)));
        let ready = usize::try_from(queue.tally.ready).unwrap_or(usize::MAX);
        queue.since.len() > ready.saturating_mul(2).saturating_add(SLACK)
    }

    /// Removes a ready job.
    pub fn unready(&mut self, id: QueueId) {
        if let Some(queue) = &mut self.places[id.at()] {
            queue.tally.ready -= 1;
        }
    }

    /// Drops from the heap the jobs that were taken, and duplicates that result from failed claims.
    pub fn sweep(&mut self, id: QueueId, waits: impl Fn(JobId, Time) -> bool) {
        let Some(queue) = &mut self.places[id.at()] else { return };
        let mut kept = std::mem::take(&mut queue.since).into_vec();
        kept.retain(|Reverse((since, job))| waits(*job, *since));
        kept.sort_unstable();
        kept.dedup();
        queue.since = kept.into();
    }

    /// One queue.
    pub fn tally(
        &mut self,
        name: &QueueName,
        waits: impl Fn(JobId, Time) -> bool,
    ) -> Option<(QueueId, Tally)> {
        let at = *self.ids.get(name)?;
        self.places[at].as_mut().map(|queue| (QueueId::new(at), queue.look(&waits)))
    }

    /// Queues by name, after this one.
    pub fn page(
        &mut self,
        after: Option<&QueueName>,
        limit: usize,
        waits: impl Fn(JobId, Time) -> bool,
    ) -> Vec<(QueueName, Tally)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let Queues { places, ids, .. } = self;
        let named = ids.range::<QueueName, _>((from, Bound::Unbounded)).take(limit);
        named.filter_map(|(name, &at)| Some((name.clone(), places[at].as_mut()?.look(&waits)))).collect()
    }

    /// The queues that have been known longest, at most this many, and all others together.
    pub fn longest_known(
        &mut self,
        most: usize,
        waits: impl Fn(JobId, Time) -> bool,
    ) -> (Vec<(QueueName, Tally)>, Tally) {
        let (mut named, mut others) = (Vec::new(), Tally::default());
        for queue in self.places.iter_mut().flatten() {
            let tally = queue.look(&waits);
            if named.len() < most {
                named.push((queue.name.clone(), tally));
            } else {
                others.add(&tally);
            }
        }
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        (named, others)
    }
}

impl Queue {
    fn look(&mut self, waits: &impl Fn(JobId, Time) -> bool) -> Tally {
        while let Some(&Reverse((since, id))) = self.since.peek()
            && !waits(id, since)
        {
            self.since.pop();
        }
        Tally { oldest_ready: self.since.peek().map(|Reverse((since, _))| *since), ..self.tally.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> QueueName {
        QueueName::new(text).unwrap()
    }

    fn at(ms: i64) -> Time {
        Time::from_ms(ms).unwrap()
    }

    fn job(id: u64) -> JobId {
        JobId::new(id).unwrap()
    }

    #[test]
    fn a_queue_is_known_as_long_as_a_class_of_it_is() {
        let mut queues = Queues::default();
        let (red, same) = (queues.enter(&name("red")), queues.enter(&name("red")));
        assert_eq!(red, same);
        queues.leave(red);
        assert!(queues.tally(&name("red"), |_, _| true).is_some());
        queues.leave(red);
        assert!(queues.tally(&name("red"), |_, _| true).is_none());
        let blue = queues.enter(&name("blue"));
        assert_eq!(blue, red, "its place is used again");
        assert_eq!(queues.page(None, 10, |_, _| true), [(name("blue"), Tally::default())]);
    }

    #[test]
    fn what_was_taken_does_not_pile_up() {
        let mut queues = Queues::default();
        let queue = queues.enter(&name("red"));
        for n in 1..=10_000 {
            if queues.ready(queue, job(n), at(n.cast_signed())) {
                queues.sweep(queue, |id, _| id.get() == n);
            }
            queues.unready(queue);
            let kept = queues.places[0].as_ref().unwrap().since.len();
            assert!(kept <= SLACK + 2, "{kept} after {n}");
        }
    }

    #[test]
    fn one_that_came_back_again_and_again_is_kept_once() {
        let mut queues = Queues::default();
        let queue = queues.enter(&name("red"));
        for _ in 0..3 {
            queues.ready(queue, job(7), at(5));
            queues.unready(queue);
        }
        queues.ready(queue, job(7), at(5));
        queues.sweep(queue, |_, _| true);
        assert_eq!(queues.places[0].as_ref().unwrap().since.len(), 1);
        let (_, tally) = queues.tally(&name("red"), |_, _| true).unwrap();
        assert_eq!((tally.ready, tally.oldest_ready), (1, Some(at(5))));
    }
}
