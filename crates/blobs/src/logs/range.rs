//! Byte ranges as in HTTP.

use std::ops::Range;

use thiserror::Error;

/// A range of bytes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteRange {
    All,
    /// From this offset to the end.
    From(u64),
    /// From the first to the last offset, both included; a last offset after the end means the end.
    FromTo(u64, u64),
    /// The last bytes, this many; all if there are fewer.
    Suffix(u64),
}

/// Why a range is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// The range ends before it begins.
    #[error("read bytes {from} to {to}: the range ends before it begins")]
    Backwards { from: u64, to: u64 },
    /// The range is after the end.
    #[error("read a range: there are {total} bytes, none of them in the range")]
    Unsatisfiable {
        /// The number of bytes.
        total: u64,
    },
}

impl ByteRange {
    /// The offsets of the range in this many bytes. Never empty, except for `All` of an empty log.
    ///
    /// # Errors
    /// The rule that the range violates.
    pub fn resolve(self, total: u64) -> Result<Range<u64>, RangeError> {
        let range = match self {
            ByteRange::All => return Ok(0..total),
            ByteRange::FromTo(from, to) if to < from => return Err(RangeError::Backwards { from, to }),
            ByteRange::From(from) => from..total,
            ByteRange::FromTo(from, to) => from..to.saturating_add(1).min(total),
            ByteRange::Suffix(count) => total.saturating_sub(count)..total,
        };
        if range.is_empty() { Err(RangeError::Unsatisfiable { total }) } else { Ok(range) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteRange, RangeError};

    #[test]
    fn ranges_are_those_of_http() {
        let none = |total| Err(RangeError::Unsatisfiable { total });
        for (range, total, meant) in [
            (ByteRange::All, 0, Ok(0..0)),
            (ByteRange::All, 5, Ok(0..5)),
            (ByteRange::From(0), 5, Ok(0..5)),
            (ByteRange::From(4), 5, Ok(4..5)),
            (ByteRange::From(5), 5, none(5)),
            (ByteRange::From(0), 0, none(0)),
            (ByteRange::From(u64::MAX), 5, none(5)),
            (ByteRange::FromTo(0, 0), 5, Ok(0..1)),
            (ByteRange::FromTo(1, 3), 5, Ok(1..4)),
            (ByteRange::FromTo(1, 9), 5, Ok(1..5)),
            (ByteRange::FromTo(4, u64::MAX), 5, Ok(4..5)),
            (ByteRange::FromTo(5, 9), 5, none(5)),
            (ByteRange::FromTo(0, 0), 0, none(0)),
            (ByteRange::FromTo(3, 2), 5, Err(RangeError::Backwards { from: 3, to: 2 })),
            (ByteRange::Suffix(0), 5, none(5)),
            (ByteRange::Suffix(2), 5, Ok(3..5)),
            (ByteRange::Suffix(5), 5, Ok(0..5)),
            (ByteRange::Suffix(u64::MAX), 5, Ok(0..5)),
            (ByteRange::Suffix(1), 0, none(0)),
        ] {
            assert_eq!(range.resolve(total), meant, "{range:?} of {total}");
        }
    }
}
