//! Options of the store, used mostly by tests.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::file_system;

/// A moment of the writer at which a test may look on, wait or break something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before a transaction begins.
    Begin,
    /// All is written, before COMMIT.
    Commit,
    /// COMMIT has returned.
    Committed,
    /// Before the write-ahead log is copied into the file.
    Checkpoint,
}

/// What a test lets go wrong there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// As if the disk were full.
    Full,
    /// As if a sync had failed.
    Io,
    /// As if the file were damaged.
    Corrupt,
    /// As if something else had failed.
    Other,
}

/// Called at every [`Point`]; for tests.
pub type Hook = Arc<dyn Fn(Point) -> Option<Fault> + Send + Sync>;

/// How a store is opened. The defaults are meant for production.
#[derive(Clone)]
pub struct Options {
    /// How many calls may wait for the writer, and how many reads for a reader; one more is refused.
    pub waiting: usize,
    /// How many rows one transaction takes at most, unless a single call has more.
    pub rows_per_transaction: usize,
    /// How many reads run at a time.
    pub readers: usize,
    /// Tells the magic number of the file system that a path lies on.
    pub file_system: fn(&Path) -> io::Result<u32>,
    /// Looks on, waits or breaks something; for tests.
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
