//! The one thread that writes. It puts all waiting calls into one transaction, commits, and answers them together.
//! It does not delay a transaction to collect more: while one transaction syncs, the calls for the next one queue
//! up.
//!
//! ```text
//!   calls ──▶ BEGIN · apply · apply · … ──▶ COMMIT ──▶ replies ──▶ checkpoint, if due
//!                        │                     │
//!                        │ error               │ disk full: rolled back, nothing was written, continues
//!                        ▼                     │ other errors: outcome unknown; replies so, and stops
//!             rolled back, nothing was written,
//!             continues (stops if the file is damaged)
//! ```
//!
//! After a failed sync the kernel may have dropped the dirty pages, and a retry could acknowledge data that is not
//! on disk. The writer therefore stops, and a restart reads what is on disk.

pub(crate) mod call;
pub(crate) mod stats;
pub(crate) mod upkeep;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, OnceLock};

use jobhall_store::CommitError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ffi};

use crate::apply::run;
use crate::error::SqlError;
use crate::options::{Fault, Hook, Options, Point};
use crate::statements::Writes;

use call::{Answer, Call};
use stats::{Counters, add};

/// Number of pages after which the write-ahead log is copied into the file. Measured with batches of 1,000 jobs: the
/// 99th percentile of a commit is 6–12 ms with 1,000 pages, 4–24 ms with 4,000, 21–41 ms with 10,000.
const CHECKPOINT_PAGES: i32 = 1_000;
/// Bytes of a page with its header in the write-ahead log.
const FRAME_BYTES: usize = 4_096 + 24;

/// State shared by the writer and the store.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) counters: Counters,
    /// Why the writer stopped.
    pub(crate) stopped: OnceLock<String>,
}

/// The input of the thread.
pub(crate) struct Task {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
    pub(crate) calls: Receiver<Call>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
}

struct Writer<'c> {
    writes: Writes<'c>,
    path: PathBuf,
    shared: Arc<Shared>,
    rows_per_transaction: usize,
    hook: Option<Hook>,
    feed_last: u64,
    wal_pages: Arc<AtomicI32>,
    wal_pages_before: i32,
}

/// The main function of the thread. `ready` receives whether it could start.
pub(crate) fn serve(task: Task, ready: &SyncSender<Result<(), SqlError>>) {
    let Task { mut conn, path, calls, shared, options } = task;
    let wal_pages = Arc::new(AtomicI32::new(0));
    let told = wal_pages.clone();
    let hooked = conn.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
        told.store(pages, Ordering::Relaxed);
        Ok(())
    }));
    let begun = hooked.and_then(|()| Writes::prepare(&conn)).map_err(SqlError::from);
    let begun = begun.and_then(|mut writes| Ok((writes.last_feed_number()?, writes)));
    let (feed_last, writes) = match begun {
        Ok(begun) => begun,
        Err(trouble) => {
            let _ = ready.send(Err(trouble));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let mut writer = Writer {
        writes,
        path,
        shared,
        rows_per_transaction: options.rows_per_transaction,
        hook: options.hook,
        feed_last,
        wal_pages,
        wal_pages_before: 0,
    };
    writer.serve(&calls);
}

impl Writer<'_> {
    /// Runs until the store is dropped and no calls wait, or it must stop.
    fn serve(&mut self, calls: &Receiver<Call>) {
        while let Ok(first) = calls.recv() {
            if self.transact(first, calls).is_break() || self.checkpoint_if_due().is_break() {
                return;
            }
        }
    }

    fn transact(&mut self, first: Call, calls: &Receiver<Call>) -> ControlFlow<()> {
        let feed_before = self.feed_last;
        let mut answers = Vec::new();
        let mut rows = 0;
        let filled = self.fill(first, calls, &mut answers, &mut rows);
        let error = match filled {
            Ok(()) => self.commit(),
            Err(trouble) => Some(self.give_up(&trouble)),
        };
        match &error {
            None => self.count(answers.len(), rows),
            Some(_) => self.feed_last = feed_before,
        }
        let stops = self.stops(error.as_ref());
        for answer in answers {
            answer(error.clone());
        }
        stops
    }

    /// Begins a transaction and applies all waiting calls, up to the row limit.
    fn fill(
        &mut self,
        first: Call,
        calls: &Receiver<Call>,
        answers: &mut Vec<Answer>,
        rows: &mut usize,
    ) -> Result<(), SqlError> {
        if let Err(trouble) = self.fault(Point::Begin).and_then(|()| run(&mut self.writes.begin)) {
            answers.push(first.give_up());
            return Err(trouble);
        }
        let mut next = Some(first);
        while let Some(call) = next {
            *rows += call.rows();
            let (answer, done) = call.apply(&mut self.writes, &mut self.feed_last);
            answers.push(answer);
            done?;
            next = if *rows < self.rows_per_transaction { calls.try_recv().ok() } else { None };
        }
        Ok(())
    }

    /// Commits; returns the error for the callers if that failed.
    fn commit(&mut self) -> Option<CommitError> {
        let done = self.fault(Point::Commit).and_then(|()| run(&mut self.writes.commit));
        let done = done.and_then(|_| self.fault(Point::Committed));
        let trouble = done.err()?;
        // SQLite reports a full disk only while it writes the pages, before the sync: the last page, which makes the
        // transaction valid, is missing, and SQLite has rolled back. Busy means that the commit did not start.
        let open = !self.writes.conn.is_autocommit();
        if trouble.is_full() || (trouble.is_busy() && open) {
            return Some(self.give_up(&trouble));
        }
        Some(self.unknown(&trouble))
    }

    /// Rolls back; returns the error for the callers.
    fn give_up(&mut self, trouble: &SqlError) -> CommitError {
        // Some errors, such as a full disk, have already rolled back.
        if !self.writes.conn.is_autocommit()
            && let Err(second) = run(&mut self.writes.rollback)
        {
            return self.unknown(&second);
        }
        let message = format!("{}: {trouble}", self.path.display());
        if trouble.is_damage() {
            return CommitError::Stopped { message };
        }
        CommitError::NotCommitted { full: trouble.is_full(), message }
    }

    fn unknown(&self, trouble: &SqlError) -> CommitError {
        CommitError::Unknown { message: format!("{}: {trouble}", self.path.display()) }
    }

    /// Whether the writer must stop. The reason is recorded before any caller is answered.
    fn stops(&self, error: Option<&CommitError>) -> ControlFlow<()> {
        match error {
            Some(CommitError::Unknown { message } | CommitError::Stopped { message }) => self.stop(message),
            Some(CommitError::NotCommitted { .. }) | None => ControlFlow::Continue(()),
        }
    }

    fn stop(&self, why: &str) -> ControlFlow<()> {
        let _ = self.shared.stopped.set(why.to_owned());
        // Closing must not sync again after a failed sync.
        let _ = self.writes.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        ControlFlow::Break(())
    }

    /// Copies the write-ahead log into the file, after the callers were answered. A full disk or an active reader
    /// only delays it; a failed sync stops the writer, because the content of the file is unknown.
    fn checkpoint_if_due(&mut self) -> ControlFlow<()> {
        if self.wal_pages.load(Ordering::Relaxed) < CHECKPOINT_PAGES {
            return ControlFlow::Continue(());
        }
        let done = self.fault(Point::Checkpoint).and_then(|()| self.checkpoint());
        match done {
            Ok(()) => add(&self.shared.counters.checkpoints, 1),
            Err(trouble) if trouble.is_full() || trouble.is_busy() => {}
            Err(trouble) => {
                return self.stop(&format!("{}: failed to checkpoint: {trouble}", self.path.display()));
            }
        }
        ControlFlow::Continue(())
    }

    fn checkpoint(&mut self) -> Result<(), SqlError> {
        let mut rows = self.writes.checkpoint.raw_query();
        while rows.next()?.is_some() {}
        Ok(())
    }

    fn count(&mut self, calls: usize, rows: usize) {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        let before = std::mem::replace(&mut self.wal_pages_before, pages);
        // Fewer than before: the log was restarted.
        let written = if pages >= before { pages - before } else { pages };
        let counters = &self.shared.counters;
        add(&counters.transactions, 1);
        add(&counters.calls, calls);
        add(&counters.rows, rows);
        add(&counters.bytes, usize::try_from(written).unwrap_or(0) * FRAME_BYTES);
    }

    /// The injected fault at this point.
    fn fault(&self, point: Point) -> Result<(), SqlError> {
        let Some(fault) = self.hook.as_ref().and_then(|hook| hook(point)) else { return Ok(()) };
        let code = match fault {
            Fault::Full => ffi::SQLITE_FULL,
            Fault::Io => ffi::SQLITE_IOERR_FSYNC,
            Fault::Corrupt => ffi::SQLITE_CORRUPT,
            Fault::Other => ffi::SQLITE_NOMEM,
        };
        Err(SqlError::Sql(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)))
    }
}
