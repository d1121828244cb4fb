//! Counters of the writer.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the writer since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub transactions: u64,
    /// Calls in those transactions.
    pub calls: u64,
    /// Changes, inserts and other rows that the calls requested.
    pub rows: u64,
    /// Bytes appended to the write-ahead log; copying them into the file is not counted.
    pub bytes: u64,
    pub checkpoints: u64,
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) transactions: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn read(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            transactions: read(&self.transactions),
            calls: read(&self.calls),
            rows: read(&self.rows),
            bytes: read(&self.bytes),
            checkpoints: read(&self.checkpoints),
        }
    }
}
