//! Copies logs and artifacts. They are copied before the jobs; what an interrupted move left is removed by the next one.

use std::fmt::Display;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use jobhall_blobs::{ARTIFACT_BYTES, AttemptKey, Blobs, Chunk, LogKey, PIECE_BYTES, Verdicts};
use jobhall_store_postgres::Database;
use tokio::runtime::Handle;

/// Number of connections for writing.
const CONNECTIONS: usize = 2;
/// Number of artifacts read at once.
const PAGE: usize = 100;

/// Source and target of the blobs. All methods block.
pub struct Shelves {
    from: Blobs,
    to: Blobs,
}

/// The number of copied files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copied {
    pub logs: u64,
    pub artifacts: u64,
}

fn said(error: impl Display) -> String {
    error.to_string()
}

impl Shelves {
    /// Opens both sides. The target must be unused: its content is removed.
    pub fn open(directory: &Path, database: &Database, runtime: Handle) -> Result<Shelves, String> {
        let from = Blobs::open(directory).map_err(said)?;
        let pool = database.connections(CONNECTIONS).map_err(said)?;
        let to = Blobs::in_database(jobhall_blobs::Database { pool, runtime, epoch: None }).map_err(said)?;
        let shelves = Shelves { from, to };
        shelves.clear()?;
        Ok(shelves)
    }

    /// Removes the content of the target.
    pub fn clear(&self) -> Result<(), String> {
        let verdicts = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| true };
        self.to.collect(verdicts, now_ms(), 0).map(drop).map_err(said)
    }

    /// Copies the logs and artifacts of a job's attempts, up to this number of attempts.
    pub fn copy(&self, job: u64, claims: u32) -> Result<Copied, String> {
        let mut copied = Copied::default();
        for claim in 1..=claims {
            let attempt = AttemptKey { job, claim };
            let (output, notes) = (self.log(attempt.into())?, self.log(attempt.notes())?);
            copied.logs += u64::from(output || notes);
            copied.artifacts += self.artifacts(attempt)?;
        }
        Ok(copied)
    }

    /// Copies a log: the output or the notes of an attempt; returns whether it exists.
    fn log(&self, log: LogKey) -> Result<bool, String> {
        let attempt = log.attempt;
        let info = self.from.logs().info(log).map_err(said)?;
        let (mut from, mut at_ms) = (0, 0);
        while from < info.len {
            let read = self.from.logs().entries(log, from, PIECE_BYTES).map_err(said)?;
            for entry in &read.items {
                at_ms = entry.at_ms;
                let chunk = Chunk { offset: entry.offset, bytes: &entry.bytes, stream: entry.stream, at_ms };
                self.to.logs().append(attempt, &chunk, u64::MAX, false).map_err(said)?;
            }
            if read.next <= from {
                return Err(format!("log {log} ends early"));
            }
            from = read.next;
        }
        if info.truncated {
            // One byte beyond the limit truncates a log and marks it as truncated.
            let chunk =
                Chunk { offset: info.len, bytes: b"\n", stream: jobhall_blobs::Stream::Stdout, at_ms };
            self.to.logs().append(attempt, &chunk, info.len, false).map_err(said)?;
        }
        if info.finished {
            self.to.logs().finish(log, at_ms).map_err(said)?;
        }
        let moved = self.to.logs().info(log).map_err(said)?;
        if moved != info {
            return Err(format!("log {log} was not copied correctly"));
        }
        Ok(info.len > 0 || info.finished)
    }

    fn artifacts(&self, attempt: AttemptKey) -> Result<u64, String> {
        if !self.from.artifacts().has_any(attempt).map_err(said)? {
            return Ok(0);
        }
        let (mut behind, mut count) = (None, 0);
        loop {
            let page = self.from.artifacts().list(attempt, behind.as_ref(), PAGE).map_err(said)?;
            let Some(last) = page.last() else { return Ok(count) };
            behind = Some(last.name.clone());
            for artifact in &page {
                let mut content = self.from.objects().open(&artifact.digest).map_err(said)?;
                // The name is the hash of the content, so the stored content is identical.
                let stored = self.to.objects().put(&mut content, ARTIFACT_BYTES, now_ms()).map_err(said)?;
                if stored.digest != artifact.digest {
                    return Err(format!("artifact {} was not copied correctly", artifact.name));
                }
                self.to.keep(attempt, artifact).map_err(said)?;
                count += 1;
            }
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
