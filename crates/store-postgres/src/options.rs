//! Options of the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A moment at which a test may look on, wait or break something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A transaction is decided, nothing of it is sent.
    Begin,
    /// A transaction is committed, no caller was answered.
    Committed,
    /// Before the leadership is renewed.
    Renew,
}

/// What a test lets go wrong there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks, so that the outcome is unknown.
    Break,
    /// The leadership is not renewed this time.
    Skip,
}

/// Called at every [`Point`]; for tests.
pub type Hook = Arc<dyn Fn(Point) -> Option<Fault> + Send + Sync>;

/// How a database is opened. The defaults are meant for production; only the URL is required.
#[derive(Clone)]
pub struct Options {
    /// Where the database is: `postgres://user:password@host:port/name`, a socket directory percent-encoded as the
    /// host. `sslmode` may be `disable`, `prefer` (the default: TLS if there is any), `require` (TLS, any certificate)
    /// or `verify-full` (TLS, and the certificate must be for this host). `sslrootcert` names a file of trusted
    /// certificates, or `system` for those of the system (the default of `verify-full`); with it, `require` checks as
    /// `verify-full` does. Several hosts parted by commas: the one that takes writes is used.
    pub url: String,
    /// Whether a pooler in transaction mode is in between: then statements are not prepared, and nothing is left in
    /// a session.
    pub pooled: bool,
    /// A URL past the pooler, on which the database notifies of a new leader. Without one, a node
    /// behind a pooler sees that when it looks.
    pub direct_url: Option<String>,
    /// How many connections read.
    pub readers: usize,
    /// How many calls may wait for the writer, and how many reads for a connection; one more is refused.
    pub waiting: usize,
    /// How many rows one transaction takes at most, unless a single call has more.
    pub rows_per_transaction: usize,
    /// How long the leadership is held without being renewed.
    pub term: Duration,
    /// How often it is renewed.
    pub renew_every: Duration,
    /// How long a read is retried while the database is unreachable.
    pub patience: Duration,
    /// Looks on, waits or breaks something; for tests.
    pub hook: Option<Hook>,
}

impl Options {
    /// The defaults for this database.
    pub fn new(url: impl Into<String>) -> Options {
        Options {
            url: url.into(),
            pooled: false,
            direct_url: None,
            readers: 4,
            waiting: 4_096,
            rows_per_transaction: 4_000,
            term: Duration::from_secs(6),
            renew_every: Duration::from_secs(1),
            patience: Duration::from_secs(5),
            hook: None,
        }
    }

    /// What a test lets go wrong here. It may block.
    pub(crate) fn fault(&self, point: Point) -> Option<Fault> {
        let hook = self.hook.as_ref()?;
        tokio::task::block_in_place(|| hook(point))
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        f.debug_struct("Options")
            .field("pooled", &self.pooled)
            .field("readers", &self.readers)
            .field("waiting", &self.waiting)
            .field("rows_per_transaction", &self.rows_per_transaction)
            .field("term", &self.term)
            .field("renew_every", &self.renew_every)
            .finish_non_exhaustive()
    }
}
