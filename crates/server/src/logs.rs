//! Logs of attempts for async callers: file access runs on the blocking pool.

use std::sync::Arc;

use jobhall_blobs::{
    AppendError, Appended, AttemptKey, BlobError, Blobs, ByteRange, Chunk, Entries, Entry, LogInfo,
    ReadError, Step, Stream, Tail,
};
use jobhall_core::AttemptId;
use tokio::sync::Notify;

use crate::app::now;
use crate::error::ApiError;

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

    /// Appends bytes at an offset, or at the end.
    pub(crate) async fn append(
        &self,
        attempt: AttemptId,
        offset: Option<u64>,
        stream: Stream,
        bytes: axum::body::Bytes,
    ) -> Result<Appended, ApiError> {
        let limit = self.limit;
        let appended = self.blocking(move |blobs| {
            let offset = match offset {
                Some(offset) => offset,
                None => blobs.logs().len(key(attempt)).map_err(AppendError::Blob)?,
            };
            let chunk = Chunk { offset, at_ms: now_ms(), stream, bytes: &bytes };
            blobs.logs().append(key(attempt), &chunk, limit, false)
        });
        Ok(appended.await??)
    }

    /// Makes a log durable and complete. A log without any bytes has no file.
    pub(crate) async fn finish(&self, attempt: AttemptId) -> Result<(), ApiError> {
        Ok(self.blocking(move |blobs| finish(blobs, attempt)).await??)
    }

    /// Finishes several logs, each with its own end.
    pub(crate) async fn finish_all(
        &self,
        attempts: Vec<AttemptId>,
    ) -> Result<Vec<Result<(), ApiError>>, ApiError> {
        let finished = self.blocking(move |blobs| {
            let finished = attempts.into_iter().map(|attempt| finish(blobs, attempt));
            finished.map(|result| result.map_err(ApiError::from)).collect()
        });
        finished.await
    }

    pub(crate) async fn info(&self, attempt: AttemptId) -> Result<LogInfo, ApiError> {
        Ok(self.blocking(move |blobs| blobs.logs().info(key(attempt))).await??)
    }

    /// Reads some bytes between two offsets.
    pub(crate) async fn read(&self, attempt: AttemptId, from: u64, to: u64) -> Result<Vec<u8>, ApiError> {
        let range = ByteRange::FromTo(from, to.saturating_sub(1));
        let piece = self.blocking(move |blobs| blobs.logs().read(key(attempt), range, PIECE)).await?;
        match piece {
            Ok(piece) => Ok(piece.bytes),
            Err(ReadError::Range(error)) => Err(ApiError::internal(error)),
            Err(ReadError::Blob(error)) => Err(error.into()),
        }
    }

    /// Reads some chunks from an offset.
    pub(crate) async fn entries(&self, attempt: AttemptId, from: u64) -> Result<Entries, ApiError> {
        Ok(self.blocking(move |blobs| blobs.logs().entries(key(attempt), from, PIECE)).await??)
    }

    /// Follows a log from an offset.
    pub(crate) async fn follow(&self, attempt: AttemptId, from: u64) -> Result<Follow, ApiError> {
        let news = Arc::new(Notify::new());
        let wake = news.clone();
        // This call may wait for the collector while it handles a log, and then also for the database.
        let tail = self.blocking(move |blobs| {
            blobs.logs().tail(key(attempt), from, Arc::new(move || wake.notify_one()))
        });
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

fn finish(blobs: &Blobs, attempt: AttemptId) -> Result<(), BlobError> {
    let info = blobs.logs().info(key(attempt))?;
    if info.len > 0 && !info.finished {
        blobs.logs().finish(key(attempt), now_ms())?;
    }
    Ok(())
}

/// The attempt as a key for blobs.
pub(crate) fn key(attempt: AttemptId) -> AttemptKey {
    AttemptKey { job: attempt.job.get(), claim: attempt.claim }
}

/// The current time in milliseconds, as used for blobs.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(now().as_ms()).unwrap_or(0)
}
