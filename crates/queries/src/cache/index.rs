//! Which identities have a value, in memory.
//!
//! A shard is a table of slots and the slots themselves. The slots are in chunks of a fixed size, so that nothing large is
//! copied when the index grows; only the table, 4 bytes a slot, is written again. A reader takes the read lock of a shard
//! and marks the entry as used by an atomic store.
//!
//! | per value | bytes |
//! |---|---|
//! | entry | 112 |
//! | table, filled to a third at least | 5 to 11 |
//! | unused slots of the last chunk | 6 with a million values |

use std::collections::{BinaryHeap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jobhall_core::query::Identity;
use jobhall_core::{JobId, Time};

const SHARDS: usize = 16;
/// Slots that are allocated at once.
const CHUNK: usize = 4_096;
/// A table is filled up to this share.
const FILL: (usize, usize) = (3, 4);
const FIRST_TABLE: usize = 64;
/// The end of the list of free slots.
const NO_SLOT: u32 = u32::MAX;

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub identity: Identity,
    pub job: JobId,
    /// Bytes of the value.
    pub size: u64,
    /// BLAKE3 of the value; zeros if it was not read.
    pub digest: [u8; 32],
    pub ended_at: Time,
    /// None if it does not expire.
    pub expires_at: Option<Time>,
}

/// A value that may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    /// When it was used, in microseconds.
    pub used: u64,
    pub job: JobId,
    pub identity: Identity,
    pub size: u64,
}

#[derive(Debug)]
struct Entry {
    value: Value,
    used: AtomicU64,
    /// The next free slot, if this one is free.
    next: u32,
    free: bool,
}

#[derive(Debug)]
struct Shard {
    /// Slots plus 1, at the place of their identity or behind it; 0 is empty.
    table: Vec<u32>,
    chunks: Vec<Vec<Entry>>,
    free: u32,
    values: usize,
}

pub(crate) struct Index {
    shards: [RwLock<Shard>; SHARDS],
    values: AtomicU64,
    bytes: AtomicU64,
}

impl Default for Index {
    fn default() -> Index {
        Index {
            shards: std::array::from_fn(|_| RwLock::default()),
            values: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

impl Index {
    /// How many values there are.
    pub fn values(&self) -> u64 {
        self.values.load(Ordering::Relaxed)
    }

    /// The bytes of all values.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn read(&self, identity: &Identity) -> RwLockReadGuard<'_, Shard> {
        self.shards[shard_of(identity)].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, Shard> {
        self.shards[shard].write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, identity: &Identity) -> Option<Value> {
        let shard = self.read(identity);
        let (_, slot) = shard.find(identity)?;
        Some(shard.entry(slot).value)
    }

    /// The value, which counts as used at this time.
    pub fn hit(&self, identity: &Identity, used: u64) -> Option<Value> {
        let shard = self.read(identity);
        let (_, slot) = shard.find(identity)?;
        let entry = shard.entry(slot);
        entry.used.store(used, Ordering::Relaxed);
        Some(entry.value)
    }

    /// Adds a value, which was used at this time. A newer one of the same identity stays. `holds` is asked while no other
    /// thread can remove the value; nothing is added if it is false.
    pub fn put(&self, value: Value, used: u64, holds: impl FnOnce() -> bool) -> bool {
        let mut shard = self.write(shard_of(&value.identity));
        if !holds() {
            return false;
        }
        let Some((_, slot)) = shard.find(&value.identity) else {
            shard.add(value, used);
            self.count(0, value.size, 1);
            return true;
        };
        let entry = shard.entry_mut(slot);
        if entry.value.job > value.job {
            return false;
        }
        self.count(entry.value.size, value.size, 0);
        let used = used.max(*entry.used.get_mut());
        (entry.value, entry.used) = (value, AtomicU64::new(used));
        true
    }

    fn count(&self, before: u64, after: u64, added: u64) {
        self.values.fetch_add(added, Ordering::Relaxed);
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// Removes the value of this identity if it is that of this job.
    pub fn remove(&self, identity: &Identity, job: JobId) -> bool {
        let mut shard = self.write(shard_of(identity));
        match shard.find(identity) {
            Some((place, slot)) if shard.entry(slot).value.job == job => {
                self.take(&mut shard, place, slot);
                true
            }
            _ => false,
        }
    }

    fn take(&self, shard: &mut Shard, place: usize, slot: u32) {
        let size = shard.entry(slot).value.size;
        shard.remove(place, slot);
        self.values.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(size, Ordering::Relaxed);
    }

    /// Removes the values of these jobs, whose identities are not known, and returns them. All entries are looked at.
    pub fn remove_jobs(&self, jobs: &HashSet<JobId>) -> Vec<Value> {
        let mut removed = Vec::new();
        for shard in 0..SHARDS {
            let mut shard = self.write(shard);
            let found = shard.all().map(|entry| entry.value).filter(|value| jobs.contains(&value.job));
            for value in found.collect::<Vec<_>>() {
                if let Some((place, slot)) = shard.find(&value.identity) {
                    self.take(&mut shard, place, slot);
                    removed.push(value);
                }
            }
        }
        removed
    }

    pub fn clear(&self) {
        for shard in 0..SHARDS {
            let mut shard = self.write(shard);
            let bytes = shard.all().map(|entry| entry.value.size).sum();
            self.values.fetch_sub(shard.values as u64, Ordering::Relaxed);
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            *shard = Shard::default();
        }
    }

    /// The values that were used longest ago, of those that fit; at most this many of one part of the index, the oldest
    /// first. There are [`Index::PARTS`] parts, so that a caller can pause between them.
    pub fn oldest(&self, part: usize, most: usize, fits: impl Fn(&Candidate) -> bool) -> Vec<Candidate> {
        let Some(shard) = self.shards.get(part) else { return Vec::new() };
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        let mut oldest: BinaryHeap<Candidate> = BinaryHeap::with_capacity(most + 1);
        for entry in shard.all() {
            let Value { identity, job, size, .. } = entry.value;
            let candidate = Candidate { used: entry.used.load(Ordering::Relaxed), job, identity, size };
            let late = oldest.len() >= most && oldest.peek().is_some_and(|last| *last <= candidate);
            if !late && fits(&candidate) {
                oldest.push(candidate);
                if oldest.len() > most {
                    oldest.pop();
                }
            }
        }
        oldest.into_sorted_vec()
    }

    /// The parts of [`Index::oldest`].
    pub const PARTS: usize = SHARDS;
}

/// The first of several sorted lists, at most this many.
pub(crate) fn first_of(lists: Vec<Vec<Candidate>>, most: usize) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = lists.into_iter().flatten().collect();
    all.sort_unstable();
    all.truncate(most);
    all
}

fn shard_of(identity: &Identity) -> usize {
    usize::from(identity.bytes()[8]) % SHARDS
}

fn hash(identity: &Identity) -> usize {
    let [a, b, c, d, ..] = *identity.bytes();
    // An identity is a hash: any of its bytes are as good as a hash of it.
    u32::from_le_bytes([a, b, c, d]) as usize
}

impl Default for Shard {
    fn default() -> Shard {
        Shard { table: Vec::new(), chunks: Vec::new(), free: NO_SLOT, values: 0 }
    }
}

impl Shard {
    fn entry(&self, slot: u32) -> &Entry {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    fn entry_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten().filter(|entry| !entry.free)
    }

    /// The place in the table, and the slot.
    fn find(&self, identity: &Identity) -> Option<(usize, u32)> {
        let mask = self.table.len().checked_sub(1)?;
        let mut place = hash(identity) & mask;
        loop {
            let slot = self.table[place].checked_sub(1)?;
            if self.entry(slot).value.identity == *identity {
                return Some((place, slot));
            }
            place = (place + 1) & mask;
        }
    }

    fn add(&mut self, value: Value, used: u64) {
        if (self.values + 1) * FILL.1 > self.table.len() * FILL.0 {
            self.grow();
        }
        let entry = Entry { value, used: AtomicU64::new(used), next: NO_SLOT, free: false };
        let slot = self.slot(entry);
        self.enter(&value.identity, slot);
        self.values += 1;
    }

    /// Puts an entry into a free slot.
    fn slot(&mut self, entry: Entry) -> u32 {
        if self.free != NO_SLOT {
            let slot = self.free;
            self.free = self.entry(slot).next;
            *self.entry_mut(slot) = entry;
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let full = self.chunks.len() - 1;
        let chunk = &mut self.chunks[full];
        chunk.push(entry);
        // More than 4 billion values do not fit into memory.
        u32::try_from(full * CHUNK + chunk.len() - 1).unwrap_or(NO_SLOT)
    }

    fn enter(&mut self, identity: &Identity, slot: u32) {
        let mask = self.table.len() - 1;
        let mut place = hash(identity) & mask;
        while self.table[place] != 0 {
            place = (place + 1) & mask;
        }
        self.table[place] = slot + 1;
    }

    fn grow(&mut self) {
        let before = std::mem::take(&mut self.table);
        self.table = vec![0; (before.len() * 2).max(FIRST_TABLE)];
        for slot in before.into_iter().filter_map(|slot| slot.checked_sub(1)) {
            let identity = self.entry(slot).value.identity;
            self.enter(&identity, slot);
        }
    }

    /// Removes an entry, and moves those behind it to where they are found.
    fn remove(&mut self, mut place: usize, slot: u32) {
        let mask = self.table.len() - 1;
        let mut behind = (place + 1) & mask;
        while let Some(moved) = self.table[behind].checked_sub(1) {
            let wanted = hash(&self.entry(moved).value.identity) & mask;
            if (behind.wrapping_sub(wanted) & mask) >= (behind.wrapping_sub(place) & mask) {
                self.table[place] = moved + 1;
                place = behind;
            }
            behind = (behind + 1) & mask;
        }
        self.table[place] = 0;
        let next = self.free;
        let entry = self.entry_mut(slot);
        (entry.free, entry.next) = (true, next);
        self.free = slot;
        self.values -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::identity_of;

    fn value(n: u64, job: u64) -> Value {
        Value {
            identity: identity_of(&n.to_le_bytes()),
            job: JobId::new(job).unwrap(),
            size: 10 + n,
            digest: [0; 32],
            ended_at: Time::EPOCH,
            expires_at: None,
        }
    }

    /// The bytes that the index has allocated.
    fn allocated(index: &Index) -> usize {
        let shard = |shard: &RwLock<Shard>| {
            let shard = shard.read().unwrap();
            let slots: usize = shard.chunks.iter().map(|chunk| chunk.capacity() * size_of::<Entry>()).sum();
            slots + shard.table.capacity() * 4 + shard.chunks.capacity() * size_of::<Vec<Entry>>()
        };
        index.shards.iter().map(shard).sum()
    }

    #[test]
    fn a_million_values_have_at_most_200_bytes_each() {
        let index = Index::default();
        for n in 0..1_000_000 {
            assert!(index.put(value(n, n + 1), n, || true));
        }
        assert_eq!(index.values(), 1_000_000);
        let each = allocated(&index) / 1_000_000;
        assert!(each <= 200, "{each} bytes for each value");
        // What is removed is used again.
        for n in 0..500_000 {
            assert!(index.remove(&value(n, 1).identity, JobId::new(n + 1).unwrap()));
        }
        let before = allocated(&index);
        for n in 0..500_000 {
            index.put(value(n, n + 1), n, || true);
        }
        assert_eq!(allocated(&index), before);
    }

    #[test]
    fn it_agrees_with_a_map_over_random_changes() {
        use rand::{Rng, SeedableRng};
        let mut random = rand::rngs::StdRng::seed_from_u64(7);
        let (index, mut model) = (Index::default(), BTreeMap::<u64, Value>::new());
        for _ in 0..200_000 {
            let n = u64::from(random.next_u32() % 3_000);
            let job = u64::from(random.next_u32() % 50) + 1;
            match random.next_u32() % 3 {
                0 => {
                    let removed = index.remove(&value(n, 1).identity, JobId::new(job).unwrap());
                    let had = model.get(&n).is_some_and(|known| known.job.get() == job);
                    assert_eq!(removed, had);
                    if had {
                        model.remove(&n);
                    }
                }
                _ => {
                    let put = index.put(value(n, job), 1, || true);
                    let newer = model.get(&n).is_none_or(|known| known.job.get() <= job);
                    assert_eq!(put, newer);
                    if newer {
                        model.insert(n, value(n, job));
                    }
                }
            }
        }
        assert_eq!(index.values(), model.len() as u64);
        assert_eq!(index.bytes(), model.values().map(|value| value.size).sum::<u64>());
        for n in 0..3_000 {
            assert_eq!(index.get(&value(n, 1).identity), model.get(&n).copied());
        }
        let jobs: HashSet<JobId> = (1..=25).map(|job| JobId::new(job).unwrap()).collect();
        let removed = index.remove_jobs(&jobs);
        model.retain(|_, value| !jobs.contains(&value.job));
        assert!(removed.iter().all(|value| jobs.contains(&value.job)));
        assert_eq!(index.values(), model.len() as u64);
        index.clear();
        assert_eq!((index.values(), index.bytes()), (0, 0));
    }

    #[test]
    fn the_oldest_are_those_used_longest_ago() {
        let index = Index::default();
        for n in 0..1_000 {
            index.put(value(n, n + 1), 1_000 + n, || true);
        }
        index.hit(&value(0, 1).identity, 5_000);
        let lists = |most| (0..Index::PARTS).map(|part| index.oldest(part, most, |_| true)).collect();
        let used: Vec<u64> = first_of(lists(5), 5).iter().map(|candidate| candidate.used).collect();
        assert_eq!(used, [1_001, 1_002, 1_003, 1_004, 1_005]);
    }

    #[test]
    fn nothing_is_added_once_it_does_not_hold() {
        let index = Index::default();
        assert!(!index.put(value(1, 1), 1, || false));
        assert_eq!(index.values(), 0);
    }
}
