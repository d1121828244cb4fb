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

mod append;
mod index;
mod info;
mod lines;
mod log;
mod range;
mod record;
mod tail;
mod view;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use thiserror::Error;

use crate::file_store::FileStore;
use crate::{AttemptKey, BlobError, guard};

pub use append::{AppendError, Appended, CHUNK_BYTES, Chunk};
pub use info::LogInfo;
pub use lines::{LINE_BYTES, Line, Lines};
pub use range::{ByteRange, RangeError};
pub use record::Stream;
pub use tail::{Step, Tail, WATCHERS, Wake};
pub use view::{Entries, Entry};

use log::Log;

/// The most records of one log; a log in more chunks than that is cut like one of too many bytes.
pub const RECORDS: u64 = 1 << 20;
/// The most bytes that one read gives.
pub const PIECE_BYTES: usize = 4 << 20;
/// How many logs are remembered, besides those in use.
const REMEMBERED: usize = 4_096;

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub from: u64,
    /// Its bytes. Fewer than asked for when there were too many for one read: go on behind them.
    pub bytes: Vec<u8>,
    /// The log at that moment.
    pub info: LogInfo,
}

/// Why a part of a log was not read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The log has no such range.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// It is damaged there, or the file system failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Logs of attempts. One that was never written to reads as empty.
#[derive(Debug)]
pub struct Logs {
    file_store: Arc<dyn FileStore>,
    known: Mutex<HashMap<AttemptKey, Arc<Log>>>,
}

impl Logs {
    pub(crate) fn new(file_store: Arc<dyn FileStore>) -> Logs {
        Logs { file_store, known: Mutex::default() }
    }

    /// Adds a chunk. With `sync` it is durable when this returns, together with all before it; otherwise when a later
    /// one is, or at [`finish`](Logs::finish). Past `limit` bytes the log is cut and marked, and what comes after is
    /// dropped without an error: look at [`Appended::truncated`].
    ///
    /// # Errors
    /// [`AppendError::Gap`] and [`AppendError::Conflict`] when the chunk does not fit what is there.
    pub fn append(
        &self,
        attempt: AttemptKey,
        chunk: &Chunk<'_>,
        limit: u64,
        sync: bool,
    ) -> Result<Appended, AppendError> {
        self.log(attempt).append(chunk, limit, sync)
    }

    /// Marks the log complete and makes it durable. Doing it again changes nothing.
    ///
    /// # Errors
    /// The file system failed; it can be tried again unless the log is [`BlobError::Broken`].
    pub fn finish(&self, attempt: AttemptKey, at_ms: u64) -> Result<LogInfo, BlobError> {
        self.log(attempt).finish(at_ms)
    }

    /// What is known of the log.
    ///
    /// # Errors
    /// The file system failed, or a complete log has lost its end.
    pub fn info(&self, attempt: AttemptKey) -> Result<LogInfo, BlobError> {
        self.log(attempt).info()
    }

    /// How many bytes it has.
    ///
    /// # Errors
    /// As [`info`](Logs::info).
    pub fn len(&self, attempt: AttemptKey) -> Result<u64, BlobError> {
        Ok(self.info(attempt)?.len)
    }

    /// Whether it is complete.
    ///
    /// # Errors
    /// As [`info`](Logs::info).
    pub fn is_finished(&self, attempt: AttemptKey) -> Result<bool, BlobError> {
        Ok(self.info(attempt)?.finished)
    }

    /// The bytes of a range, at most `most` and [`PIECE_BYTES`] of them, checked.
    ///
    /// # Errors
    /// [`RangeError::Unsatisfiable`] when the log has no such bytes, [`BlobError::Damaged`] when the first of them
    /// are not what was written. Sound bytes before a damaged place are given first.
    pub fn read(&self, attempt: AttemptKey, range: ByteRange, most: usize) -> Result<Piece, ReadError> {
        let log = self.log(attempt);
        let info = log.info()?;
        let range = range.resolve(info.len)?;
        let parts: Vec<Vec<u8>> =
            log.view(range.clone(), most)?.into_iter().map(|entry| entry.bytes).collect();
        Ok(Piece { from: range.start, bytes: parts.concat(), info })
    }

    /// The chunks from an offset on, with their times and streams, at most `most` and [`PIECE_BYTES`] bytes.
    ///
    /// # Errors
    /// As [`read`](Logs::read), except that an offset at or past the end gives nothing.
    pub fn entries(&self, attempt: AttemptKey, from: u64, most: usize) -> Result<Entries, BlobError> {
        self.log(attempt).entries(from, most)
    }

    /// Follows the log from an offset: first what is there, then what comes, each byte once. See [`Tail`] for how to
    /// wait.
    ///
    /// # Errors
    /// [`BlobError::TooManyWatchers`].
    pub fn tail(&self, attempt: AttemptKey, from: u64, wake: Wake) -> Result<Tail, BlobError> {
        Tail::new(self.log(attempt), from, wake)
    }

    fn log(&self, attempt: AttemptKey) -> Arc<Log> {
        let mut known = guard(&self.known);
        if let Some(log) = known.get(&attempt) {
            return log.clone();
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, log| is_in_use(log));
        }
        let log = Arc::new(Log::new(attempt, self.file_store.clone()));
        known.insert(attempt, log.clone());
        log
    }

    /// Removes a log that is not in use, if its age is still the same; returns whether it did, and its size.
    pub(crate) fn remove(
        &self,
        attempt: AttemptKey,
        is_old: impl Fn(u64) -> bool,
    ) -> Result<Option<u64>, BlobError> {
        let mut known = guard(&self.known);
        if known.get(&attempt).is_some_and(is_in_use) {
            return Ok(None);
        }
        known.remove(&attempt);
        // It cannot be opened meanwhile: opening takes the lock held here.
        Log::new(attempt, self.file_store.clone()).remove(is_old)
    }
}

/// Handles are given out under the registry's lock only, so one without a second holder stays so while that is held.
/// A log whose sync failed is remembered until the process ends.
fn is_in_use(log: &Arc<Log>) -> bool {
    Arc::strong_count(log) > 1 || log.is_broken()
}
