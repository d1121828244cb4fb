//! Logs of attempts for async callers: file access runs on the blocking pool.

use std::sync::Arc;

use jobhall_blobs::{
    AppendError, Appended, AttemptKey, BlobError, Blobs, ByteRange, Chunk, Entries, Entry, LogInfo, LogKey,
    NOTE_BYTES, NOTES_BYTES, ReadError, Step, Stream, Tail, check_note,
};
use jobhall_core::{AttemptId, Json};
use tokio::sync::Notify;

use crate::error::ApiError;
use crate::server::app::now;

/// Bytes read at once.
const PIECE: usize = 256 * 1024;

pub(crate) struct Logs {
    blobs: Arc<Blobs>,
    limit: u64,
}

pub(crate) struct Follow {
    tail: Option<Tail>,
    news: Arc<Notify>,
}

/// The result of a look at a followed log.
pub(crate) enum Found {
    Chunks(Vec<Entry>),
    /// No new bytes.
    Nothing,
    /// The log is complete.
    End,
}

impl Logs {
    pub(crate) fn new(blobs: Arc<Blobs>, limit: u64) -> Logs {
        Logs { blobs, limit }
    }

    /// Appends bytes at an offset, or at the end. A note must be one line of JSON, and is never truncated.
    pub(crate) async fn append(
        &self,
        attempt: AttemptId,
        offset: Option<u64>,
        stream: Stream,
        bytes: axum::body::Bytes,
    ) -> Result<Appended, ApiError> {
        let limit = match stream {
            Stream::Stdout | Stream::Stderr => self.limit,
            Stream::Note => {
                check_json(&bytes)?;
                NOTES_BYTES
            }
        };
        let appended = self.blocking(move |blobs| {
            let log = LogKey { attempt: key(attempt), channel: stream.channel() };
            let offset = match offset {
                Some(offset) => offset,
                None => blobs.logs().len(log).map_err(AppendError::Blob)?,
            };
            let chunk = Chunk { offset, at_ms: now_ms(), stream, bytes: &bytes };
            blobs.logs().append(key(attempt), &chunk, limit, false)
        });
        Ok(appended.await??)
    }

    /// Makes the logs of an attempt durable and complete. A log without any bytes has no file.
    pub(crate) async fn finish(&self, attempt: AttemptId) -> Result<(), ApiError> {
        Ok(self.blocking(move |blobs| finish(blobs, attempt, true)).await??)
    }

    /// Finishes the logs of several attempts, each with its own end; of each it is known whether it may have notes.
    pub(crate) async fn finish_all(
        &self,
        attempts: Vec<(AttemptId, bool)>,
    ) -> Result<Vec<Result<(), ApiError>>, ApiError> {
        let finished = self.blocking(move |blobs| {
            let finished = attempts.into_iter().map(|(attempt, noted)| finish(blobs, attempt, noted));
            finished.map(|result| result.map_err(ApiError::from)).collect()
        });
        finished.await
    }

    pub(crate) async fn info(&self, log: LogKey) -> Result<LogInfo, ApiError> {
        Ok(self.blocking(move |blobs| blobs.logs().info(log)).await??)
    }

    /// Reads some bytes between two offsets.
    pub(crate) async fn read(&self, log: LogKey, from: u64, to: u64) -> Result<Vec<u8>, ApiError> {
        let range = ByteRange::FromTo(from, to.saturating_sub(1));
        let piece = self.blocking(move |blobs| blobs.logs().read(log, range, PIECE)).await?;
        match piece {
            Ok(piece) => Ok(piece.bytes),
            Err(ReadError::Range(error)) => Err(ApiError::internal(error)),
            Err(ReadError::Blob(error)) => Err(error.into()),
        }
    }

    /// Reads some chunks from an offset.
    pub(crate) async fn entries(&self, log: LogKey, from: u64) -> Result<Entries, ApiError> {
        Ok(self.blocking(move |blobs| blobs.logs().entries(log, from, PIECE)).await??)
    }

    /// Follows a log from an offset.
    pub(crate) async fn follow(&self, log: LogKey, from: u64) -> Result<Follow, ApiError> {
        let news = Arc::new(Notify::new());
        let wake = news.clone();
        // This call may wait for the collector while it handles a log, and then also for the database.
        let tail =
            self.blocking(move |blobs| blobs.logs().tail(log, from, Arc::new(move || wake.notify_one())));
        Ok(Follow { tail: Some(tail.await??), news })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Blobs) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let blobs = self.blobs.clone();
        tokio::task::spawn_blocking(move || work(&blobs)).await.map_err(ApiError::internal)
    }
}

impl Follow {
    /// Reads the bytes that are available now.
    pub(crate) async fn look(&mut self) -> Result<Found, ApiError> {
        let Some(mut tail) = self.tail.take() else { return Ok(Found::End) };
        let (tail, step) = tokio::task::spawn_blocking(move || {
            let step = tail.next(PIECE);
            (tail, step)
        })
        .await
        .map_err(ApiError::internal)?;
        self.tail = Some(tail);
        Ok(match step? {
            Step::News(entries) => Found::Chunks(entries),
            Step::Wait => Found::Nothing,
            Step::End(_) => Found::End,
        })
    }

    /// Waits until more bytes may be available.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }
}

/// Finishes the output of an attempt, and its notes if it may have any.
fn finish(blobs: &Blobs, attempt: AttemptId, noted: bool) -> Result<(), BlobError> {
    finish_log(blobs, key(attempt).into())?;
    let notes = key(attempt).notes();
    if noted && blobs.logs().may_exist(notes)? { finish_log(blobs, notes) } else { Ok(()) }
}

fn finish_log(blobs: &Blobs, log: LogKey) -> Result<(), BlobError> {
    let info = blobs.logs().info(log)?;
    if info.len > 0 && !info.finished {
        blobs.logs().finish(log, now_ms())?;
    }
    Ok(())
}

/// Checks that bytes are one line of JSON.
fn check_json(note: &[u8]) -> Result<(), ApiError> {
    check_note(note)?;
    let checked = Json::parse_bytes("the note", note, NOTE_BYTES);
    checked.map(drop).map_err(|error| ApiError::bad(error.to_string()))
}

/// The attempt as a key for blobs.
pub(crate) fn key(attempt: AttemptId) -> AttemptKey {
    AttemptKey { job: attempt.job.get(), claim: attempt.claim }
}

/// The current time in milliseconds, as used for blobs.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(now().as_ms()).unwrap_or(0)
}
