//! A hash table of slots by job id. It does not store the ids: the caller has them in its slots, so that a place takes
//! four bytes, where a map from id to slot takes seventeen.
//!
//! Open addressing with linear probing; a removal closes the gap, so there are no marks of removed slots.

use jobhall_core::JobId;

/// A place without a slot.
const EMPTY: u32 = u32::MAX;
/// The number of places of the smallest table, as a power of two.
const SMALLEST: u32 = 6;
/// Consecutive ids that are beside each other in the table, as a power of two: 16 places are one cache line, so that a
/// walk over ids in their order reads each line once.
const LINE: u32 = 4;
/// 2⁶⁴ divided by the golden ratio: consecutive lines are spread evenly over the table.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Slots by job.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// None, or a power of two.
    places: Box<[u32]>,
    len: usize,
}

impl Index {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The slot of a job; `id_of` returns the id in a slot.
    pub fn get(&self, id: JobId, id_of: impl Fn(u32) -> Option<JobId>) -> Option<u32> {
        self.find(id, id_of).map(|place| self.places[place])
    }

    /// Adds the slot of a job that has none.
    pub fn insert(&mut self, id: JobId, slot: u32, id_of: impl Fn(u32) -> Option<JobId>) {
        if self.len >= self.places.len() / 4 * 3 {
            self.grow(id_of);
        }
        self.put(id, slot);
        self.len += 1;
    }

    /// Removes a job, whose slot is returned.
    pub fn remove(&mut self, id: JobId, id_of: impl Fn(u32) -> Option<JobId>) -> Option<u32> {
        let mut gap = self.find(id, &id_of)?;
        let slot = self.places[gap];
        let mut place = gap;
        loop {
            place = self.next(place);
            let other = self.places[place];
            if other == EMPTY {
                break;
            }
            // A slot may move back to the gap unless its search begins behind the gap.
            let home = id_of(other).map_or(place, |id| self.home(id));
            if self.distance(home, place) >= self.distance(gap, place) {
                self.places[gap] = other;
                gap = place;
            }
        }
        self.places[gap] = EMPTY;
        self.len -= 1;
        Some(slot)
    }

    fn find(&self, id: JobId, id_of: impl Fn(u32) -> Option<JobId>) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut place = self.home(id);
        while self.places[place] != EMPTY {
            if id_of(self.places[place]) == Some(id) {
                return Some(place);
            }
            place = self.next(place);
        }
        None
    }

    fn put(&mut self, id: JobId, slot: u32) {
        let mut place = self.home(id);
        while self.places[place] != EMPTY {
            place = self.next(place);
        }
        self.places[place] = slot;
    }

    fn grow(&mut self, id_of: impl Fn(u32) -> Option<JobId>) {
        let places = (2 * self.places.len()).max(1 << SMALLEST);
        let before = std::mem::replace(&mut self.places, vec![EMPTY; places].into());
        for slot in before.into_iter().filter(|&slot| slot != EMPTY) {
            if let Some(id) = id_of(slot) {
                self.put(id, slot);
            }
        }
    }

    /// Where the search for a job begins.
    fn home(&self, id: JobId) -> usize {
        let lines = self.places.len().trailing_zeros() - LINE;
        let line = (id.get() >> LINE).wrapping_mul(SPREAD) >> (64 - lines);
        usize::try_from((line << LINE) | (id.get() % (1 << LINE))).unwrap_or(0)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn id(n: u64) -> JobId {
        JobId::new(n).unwrap()
    }

    /// The slot of each job in the tests below: its number.
    fn id_of(slot: u32) -> Option<JobId> {
        JobId::new(u64::from(slot)).ok()
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        let mut index = Index::default();
        assert_eq!((index.len(), index.get(id(1), id_of), index.remove(id(1), id_of)), (0, None, None));
    }

    #[test]
    fn a_place_takes_four_bytes_and_three_of_four_are_used() {
        let mut index = Index::default();
        (1..=48).for_each(|n| index.insert(id(u64::from(n)), n, id_of));
        assert_eq!((index.len(), size_of_val(&*index.places)), (48, 64 * 4));
        index.insert(id(49), 49, id_of);
        assert_eq!((index.len(), size_of_val(&*index.places)), (49, 128 * 4));
        assert!((1..=49).all(|n| index.get(id(u64::from(n)), id_of) == Some(n)));
    }

    #[test]
    fn consecutive_ids_are_found_in_their_line_or_in_the_two_behind_it() {
        let mut index = Index::default();
        (1_000..50_000).for_each(|n| index.insert(id(u64::from(n)), n, id_of));
        let moved = |(place, &slot): (usize, &u32)| Some(index.distance(index.home(id_of(slot)?), place));
        let full = index.places.iter().enumerate().filter(|&(_, &slot)| slot != EMPTY);
        assert_eq!(full.filter_map(moved).max(), Some(2 << LINE));
    }

    proptest! {
        #[test]
        fn it_finds_what_a_map_finds(operations in prop::collection::vec((0u8..3, 1u32..90), 1..600)) {
            let (mut index, mut map) = (Index::default(), BTreeMap::new());
            for (kind, n) in operations {
                let job = id(u64::from(n));
                match kind {
                    0 | 1 if !map.contains_key(&job) => {
                        index.insert(job, n, id_of);
                        map.insert(job, n);
                    }
                    2 => prop_assert_eq!(index.remove(job, id_of), map.remove(&job)),
                    _ => {}
                }
                prop_assert_eq!(index.len(), map.len());
                for n in 1u32..90 {
                    let job = id(u64::from(n));
                    prop_assert_eq!(index.get(job, id_of), map.get(&job).copied());
                }
            }
        }
    }
}
