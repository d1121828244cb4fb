//! Logs of attempts: append-only, readable by byte range, and readable while they grow.
//!
//! A log is two files. The first contains exactly the bytes that the attempt wrote, so a byte range of the log is a
//! byte range of the file. The second is an index with one record of fixed size per chunk: its time, stream, offset
//! and check sum. The marks for "truncated at the limit" and "complete" are records too. The last valid record
//! defines the length of the log: a crash between the two writes leaves bytes that were never acknowledged and do
//! not count.
//!
//! Appends are idempotent by offset, so a worker that lost a reply sends the chunk again. A valid record is never
//! discarded: damage in the middle of a log is an error for a reader of that part, not a shorter log.
//!
//! An attempt has two logs: its output, and the notes of its worker ([`Stream::Note`]). They are separate files, so notes
//! have offsets and a limit of their own, and no output can be mistaken for a note.

mod append;
mod index;
mod info;
mod lines;
mod log;
mod note;
mod range;
mod record;
mod tail;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use thiserror::Error;

use crate::file_store::FileStore;
use crate::{AttemptKey, BlobError, Channel, LogKey, guard};

pub use append::{AppendError, Appended, CHUNK_BYTES, Chunk};
pub use info::LogInfo;
pub use lines::{LINE_BYTES, Line, Lines};
pub use note::{NOTE_BYTES, NOTES_BYTES, check_note};
pub use range::{ByteRange, RangeError};
pub use record::Stream;
pub use tail::{Step, Tail, WATCHERS, Wake};
pub use view::{Entries, Entry};

use log::Log;

/// Maximum number of records of one log; a log with more chunks is truncated like one with too many bytes.
pub const RECORDS: u64 = 1 << 20;
/// Maximum number of bytes per read.
pub const PIECE_BYTES: usize = 4 << 20;
/// Number of cached logs besides those in use.
const REMEMBERED: usize = 4_096;

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The offset of the first byte.
    pub from: u64,
    /// Fewer bytes than requested if there are too many for one read: continue after them.
    pub bytes: Vec<u8>,
    /// The state of the log at that time.
    pub info: LogInfo,
}

/// Why a part of a log was not read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The range is outside the log.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The log is damaged there, or the file system failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Logs of attempts. A log that was never written reads as empty.
#[derive(Debug)]
pub struct Logs {
    file_store: Arc<dyn FileStore>,
    known: Mutex<HashMap<LogKey, Arc<Log>>>,
}

impl Logs {
    pub(crate) fn new(file_store: Arc<dyn FileStore>) -> Logs {
        Logs { file_store, known: Mutex::default() }
    }

    /// Appends a chunk. With `sync` it is durable when this returns, together with all earlier ones; otherwise when a
    /// later one is, or at [`finish`](Logs::finish). Beyond `limit` bytes the log is truncated and marked, and later
    /// chunks are dropped without an error: see [`Appended::truncated`]. The stream selects the log: a note is one
    /// line, and is refused if it does not fit within the limit or [`NOTES_BYTES`].
    ///
    /// # Errors
    /// [`AppendError::Gap`] and [`AppendError::Conflict`] if the chunk does not fit the existing bytes; for a note also
    /// those of [`check_note`], and [`AppendError::NotesFull`]. Nothing of a refused chunk is stored.
    pub fn append(
        &self,
        attempt: AttemptKey,
        chunk: &Chunk<'_>,
        limit: u64,
        sync: bool,
    ) -> Result<Appended, AppendError> {
        let channel = chunk.stream.channel();
        let limit = match channel {
            Channel::Output => limit,
            Channel::Notes => limit.min(NOTES_BYTES),
        };
        self.log(LogKey { attempt, channel }).append(chunk, limit, sync)
    }

    /// Marks the log complete and makes it durable. Idempotent.
    ///
    /// # Errors
    /// The file system failed; a retry is possible unless the log is [`BlobError::Broken`].
    pub fn finish(&self, log: impl Into<LogKey>, at_ms: u64) -> Result<LogInfo, BlobError> {
        self.log(log.into()).finish(at_ms)
    }

    /// The state of the log.
    ///
    /// # Errors
    /// The file system failed, or a complete log has lost its end.
    pub fn info(&self, log: impl Into<LogKey>) -> Result<LogInfo, BlobError> {
        self.log(log.into()).info()
    }

    /// Whether the log may have been written. Answers immediately: if that is not possible, the answer is true.
    ///
    /// # Errors
    /// The file system failed.
    pub fn may_exist(&self, log: impl Into<LogKey>) -> Result<bool, BlobError> {
        let log = log.into();
        let is_known = guard(&self.known).contains_key(&log);
        Ok(is_known || self.file_store.may_have(&log::data_name(log))?)
    }

    /// The number of bytes.
    ///
    /// # Errors
    /// As [`info`](Logs::info).
    pub fn len(&self, log: impl Into<LogKey>) -> Result<u64, BlobError> {
        Ok(self.info(log)?.len)
    }

    /// Whether it is complete.
    ///
    /// # Errors
    /// As [`info`](Logs::info).
    pub fn is_finished(&self, log: impl Into<LogKey>) -> Result<bool, BlobError> {
        Ok(self.info(log)?.finished)
    }

    /// The bytes of a range, at most `most` and [`PIECE_BYTES`] of them, checked.
    ///
    /// # Errors
    /// [`RangeError::Unsatisfiable`] if the log has no such bytes, [`BlobError::Damaged`] if the first of them were
    /// changed. Valid bytes before a damaged position are returned first.
    pub fn read(&self, log: impl Into<LogKey>, range: ByteRange, most: usize) -> Result<Piece, ReadError> {
        let log = self.log(log.into());
        let info = log.info()?;
        let range = range.resolve(info.len)?;
        let parts: Vec<Vec<u8>> =
            log.view(range.clone(), most)?.into_iter().map(|entry| entry.bytes).collect();
        Ok(Piece { from: range.start, bytes: parts.concat(), info })
    }

    /// The chunks from an offset, with their times and streams, at most `most` and [`PIECE_BYTES`] bytes.
    ///
    /// # Errors
    /// As [`read`](Logs::read), except that an offset at or after the end returns nothing.
    pub fn entries(&self, log: impl Into<LogKey>, from: u64, most: usize) -> Result<Entries, BlobError> {
        self.log(log.into()).entries(from, most)
    }

    /// Follows the log from an offset: first the existing bytes, then new ones, each byte once. See [`Tail`] for how
    /// to wait.
    ///
    /// # Errors
    /// [`BlobError::TooManyWatchers`].
    pub fn tail(&self, log: impl Into<LogKey>, from: u64, wake: Wake) -> Result<Tail, BlobError> {
        Tail::new(self.log(log.into()), from, wake)
    }

    fn log(&self, key: LogKey) -> Arc<Log> {
        let mut known = guard(&self.known);
        if let Some(log) = known.get(&key) {
            return log.clone();
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, log| is_in_use(log));
        }
        let log = Arc::new(Log::new(key, self.file_store.clone()));
        known.insert(key, log.clone());
        log
    }

    /// Removes a log that is not in use, if its age is still the same; returns whether it did, and its size.
    pub(crate) fn remove(&self, key: LogKey, is_old: impl Fn(u64) -> bool) -> Result<Option<u64>, BlobError> {
        let mut known = guard(&self.known);
        if known.get(&key).is_some_and(is_in_use) {
            return Ok(None);
        }
        known.remove(&key);
        // It cannot be opened meanwhile: opening requires the lock held here.
        Log::new(key, self.file_store.clone()).remove(is_old)
    }
}

/// Handles are created only under the registry's lock, so a handle without a second owner keeps that property while
/// the lock is held. A log whose sync failed stays in memory until the process ends.
fn is_in_use(log: &Arc<Log>) -> bool {
    Arc::strong_count(log) > 1 || log.is_broken()
}
