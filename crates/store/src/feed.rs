//! The feed: one packed row per commit, with what changed. It is the source of the resumable event stream.

use jobhall_core::{JobId, StateName, Time};

use crate::unit::Unit;

/// One changed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    pub id: JobId,
    /// Its rev after the change.
    pub rev: u32,
    /// Its stored state after the change.
    pub state: StateName,
}

/// The changes of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRow {
    /// The number of the row, without gaps, from 1.
    pub n: u64,
    /// The latest time among the changes.
    pub at: Time,
    pub entries: Vec<FeedEntry>,
}

/// Changes of applied units, collected for one row of the feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// The latest time among the changes.
    pub at: Time,
    /// In order.
    pub entries: Vec<FeedEntry>,
}

impl News {
    /// Adds the changes of a unit, then its inserts.
    pub fn add(&mut self, unit: &Unit) {
        let changes = unit.changes.iter().map(|change| (change.id, &change.status));
        let inserts = unit.inserts.iter().map(|insert| (insert.job.id, &insert.job.status));
        for (id, status) in changes.chain(inserts) {
            self.entries.push(FeedEntry { id, rev: status.rev, state: status.state.name() });
            self.at = self.at.max(status.updated_at);
        }
    }

    /// The changes of one unit, if it is applied.
    pub fn of(unit: &Unit) -> News {
        let mut news = News::default();
        news.add(unit);
        news
    }

    /// Appends other changes.
    pub fn join(mut self, other: News) -> News {
        self.at = self.at.max(other.at);
        self.entries.extend(other.entries);
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPage {
    /// Rows in order, without gaps.
    pub rows: Vec<FeedRow>,
    /// Numbers up to this one have been pruned: a reader below it has missed rows.
    pub pruned_to: u64,
}

/// Packs entries into bytes: the id as difference to the previous one, rev and state, all as variable-length numbers.
pub fn pack(entries: &[FeedEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * 4);
    let mut previous = 0i64;
    for entry in entries {
        let id = entry.id.get().cast_signed();
        let difference = id - previous;
        put(&mut bytes, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
        put(&mut bytes, u64::from(entry.rev));
        put(&mut bytes, code(entry.state));
        previous = id;
    }
    bytes
}

/// Unpacks the output of [`pack`]; none if the bytes are invalid.
pub fn unpack(mut bytes: &[u8]) -> Option<Vec<FeedEntry>> {
    let (mut entries, mut previous) = (Vec::new(), 0i64);
    while !bytes.is_empty() {
        let zigzag = take(&mut bytes)?;
        let difference = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
        previous = previous.checked_add(difference)?;
        let id = JobId::new(u64::try_from(previous).ok()?).ok()?;
        let rev = u32::try_from(take(&mut bytes)?).ok()?;
        let state = *StateName::ALL.get(usize::try_from(take(&mut bytes)?).ok()?)?;
        entries.push(FeedEntry { id, rev, state });
    }
    Some(entries)
}

fn code(state: StateName) -> u64 {
    state as u64
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or(0));
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = FeedEntry> {
        (1u64..=(1 << 53) - 1, any::<u32>(), 0usize..StateName::ALL.len()).prop_map(|(id, rev, state)| {
            FeedEntry { id: JobId::new(id).unwrap(), rev, state: StateName::ALL[state] }
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(entries in prop::collection::vec(entry(), 0..50)) {
            prop_assert_eq!(unpack(&pack(&entries)), Some(entries));
        }

        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = unpack(&bytes);
        }
    }

    #[test]
    fn neighbours_take_three_bytes() {
        let entries: Vec<_> = (1_000_000..1_000_100)
            .map(|id| FeedEntry { id: JobId::new(id).unwrap(), rev: 3, state: StateName::Succeeded })
            .collect();
        assert_eq!(pack(&entries).len(), 99 * 3 + 5);
        assert_eq!(unpack(&[0x80]), None);
    }
}
