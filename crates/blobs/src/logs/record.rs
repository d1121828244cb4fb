//! One record of the index, 28 bytes, little-endian:
//!
//! ```text
//!   0        8        16     19     20          24            28
//!   at_ms    offset   len    kind   check of    check of the
//!                                   the data    record itself
//! ```
//!
//! Both checks are the first four bytes of a BLAKE3 hash. The check of the record also covers its number, so an old
//! record in a wrong position is not accepted.

use crate::Channel;

pub(super) const RECORD_BYTES: usize = 28;
const CHECKED: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
    /// A line that the worker wrote, not a process.
    Note,
}

impl Stream {
    /// The log that it is written to.
    #[must_use]
    pub fn channel(self) -> Channel {
        match self {
            Stream::Stdout | Stream::Stderr => Channel::Output,
            Stream::Note => Channel::Notes,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data(Stream),
    /// The limit was reached here.
    Truncated,
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) at_ms: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) kind: Kind,
    check: [u8; 4],
}

impl Record {
    pub(super) fn data(at_ms: u64, offset: u64, stream: Stream, bytes: &[u8]) -> Record {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Record { at_ms, offset, len, kind: Kind::Data(stream), check: short_hash(bytes) }
    }

    pub(super) fn mark(at_ms: u64, offset: u64, kind: Kind) -> Record {
        Record { at_ms, offset, len: 0, kind, check: short_hash(&[]) }
    }

    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    /// Whether the check matches these bytes.
    pub(super) fn fits(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == u64::from(self.len) && short_hash(bytes) == self.check
    }

    pub(super) fn encode(&self, number: u64) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[..8].copy_from_slice(&self.at_ms.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..19].copy_from_slice(&self.len.to_le_bytes()[..3]);
        out[19] = self.kind.code();
        out[20..CHECKED].copy_from_slice(&self.check);
        let own = own_check(number, &out[..CHECKED]);
        out[CHECKED..].copy_from_slice(&own);
        out
    }

    /// The record with this number, if these bytes are valid.
    pub(super) fn decode(number: u64, bytes: &[u8]) -> Option<Record> {
        let (checked, own) = bytes.split_at_checked(CHECKED)?;
        if own != own_check(number, checked) {
            return None;
        }
        Some(Record {
            at_ms: u64::from_le_bytes(checked[..8].try_into().ok()?),
            offset: u64::from_le_bytes(checked[8..16].try_into().ok()?),
            len: u32::from_le_bytes([checked[16], checked[17], checked[18], 0]),
            kind: Kind::from_code(checked[19])?,
            check: checked[20..].try_into().ok()?,
        })
    }
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Data(Stream::Stdout) => 1,
            Kind::Data(Stream::Stderr) => 2,
            Kind::Truncated => 3,
            Kind::Finished => 4,
            Kind::Data(Stream::Note) => 5,
        }
    }

    fn from_code(code: u8) -> Option<Kind> {
        match code {
            1 => Some(Kind::Data(Stream::Stdout)),
            2 => Some(Kind::Data(Stream::Stderr)),
            3 => Some(Kind::Truncated),
            4 => Some(Kind::Finished),
            5 => Some(Kind::Data(Stream::Note)),
            _ => None,
        }
    }
}

fn short_hash(bytes: &[u8]) -> [u8; 4] {
    first_four(&blake3::hash(bytes))
}

fn own_check(number: u64, checked: &[u8]) -> [u8; 4] {
    first_four(&blake3::Hasher::new().update(&number.to_le_bytes()).update(checked).finalize())
}

fn first_four(hash: &blake3::Hash) -> [u8; 4] {
    let [a, b, c, d, ..] = *hash.as_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::{Kind, RECORD_BYTES, Record, Stream};

    fn sample() -> Record {
        Record::data(1_700_000_000_123, 77, Stream::Stderr, &vec![9; 1 << 20])
    }

    #[test]
    fn a_record_reads_back() {
        for record in
            [sample(), Record::mark(5, 6, Kind::Truncated), Record::mark(0, u64::MAX, Kind::Finished)]
        {
            assert_eq!(Record::decode(3, &record.encode(3)), Some(record));
        }
    }

    #[test]
    fn a_record_that_was_moved_changed_or_cut_is_none() {
        let bytes = sample().encode(3);
        assert_eq!(Record::decode(4, &bytes), None, "moved");
        for bit in 0..RECORD_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(3, &changed), None, "bit {bit}");
        }
        for len in 0..RECORD_BYTES {
            assert_eq!(Record::decode(3, &bytes[..len]), None, "cut to {len}");
        }
        assert_eq!(Record::decode(0, &[0; RECORD_BYTES]), None, "zeros, as a crash may leave");
    }
}
