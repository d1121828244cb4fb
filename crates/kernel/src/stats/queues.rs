//! The number of open jobs of each queue by state, and since when its oldest ready job waits. The counts change with
//! the jobs; they are never recomputed.
//!
//! A queue is known as long as one of its classes is. For the oldest job it counts its ready jobs by the time since
//! when they are ready: jobs of one request and of one millisecond share a count.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;

use jobhall_core::{JobStatus, QueueName, Scope, StateName, Time};

/// States that are not terminal: the first of [`StateName::ALL`].
const PENDING: usize = 8;

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
    /// The number of ready jobs by the time since when they are ready.
    since: BTreeMap<Time, u32>,
}

/// All queues.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    places: Vec<Option<Queue>>,
    free: Vec<usize>,
    ids: BTreeMap<QueueName, usize>,
}

/// Since when a waiting job has been ready: it is due, and what it waited for before has ended.
pub(crate) fn ready_since(status: &JobStatus) -> Time {
    status.run_at.max(status.updated_at)
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
        let (tally, since) = (Tally::default(), BTreeMap::new());
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

    /// Adds a job that is ready since this time.
    pub fn ready(&mut self, id: QueueId, since: Time) {
        if let Some(queue) = &mut self.places[id.at()] {
            queue.tally.ready += 1;
            *queue.since.entry(since).or_default() += 1;
        }
    }

    /// Removes a job that was ready since this time.
    pub fn unready(&mut self, id: QueueId, since: Time) {
        let Some(queue) = &mut self.places[id.at()] else { return };
        queue.tally.ready -= 1;
        debug_assert!(queue.since.contains_key(&since), "it was ready since another time");
        if let Entry::Occupied(mut jobs) = queue.since.entry(since) {
            *jobs.get_mut() -= 1;
            if *jobs.get() == 0 {
                jobs.remove();
            }
        }
    }

    /// One queue.
    pub fn tally(&self, name: &QueueName) -> Option<(QueueId, Tally)> {
        let at = *self.ids.get(name)?;
        self.places[at].as_ref().map(|queue| (QueueId::new(at), queue.look()))
    }

    /// Queues of a scope by name, after this one.
    pub fn page(&self, after: Option<&QueueName>, scope: &Scope, limit: usize) -> Vec<(QueueName, Tally)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let named = self.ids.range::<QueueName, _>((from, Bound::Unbounded));
        let reached = named.filter(|(name, _)| scope.reaches(name.as_str())).take(limit);
        reached.filter_map(|(name, &at)| Some((name.clone(), self.places[at].as_ref()?.look()))).collect()
    }

    /// The queues that have been known longest, at most this many, and all others together.
    pub fn longest_known(&self, most: usize) -> (Vec<(QueueName, Tally)>, Tally) {
        let (mut named, mut others) = (Vec::new(), Tally::default());
        for queue in self.places.iter().flatten() {
            let tally = queue.look();
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
    fn look(&self) -> Tally {
        Tally { oldest_ready: self.since.keys().next().copied(), ..self.tally.clone() }
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

    #[test]
    fn a_queue_is_known_as_long_as_a_class_of_it_is() {
        let mut queues = Queues::default();
        let (red, same) = (queues.enter(&name("red")), queues.enter(&name("red")));
        assert_eq!(red, same);
        queues.leave(red);
        assert!(queues.tally(&name("red")).is_some());
        queues.leave(red);
        assert!(queues.tally(&name("red")).is_none());
        let blue = queues.enter(&name("blue"));
        assert_eq!(blue, red, "its place is used again");
        assert_eq!(queues.page(None, &Scope::default(), 10), [(name("blue"), Tally::default())]);
    }

    #[test]
    fn the_oldest_ready_job_is_the_first_of_those_that_are_left() {
        let mut queues = Queues::default();
        let queue = queues.enter(&name("red"));
        let oldest = |queues: &Queues| {
            let (_, tally) = queues.tally(&name("red")).unwrap();
            (tally.ready, tally.oldest_ready)
        };
        [5, 3, 5, 9].into_iter().for_each(|ms| queues.ready(queue, at(ms)));
        assert_eq!(oldest(&queues), (4, Some(at(3))));
        queues.unready(queue, at(3));
        queues.unready(queue, at(5));
        assert_eq!(oldest(&queues), (2, Some(at(5))), "another job is ready since then");
        queues.unready(queue, at(5));
        assert_eq!(oldest(&queues), (1, Some(at(9))));
        queues.unready(queue, at(9));
        assert_eq!(oldest(&queues), (0, None));
    }

    #[test]
    fn jobs_that_were_taken_need_no_memory() {
        let mut queues = Queues::default();
        let queue = queues.enter(&name("red"));
        for n in 1..=10_000 {
            queues.ready(queue, at(n));
            queues.unready(queue, at(n));
        }
        assert!(queues.places[0].as_ref().unwrap().since.is_empty());
    }
}
