//! The container of the open jobs: entries in chunks of fixed size, and an index by id.
//!
//! A hash map of entries would be half empty on average and need one and a half times its final size whenever it
//! grows. Here only the index grows that way, and it takes a tenth of the memory.

mod index;

use jobhall_core::JobId;

use index::Index;

/// Entries in one chunk; a power of two.
const CHUNK: usize = 1_024;

/// An entry with its job, or none.
type Slot<T> = Option<(JobId, T)>;

/// Values by job.
#[derive(Debug)]
pub(crate) struct Open<T> {
    index: Index,
    slots: Slots<T>,
    /// Slots below `used` that are empty.
    free: Vec<u32>,
    used: u32,
}

#[derive(Debug)]
struct Slots<T>(Vec<Box<[Slot<T>]>>);

impl<T> Slots<T> {
    fn get(&self, slot: u32) -> &Slot<T> {
        let (chunk, at) = place(slot);
        &self.0[chunk][at]
    }

    fn get_mut(&mut self, slot: u32) -> &mut Slot<T> {
        let (chunk, at) = place(slot);
        &mut self.0[chunk][at]
    }

    /// Returns the job in a slot.
    fn ids(&self) -> impl Fn(u32) -> Option<JobId> {
        |slot| self.get(slot).as_ref().map(|(id, _)| *id)
    }
}

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        Open { index: Index::default(), slots: Slots(Vec::new()), free: Vec::new(), used: 0 }
    }
}

impl<T> Open<T> {
    pub fn get(&self, id: JobId) -> Option<&T> {
        let slot = self.slot(id)?;
        self.slots.get(slot).as_ref().map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, id: JobId) -> Option<&mut T> {
        let slot = self.slot(id)?;
        self.slots.get_mut(slot).as_mut().map(|(_, value)| value)
    }

    pub fn contains(&self, id: JobId) -> bool {
        self.slot(id).is_some()
    }

    fn slot(&self, id: JobId) -> Option<u32> {
        self.index.get(id, self.slots.ids())
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// All values, in an order that depends on nothing but the operations so far.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &T)> {
        self.slots.0.iter().flatten().flatten().map(|(id, value)| (*id, value))
    }

    /// Adds a value, or replaces it.
    pub fn insert(&mut self, id: JobId, value: T) {
        let slot = match self.slot(id) {
            Some(slot) => slot,
            None => self.new_slot(id),
        };
        *self.slots.get_mut(slot) = Some((id, value));
    }

    fn new_slot(&mut self, id: JobId) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            if place(self.used).0 == self.slots.0.len() {
                self.slots.0.push((0..CHUNK).map(|_| None).collect());
            }
            self.used += 1;
            self.used - 1
        });
        self.index.insert(id, slot, self.slots.ids());
        slot
    }

    /// Removes a value. The memory of many values is released when the last one is removed.
    pub fn remove(&mut self, id: JobId) -> Option<T> {
        let slot = self.index.remove(id, self.slots.ids())?;
        let value = self.slots.get_mut(slot).take();
        self.free.push(slot);
        if self.index.len() == 0 && self.slots.0.len() > 1 {
            *self = Open::default();
        }
        value.map(|(_, value)| value)
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
        assert!(size_of::<Slot<Entry>>() <= 72, "{}", size_of::<Slot<Entry>>());
    }

    #[test]
    fn a_slot_is_used_again_and_memory_returns_with_the_last_value() {
        let mut open = Open::default();
        let many = 3 * CHUNK as u64;
        (1..=many).for_each(|n| open.insert(id(n), n));
        assert_eq!((open.slots.0.len(), open.len()), (3, 3 * CHUNK));
        assert_eq!(open.remove(id(7)), Some(7));
        open.insert(id(many + 1), 0);
        assert_eq!(open.slots.0.len(), 3, "the slot of job 7 was free");
        open.insert(id(many + 2), 0);
        assert_eq!(open.slots.0.len(), 4);
        for n in 1..=many + 2 {
            open.remove(id(n));
        }
        assert_eq!((open.len(), open.slots.0.len()), (0, 0));
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
