//! The ready jobs of a class, in the order of their rank.
//!
//! A `BTreeSet` filled in ascending order leaves its nodes half empty: 54 bytes for each rank of 24. Here ranks are in
//! sorted chunks. Jobs arrive nearly in order, so almost every rank is appended to the last chunk and all chunks
//! before it stay full: 25 bytes for each rank. The first rank is removed without moving others.

use std::collections::VecDeque;

use super::Rank;

/// Maximum number of ranks in a chunk.
const CHUNK: usize = 256;
/// A chunk with fewer ranks is merged with the next one if both fit into half a chunk.
const FEW: usize = CHUNK / 4;

/// A set of ranks. No chunk is empty, and all ranks of a chunk are below those of the next.
#[derive(Debug, Default)]
pub(super) struct Ready {
    chunks: VecDeque<VecDeque<Rank>>,
}

impl Ready {
    pub fn first(&self) -> Option<Rank> {
        self.chunks.front()?.front().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Adds a rank, if it is not there yet.
    pub fn insert(&mut self, rank: Rank) {
        if self.chunks.back().is_none_or(|last| last.back() < Some(&rank)) {
            return self.append(rank);
        }
        let at = self.chunk_of(rank);
        let chunk = &mut self.chunks[at];
        let Err(place) = chunk.binary_search(&rank) else { return };
        if chunk.len() < CHUNK {
            return chunk.insert(place, rank);
        }
        let mut next = VecDeque::with_capacity(CHUNK);
        next.extend(chunk.drain(CHUNK / 2..));
        match place.checked_sub(CHUNK / 2) {
            Some(place) => next.insert(place, rank),
            None => chunk.insert(place, rank),
        }
        self.chunks.insert(at + 1, next);
    }

    fn append(&mut self, rank: Rank) {
        match self.chunks.back_mut() {
            Some(last) if last.len() < CHUNK => last.push_back(rank),
            Some(_) => {
                let mut next = VecDeque::with_capacity(CHUNK);
                next.push_back(rank);
                self.chunks.push_back(next);
            }
            None => self.chunks.push_back(VecDeque::from([rank])),
        }
    }

    /// Removes a rank, if it is there.
    pub fn remove(&mut self, rank: Rank) {
        let at = if self.first() == Some(rank) { 0 } else { self.chunk_of(rank) };
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let Ok(place) = chunk.binary_search(&rank) else { return };
        chunk.remove(place);
        match chunk.len() {
            0 => drop(self.chunks.remove(at)),
            1..FEW => {
                self.merge(at);
                at.checked_sub(1).into_iter().for_each(|before| self.merge(before));
            }
            _ => {}
        }
    }

    /// The chunk that contains this rank if one does: the last one that does not begin after it.
    fn chunk_of(&self, rank: Rank) -> usize {
        let after = self.chunks.partition_point(|chunk| chunk.front().is_some_and(|&first| first <= rank));
        after.saturating_sub(1)
    }

    /// Merges a chunk with the next one if they are small enough, so that many removals leave no nearly empty chunks.
    fn merge(&mut self, at: usize) {
        let Some(next) = self.chunks.get(at + 1).map(VecDeque::len) else { return };
        if self.chunks[at].len() + next > CHUNK / 2 {
            return;
        }
        if let Some(next) = self.chunks.remove(at + 1) {
            self.chunks[at].extend(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jobhall_core::{JobId, Time};
    use proptest::prelude::*;

    use super::*;

    fn rank(priority: i32, run_at: u64, id: u64) -> Rank {
        Rank { priority, run_at: Time::EPOCH.plus_ms(run_at), id: JobId::new(id).unwrap() }
    }

    fn all(ready: &Ready) -> Vec<Rank> {
        ready.chunks.iter().flatten().copied().collect()
    }

    #[test]
    fn ranks_in_ascending_order_fill_their_chunks() {
        let mut ready = Ready::default();
        (1..=10 * CHUNK as u64).for_each(|n| ready.insert(rank(0, n / 7, n)));
        assert_eq!(ready.chunks.len(), 10);
        assert!(ready.chunks.iter().all(|chunk| chunk.len() == CHUNK && chunk.capacity() == CHUNK));
    }

    #[test]
    fn removals_at_any_place_leave_no_nearly_empty_chunks() {
        let mut ready = Ready::default();
        let many = 64 * CHUNK as u64;
        (1..=many).for_each(|n| ready.insert(rank(0, 0, n)));
        (1..=many).filter(|n| n % 32 != 0).for_each(|n| ready.remove(rank(0, 0, n)));
        assert_eq!(all(&ready).len(), 2 * CHUNK);
        assert!(ready.chunks.len() <= 8, "{}", ready.chunks.len());
    }

    #[test]
    fn the_first_ranks_are_taken_in_order_until_nothing_is_left() {
        let mut ready = Ready::default();
        let many = 3 * CHUNK as u64;
        (1..=many).rev().for_each(|n| ready.insert(rank(0, 0, n)));
        for n in 1..=many {
            assert_eq!(ready.first(), Some(rank(0, 0, n)));
            ready.remove(rank(0, 0, n));
        }
        assert!(ready.is_empty() && ready.first().is_none());
    }

    proptest! {
        #[test]
        fn it_holds_what_a_set_holds(
            operations in prop::collection::vec((0u8..5, -1i32..2, 0u64..40, 1u64..30), 1..3_000)
        ) {
            let (mut ready, mut set) = (Ready::default(), BTreeSet::new());
            for (kind, priority, run_at, id) in operations {
                let rank = rank(priority, run_at, id);
                match kind {
                    0..=2 => {
                        ready.insert(rank);
                        set.insert(rank);
                    }
                    3 => {
                        ready.remove(rank);
                        set.remove(&rank);
                    }
                    _ => {
                        if let Some(first) = set.pop_first() {
                            ready.remove(first);
                        }
                    }
                }
                prop_assert_eq!((ready.first(), ready.is_empty()), (set.first().copied(), set.is_empty()));
            }
            prop_assert!(ready.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
            prop_assert_eq!(all(&ready), set.into_iter().collect::<Vec<_>>());
        }
    }
}
