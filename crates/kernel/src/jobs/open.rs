//! The container of the open jobs: entries in chunks of fixed size, and an index by id.
//!
//! A hash map of entries would be half empty on average and need one and a half times its final size whenever it
//! grows. Here only the index grows that way, and it has a tenth of the size.

use jobhall_core::JobId;

use crate::jobs::ids::IdMap;

/// Entries in one chunk; a power of two.
const CHUNK: usize = 1_024;

/// Values by job.
#[derive(Debug)]
pub(crate) struct Open<T> {
    slots: IdMap<JobId, u32>,
    chunks: Vec<Box<[Option<T>]>>,
    /// Slots below `used` that are empty.
    free: Vec<u32>,
    used: u32,
}

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        Open { slots: IdMap::default(), chunks: Vec::new(), free: Vec::new(), used: 0 }
    }
}

impl<T> Open<T> {
    pub fn get(&self, id: JobId) -> Option<&T> {
        let (chunk, at) = place(*self.slots.get(&id)?);
        self.chunks[chunk][at].as_ref()
    }

    pub fn get_mut(&mut self, id: JobId) -> Option<&mut T> {
        let (chunk, at) = place(*self.slots.get(&id)?);
        self.chunks[chunk][at].as_mut()
    }

    pub fn contains(&self, id: JobId) -> bool {
        self.slots.contains_key(&id)
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// All values, in an order that depends on nothing but the operations so far.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &T)> {
        self.slots.iter().filter_map(|(&id, &slot)| {
            let (chunk, at) = place(slot);
            Some((id, self.chunks[chunk][at].as_ref()?))
        })
    }

    /// Adds a value, or replaces it.
    pub fn insert(&mut self, id: JobId, value: T) {
        let slot = match self.slots.get(&id) {
            Some(&slot) => slot,
            None => self.new_slot(id),
        };
        let (chunk, at) = place(slot);
        self.chunks[chunk][at] = Some(value);
    }

    fn new_slot(&mut self, id: JobId) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            if place(self.used).0 == self.chunks.len() {
                self.chunks.push((0..CHUNK).map(|_| None).collect());
            }
            self.used += 1;
            self.used - 1
        });
        self.slots.insert(id, slot);
        slot
    }

    /// Removes a value. The memory of many values is released when the last one is removed.
    pub fn remove(&mut self, id: JobId) -> Option<T> {
        let slot = self.slots.remove(&id)?;
        let (chunk, at) = place(slot);
        let value = self.chunks[chunk][at].take();
        self.free.push(slot);
        if self.slots.is_empty() && self.chunks.len() > 1 {
            *self = Open::default();
        }
        value
    }
}

/// The chunk of a slot, and its place there.
fn place(slot: u32) -> (usize, usize) {
    let slot = slot as usize;
    (slot / CHUNK, slot % CHUNK)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::jobs::entry::Entry;
    use proptest::prelude::*;

    fn id(n: u64) -> JobId {
        JobId::new(n).unwrap()
    }

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Option<Entry>>() <= 152, "{}", size_of::<Option<Entry>>());
    }

    #[test]
    fn a_slot_is_used_again_and_memory_returns_with_the_last_value() {
        let mut open = Open::default();
        let many = 3 * CHUNK as u64;
        (1..=many).for_each(|n| open.insert(id(n), n));
        assert_eq!((open.chunks.len(), open.len()), (3, 3 * CHUNK));
        assert_eq!(open.remove(id(7)), Some(7));
        open.insert(id(many + 1), 0);
        assert_eq!(open.chunks.len(), 3, "the slot of job 7 was free");
        open.insert(id(many + 2), 0);
        assert_eq!(open.chunks.len(), 4);
        for n in 1..=many + 2 {
            open.remove(id(n));
        }
        assert_eq!((open.len(), open.chunks.len()), (0, 0));
        open.insert(id(1), 1);
        assert_eq!(open.get(id(1)), Some(&1));
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(operations in prop::collection::vec((0u8..4, 1u64..40), 1..400)) {
            let (mut open, mut map) = (Open::default(), BTreeMap::new());
            for (step, (kind, n)) in operations.into_iter().enumerate() {
                match kind {
                    0 | 1 => {
                        open.insert(id(n), step);
                        map.insert(id(n), step);
                    }
                    2 => prop_assert_eq!(open.remove(id(n)), map.remove(&id(n))),
                    _ => {
                        if let Some(value) = open.get_mut(id(n)) {
                            *value += 1;
                        }
                        map.entry(id(n)).and_modify(|value| *value += 1);
                    }
                }
                prop_assert_eq!(open.get(id(n)), map.get(&id(n)));
                prop_assert_eq!((open.contains(id(n)), open.len()), (map.contains_key(&id(n)), map.len()));
            }
            let all: BTreeMap<_, _> = open.iter().map(|(id, value)| (id, *value)).collect();
            prop_assert_eq!(all, map);
        }
    }
}
