//! Options of the store, used mostly by tests.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::data_dir::file_system;

/// A point of the writer at which a test may observe, wait or inject a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before a transaction begins.
    Begin,
    /// All rows are written, before COMMIT.
    Commit,
    /// COMMIT has returned.
    Committed,
    /// Before the write-ahead log is copied into the file.
    Checkpoint,
}

/// The injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Full,
    /// A sync failed.
    Io,
    /// The file is damaged.
    Corrupt,
    Other,
}

/// Called at every [`Point`]; for tests.
pub type Hook = Arc<dyn Fn(Point) -> Option<Fault> + Send + Sync>;

/// How a store is opened. The defaults are meant for production.
#[derive(Clone)]
pub struct Options {
    /// Maximum number of calls that wait for the writer, and of reads that wait for a reader; further ones are
    /// refused.
    pub waiting: usize,
    /// Maximum number of rows in one transaction, unless a single call has more.
    pub rows_per_transaction: usize,
    /// Maximum number of concurrent reads.
    pub readers: usize,
    /// Returns the magic number of the file system that contains a path.
    pub file_system: fn(&Path) -> io::Result<u32>,
    /// Observes, waits or injects a fault; for tests.
    pub hook: Option<Hook>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            waiting: 4_096,
            rows_per_transaction: 4_000,
            readers: 4,
            file_system: file_system::magic,
            hook: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("waiting", &self.waiting)
            .field("rows_per_transaction", &self.rows_per_transaction)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}
