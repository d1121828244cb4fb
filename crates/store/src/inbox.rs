//! Jobs that other programs submit in their own transactions. They store requests; the engine turns them into jobs
//! like any other request.

use crate::{Later, StoreError};

/// The scope of the idempotency keys of inbox rows; the key is the row's number. The store deletes the row in the
/// transaction that stores the key, so that the row becomes a job exactly once. No token has this name.
pub const INBOX_SCOPE: &str = "sql:inbox";

/// A request for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// The row's number, as returned to the program.
    pub id: u64,
    /// The job as JSON, as in the API.
    pub body: String,
}

/// Requests that are not jobs yet.
pub trait Inbox: Send + Sync + 'static {
    /// The first rows by number, at most `limit`. Numbers are not assigned in commit order, so a lower one may appear
    /// later.
    fn rows(&self, limit: usize) -> Later<Result<Vec<InboxRow>, StoreError>>;

    /// Sets a row aside that cannot become a job, with the reason.
    fn refuse(&self, id: u64, why: String) -> Later<Result<(), StoreError>>;

    /// Waits until there may be new rows.
    fn news(&self) -> Later<()>;
}
