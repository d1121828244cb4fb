//! Leadership: which node holds it, for how long, and what ends it.
//!
//! The row in the database says until when the leadership is held, by the database's clock. The node assumes a
//! shorter term, which begins just before the request was sent, by the node's monotonic clock. The node therefore
//! stops acting as leader before another node can take the leadership, without synchronized clocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use tokio::sync::watch;

use crate::connect::Connector;
use crate::connect::wire::Step;
use crate::error::PgError;
use crate::options::{Fault, Options, Point};

/// Number of renewals between two removals of expired nodes.
const FORGET_EVERY: u32 = 10;
/// Time without a heartbeat after which a node is removed.
pub(crate) const FORGET_MS: i64 = 30_000;
/// Pause after a failed renewal.
const AGAIN: Duration = Duration::from_millis(200);

/// A node of the hall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique for every start of a process.
    pub name: String,
    /// The address for other nodes.
    pub url: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderSeen {
    pub node: Node,
    pub epoch: u64,
    /// How long it leads without a renewal.
    pub left_ms: u64,
}

/// How long this node may act as leader, and the reason when it may not.
#[derive(Debug)]
pub(crate) struct Term {
    begun: Instant,
    /// Milliseconds from `begun`.
    until_ms: AtomicU64,
    lost: watch::Sender<Option<String>>,
    /// The error that ended the term; none if the leadership was lost or released.
    failed: OnceLock<String>,
}

impl Term {
    /// A term confirmed for a request sent at that time.
    pub(crate) fn new(sent: Instant, term: Duration) -> Term {
        Term {
            begun: sent,
            until_ms: AtomicU64::new(ms(term)),
            lost: watch::Sender::new(None),
            failed: OnceLock::new(),
        }
    }

    fn confirm(&self, sent: Instant, term: Duration) {
        self.until_ms.fetch_max(ms(sent - self.begun + term), Ordering::SeqCst);
    }

    fn left(&self) -> Duration {
        let until = Duration::from_millis(self.until_ms.load(Ordering::SeqCst));
        until.saturating_sub(self.begun.elapsed())
    }

    /// Whether this node may act as leader.
    pub(crate) fn may_lead(&self) -> bool {
        self.lost.borrow().is_none() && !self.left().is_zero()
    }

    /// Ends the term; the first reason is kept.
    pub(crate) fn lose(&self, why: &str) {
        self.lost.send_if_modified(|lost| {
            let first = lost.is_none();
            lost.get_or_insert_with(|| why.to_owned());
            first
        });
    }

    /// Ends the term because of an error after which this process cannot continue.
    pub(crate) fn fail(&self, why: &str) {
        if self.lost.borrow().is_none() {
            let _ = self.failed.set(why.to_owned());
        }
        self.lose(why);
    }

    /// The error that ended the term.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// Why the term ended, once it has.
    pub(crate) fn why(&self) -> String {
        if self.left().is_zero() {
            self.lose("the leadership was not renewed in time");
        }
        self.lost.borrow().clone().unwrap_or_else(|| "the writer ended unexpectedly".to_owned())
    }

    /// Waits for the end of the term, and returns the reason.
    pub(crate) async fn lost(&self) -> String {
        let mut told = self.lost.subscribe();
        while self.may_lead() {
            let left = self.left();
            tokio::select! {
                // The sender lives as long as this borrow.
                _ = told.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
        self.why()
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The term as a parameter of a statement.
pub(crate) fn term_ms(options: &Options) -> i64 {
    i64::try_from(options.term.as_millis()).unwrap_or(i64::MAX)
}

/// Renews the leadership on a separate connection until it is lost or released.
pub(crate) async fn renew(connector: Connector, options: Options, epoch: u64, term: Arc<Term>) {
    let mut client = None;
    let mut pause = options.renew_every;
    for turn in 1u32.. {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = term.lost() => return,
        }
        if options.fault(Point::Renew) == Some(Fault::Skip) {
            continue;
        }
        let sent = Instant::now();
        // The time limit of a renewal leaves time for another one.
        let renewing =
            tokio::time::timeout(options.term / 3, once(&connector, &mut client, &options, epoch, turn));
        let renewed = tokio::select! {
            renewed = renewing => renewed.unwrap_or(Err(PgError::Late)),
            _ = term.lost() => return,
        };
        pause = match renewed {
            Ok(true) => {
                term.confirm(sent, options.term);
                options.renew_every
            }
            Ok(false) => {
                term.lose("another node leads now");
                return;
            }
            Err(trouble) => {
                tracing::warn!("failed to renew the leadership: {trouble}");
                client = None;
                AGAIN
            }
        };
    }
}

async fn once(
    connector: &Connector,
    client: &mut Option<ClientWrapper>,
    options: &Options,
    epoch: u64,
    turn: u32,
) -> Result<bool, PgError> {
    if client.as_ref().is_none_or(|client| client.is_closed()) {
        *client = None;
    }
    let client = match client {
        Some(client) => client,
        None => client.insert(connector.connect().await?),
    };
    let wire = connector.wire(client);
    let step =
        Step::new(include_str!("sql/renew_leadership.sql")).with(epoch.cast_signed()).with(term_ms(options));
    let renewed = !wire.ask(step.with(env!("CARGO_PKG_VERSION"))).await?.is_empty();
    if turn.is_multiple_of(FORGET_EVERY) {
        wire.ask(Step::new(include_str!("sql/forget_nodes.sql")).with(FORGET_MS)).await?;
    }
    Ok(renewed)
}
