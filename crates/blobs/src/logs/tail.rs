//! Follows a log while it grows.
//!
//! A tail holds an offset and returns what comes after it, so it neither skips nor repeats bytes. Waiting is left
//! to the caller, because an async server must not block a thread for it: [`Wake`] is called after every change.
//!
//! ```text
//!   loop {
//!       match tail.next(64 << 10)? {          // in the blocking pool
//!           Step::News(entries) => send(entries),
//!           Step::Wait => notified.await,     // e.g. tokio's Notify, of which Wake calls notify_one
//!           Step::End(info) => break,
//!       }
//!   }
//! ```
//!
//! The callback is registered before the first read, and a change is visible before the callback is called. No
//! wake-up is lost as long as the signal is remembered until the caller waits for it, as with a permit, a flag or a
//! counter.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::info::LogInfo;
use super::log::Log;
use super::view::Entry;
use crate::{BlobError, guard};

/// Maximum number of tails on one log.
pub const WATCHERS: usize = 1_024;

/// Called after each change of a log, by the thread that made it, while it holds the log for writing. It must only
/// set a signal, and not call back into the logs.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The result of a read of a tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    News(Vec<Entry>),
    /// No new bytes; read again after a wake-up.
    Wait,
    /// The log is complete and all of it was returned.
    End(LogInfo),
}

/// Follows one log. Dropping it ends the wake-ups.
pub struct Tail {
    log: Arc<Log>,
    at: u64,
    watcher: u64,
}

#[derive(Default)]
pub(super) struct Watchers {
    next: u64,
    wakes: BTreeMap<u64, Wake>,
}

impl Tail {
    pub(super) fn new(log: Arc<Log>, from: u64, wake: Wake) -> Result<Tail, BlobError> {
        let watcher = log.watch(wake)?;
        Ok(Tail { log, at: from, watcher })
    }

    /// The next chunks, up to this many bytes.
    ///
    /// # Errors
    /// The log is damaged there, or the file system failed; the tail keeps its offset.
    pub fn next(&mut self, most: usize) -> Result<Step, BlobError> {
        let entries = self.log.entries(self.at, most)?;
        self.at = entries.next;
        Ok(match entries.items {
            items if !items.is_empty() => Step::News(items),
            _ if entries.info.finished => Step::End(entries.info),
            _ => Step::Wait,
        })
    }

    /// The current number of bytes of the log.
    ///
    /// # Errors
    /// The file system failed.
    pub fn poll_len(&self) -> Result<u64, BlobError> {
        Ok(self.log.info()?.len)
    }

    /// The offset of the next byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.at
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        guard(&self.log.watchers).wakes.remove(&self.watcher);
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").field("log", &self.log).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Log {
    fn watch(&self, wake: Wake) -> Result<u64, BlobError> {
        let mut watchers = guard(&self.watchers);
        if watchers.wakes.len() >= WATCHERS {
            return Err(BlobError::TooManyWatchers { what: self.what(), limit: WATCHERS });
        }
        let watcher = watchers.next;
        watchers.next += 1;
        watchers.wakes.insert(watcher, wake);
        Ok(watcher)
    }

    /// Calls every watcher without holding the list: a wake-up may drop a tail.
    pub(super) fn wake(&self) {
        let wakes: Vec<Wake> = guard(&self.watchers).wakes.values().cloned().collect();
        wakes.iter().for_each(|wake| wake());
    }
}
