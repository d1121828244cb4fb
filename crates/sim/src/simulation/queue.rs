//! The queue of future events, ordered by time and then by insertion.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct Queue<T> {
    events: BTreeMap<(u64, u64), T>,
    entered: u64,
}

impl<T> Queue<T> {
    pub fn new() -> Queue<T> {
        Queue { events: BTreeMap::new(), entered: 0 }
    }

    /// Adds an event at this time.
    pub fn at(&mut self, ms: u64, event: T) {
        self.entered += 1;
        self.events.insert((ms, self.entered), event);
    }

    /// The next event and its time.
    pub fn next(&mut self) -> Option<(u64, T)> {
        self.events.pop_first().map(|((ms, _), event)| (ms, event))
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<u64> {
        self.events.first_key_value().map(|(&(ms, _), _)| ms)
    }
}
