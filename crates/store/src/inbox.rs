//! Jobs that other programs submit in their own transactions. They store requests; the engine turns them into jobs
//! like any other request.

use crate::{Later, StoreError};

/// The scope of the idempotency key under which a row of the inbox becomes a job: the key is the row's number. The store
/// takes the row away in the transaction that stores the key, so that the job comes of it once. No token has this name.
pub const INBOX_SCOPE: &str = "sql:inbox";

/// A request for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// The row's number, as returned to the program.
    pub id: u64,
    /// The job, as the API takes it.
    pub body: String,
}

/// The requests that are not jobs yet.
pub trait Inbox: Send + Sync + 'static {
    /// The first of them by number, at most `limit`. Numbers are not given in the order in which transactions end, so a
    /// lower one may come later.
    fn rows(&self, limit: usize) -> Later<Result<Vec<InboxRow>, StoreError>>;

    /// Puts one aside that cannot be a job, with the reason.
    fn refuse(&self, id: u64, why: String) -> Later<Result<(), StoreError>>;

    /// Waits until there may be new ones.
    fn news(&self) -> Later<()>;
}
