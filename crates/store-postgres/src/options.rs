//! Options of the store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A point at which a test may observe, wait or inject a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A transaction is decided and not sent.
    Begin,
    /// A transaction is committed and no caller was answered.
    Committed,
    /// Before the leadership is renewed.
    Renew,
}

/// The injected fault.
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
    /// The URL of the database: `postgres://user:password@host:port/name`; a socket directory is given
    /// percent-encoded as the host. `sslmode` may be `disable`, `prefer` (the default: TLS if available), `require`
    /// (TLS, any certificate) or `verify-full` (TLS, and the certificate must be valid for this host). `sslrootcert`
    /// names a file of trusted certificates, or `system` for those of the system (the default of `verify-full`); with
    /// it, `require` checks like `verify-full`. With several hosts, separated by commas, the one that accepts writes
    /// is used.
    pub url: String,
    /// Whether a pooler in transaction mode is in between: then statements are not prepared, and no session state is
    /// used.
    pub pooled: bool,
    /// A URL without the pooler, on which the database sends notifications of a new leader. Without it, a node behind
    /// a pooler detects a new leader by polling.
    pub direct_url: Option<String>,
    pub readers: usize,
    /// Maximum number of calls that wait for the writer, and of reads that wait for a connection; further ones are
    /// refused.
    pub waiting: usize,
    /// Maximum number of rows in one transaction, unless a single call has more.
    pub rows_per_transaction: usize,
    /// Term of the leadership without a renewal.
    pub term: Duration,
    /// Interval between two renewals.
    pub renew_every: Duration,
    /// How long a read is retried while the database is unreachable.
    pub patience: Duration,
    /// Observes, waits or injects a fault; for tests.
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

    /// The injected fault at this point. The hook may block.
    pub(crate) fn fault(&self, point: Point) -> Option<Fault> {
        let hook = self.hook.as_ref()?;
        tokio::task::block_in_place(|| hook(point))
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
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
