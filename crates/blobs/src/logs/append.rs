//! Decides which part of a chunk is already stored, which part is new, and which part is past the limit.

use thiserror::Error;

use super::RECORDS;
use super::index::State;
use super::note::{NOTE_BYTES, NOTES_BYTES, check_note};
use super::record::Stream;
use crate::BlobError;

/// Maximum size of one chunk.
pub const CHUNK_BYTES: usize = 1 << 20;

/// A chunk of output of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The offset of its first byte in the log.
    pub offset: u64,
    /// When it was received.
    pub at_ms: u64,
    pub stream: Stream,
    /// Any bytes.
    pub bytes: &'a [u8],
}

/// The state of the log after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The number of bytes: the offset of the next chunk, unless the log was truncated.
    pub len: u64,
    /// Whether it was truncated at the limit, now or before; further chunks are accepted and dropped.
    pub truncated: bool,
}

/// Why a chunk was refused.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The chunk begins after the end of the log: bytes in between are missing.
    #[error("append to log {what}: the chunk begins at {offset}, the log ends at {len}")]
    Gap { what: String, offset: u64, len: u64 },
    /// The log has different bytes at this offset.
    #[error("append to log {what}: different bytes are stored at {offset}")]
    Conflict {
        what: String,
        /// The first offset with a different byte.
        offset: u64,
    },
    /// The log is complete, and the chunk is not a repetition.
    #[error("append to log {what}: it is complete at {len} bytes")]
    Finished { what: String, len: u64 },
    #[error("append to log {what}: the chunk has {bytes} bytes, the limit is {CHUNK_BYTES}")]
    ChunkTooLarge { what: String, bytes: usize },
    #[error("append a note: it has {bytes} bytes, the limit is {NOTE_BYTES}")]
    NoteTooLarge { bytes: usize },
    #[error("append a note: it must be one line that ends with a line feed")]
    NotOneLine,
    /// A note is never truncated.
    #[error(
        "append a note: the notes of the attempt have {len} bytes and would have more than {NOTES_BYTES}, the limit"
    )]
    NotesFull { len: u64 },
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// How to handle a chunk: its first `known` bytes must exist already, the next `fresh` are appended, the rest is
/// dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) known: usize,
    pub(super) fresh: usize,
    /// Whether this is the chunk that reaches the limit.
    pub(super) mark: bool,
}

pub(super) fn plan(
    state: &State,
    chunk: &Chunk<'_>,
    limit: u64,
    what: &dyn Fn() -> String,
) -> Result<Plan, AppendError> {
    let count = chunk.bytes.len();
    if count > CHUNK_BYTES {
        return Err(AppendError::ChunkTooLarge { what: what(), bytes: count });
    }
    if chunk.stream == Stream::Note {
        check_note(chunk.bytes)?;
    }
    let known = clamped(state.len.saturating_sub(chunk.offset), count);
    let rest = count - known;
    if state.truncated || (rest == 0 && chunk.offset <= state.len) {
        return Ok(Plan { known, fresh: 0, mark: false });
    }
    if state.finished {
        return Err(AppendError::Finished { what: what(), len: state.len });
    }
    if chunk.offset > state.len {
        return Err(AppendError::Gap { what: what(), offset: chunk.offset, len: state.len });
    }
    // The last two records are reserved for the marks.
    let room = if state.records + 2 < RECORDS { limit.saturating_sub(state.len) } else { 0 };
    let fresh = clamped(room, rest);
    if fresh < rest && chunk.stream == Stream::Note {
        return Err(AppendError::NotesFull { len: state.len });
    }
    Ok(Plan { known, fresh, mark: fresh < rest })
}

fn clamped(wide: u64, most: usize) -> usize {
    usize::try_from(wide).map_or(most, |count| count.min(most))
}

#[cfg(test)]
mod tests {
    use super::{AppendError, CHUNK_BYTES, Chunk, Plan, RECORDS, State, Stream, plan};

    fn planned(state: State, offset: u64, count: usize, limit: u64) -> Result<Plan, AppendError> {
        let chunk = Chunk { offset, at_ms: 0, stream: Stream::Stdout, bytes: &vec![0; count] };
        plan(&state, &chunk, limit, &|| "1-1".to_owned())
    }

    const TEN: State =
        State { len: 10, records: 1, truncated: false, finished: false, data_len: 10, index_len: 28 };

    #[test]
    fn a_chunk_is_split_into_known_fresh_and_dropped() {
        for (offset, count, limit, known, fresh, mark) in [
            (10, 5, 99, 0, 5, false),
            (0, 10, 99, 10, 0, false),
            (7, 5, 99, 3, 2, false),
            (10, 5, 15, 0, 5, false),
            (10, 5, 14, 0, 4, true),
            (10, 5, 10, 0, 0, true),
            (7, 5, 3, 3, 0, true),
            (10, 0, 99, 0, 0, false),
            (3, 0, 99, 0, 0, false),
        ] {
            let plan = planned(TEN, offset, count, limit).unwrap();
            assert_eq!(plan, Plan { known, fresh, mark }, "{count} at {offset}, limit {limit}");
        }
    }

    #[test]
    fn a_gap_is_refused_even_without_bytes() {
        for count in [0, 1] {
            assert!(matches!(planned(TEN, 11, count, 99), Err(AppendError::Gap { offset: 11, len: 10, .. })));
        }
    }

    #[test]
    fn a_complete_log_takes_repetitions_only() {
        let state = State { finished: true, ..TEN };
        assert_eq!(planned(state, 4, 6, 99).unwrap().known, 6);
        for (offset, count) in [(4, 7), (10, 1), (11, 0)] {
            assert!(matches!(planned(state, offset, count, 99), Err(AppendError::Finished { len: 10, .. })));
        }
    }

    #[test]
    fn after_the_cut_everything_is_dropped_and_nothing_marked_again() {
        let state = State { truncated: true, ..TEN };
        for (offset, known) in [(8, 2), (10, 0), (500, 0)] {
            let plan = planned(state, offset, 5, u64::MAX).unwrap();
            assert_eq!(plan, Plan { known, fresh: 0, mark: false });
        }
    }

    #[test]
    fn chunks_and_records_are_bounded() {
        let error = planned(TEN, 10, CHUNK_BYTES + 1, u64::MAX).unwrap_err();
        assert!(matches!(error, AppendError::ChunkTooLarge { .. }), "{error}");
        let state = State { records: RECORDS - 2, ..TEN };
        assert_eq!(planned(state, 10, 1, u64::MAX).unwrap(), Plan { known: 0, fresh: 0, mark: true });
    }
}
