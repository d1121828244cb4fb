//! The leader role on this node: the routes and the background services that run as long as the node leads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::{App, told};
use crate::artifacts::Artifacts;
use crate::disk_usage::DiskUsage;
use crate::failures::Failures;
use crate::forwarded_for::NodeSecret;
use crate::logs::Logs;
use crate::operations::{self, Operations};
use crate::poll_sessions::PollSessions;
use crate::role::Node;
use crate::server::Options;
use crate::tokens::{TokenShares, Tokens};
use crate::{collector, inbox, routes};

/// Time limit for requests in progress when the leadership ends.
pub(crate) const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Interval between two reloads of the tokens.
const REREAD: Duration = Duration::from_secs(2);

pub(crate) struct Leader {
    pub(crate) router: Router,
    pub(crate) secret: Option<NodeSecret>,
    app: Arc<App>,
    drain: watch::Sender<bool>,
    close: watch::Sender<bool>,
    collecting: Mutex<Option<JoinHandle<()>>>,
}

impl Leader {
    /// Starts the leader role on this node, until the node stops.
    pub(crate) fn new(options: Options, node: &Node, stop: watch::Receiver<bool>) -> Leader {
        let ((drain, draining), (close, closing)) = (watch::channel(false), watch::channel(false));
        let (blobs, store) = (options.blobs.clone(), options.store.clone());
        let every = Duration::from_millis(options.collect_ms);
        let references = options.references.clone();
        let collecting = tokio::spawn(collector::run(blobs, store, references, every, draining.clone()));
        tokio::spawn(reread(options.tokens.clone(), closing.clone()));
        tokio::spawn(options.tokens.clone().end_revoked(options.engine.clone(), closing.clone()));
        let secret = options.secret.clone();
        let app = Arc::new(app(options, node, draining, closing));
        tokio::spawn(operations::run(app.clone()));
        tokio::spawn(inbox::run(app.clone()));
        tokio::spawn(with_node(stop, [drain.clone(), close.clone()]));
        let (router, collecting) = (routes::router(&app), Mutex::new(Some(collecting)));
        Leader { router, secret, app, drain, close, collecting }
    }

    pub(crate) fn drain(&self) {
        self.drain.send_replace(true);
    }

    /// Ends long polls, streams and sessions, and waits for them within a time limit.
    pub(crate) async fn end(&self) {
        self.drain();
        self.close.send_replace(true);
        let collecting = self.collecting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = async {
            self.app.sessions.ended().await;
            if let Some(collecting) = collecting {
                let _ = collecting.await;
            }
        };
        if tokio::time::timeout(DRAIN_TIME, ended).await.is_err() {
            tracing::warn!("sessions or blob collection did not end in time; not waiting for them");
        }
    }
}

/// Ends the leader role when the node stops.
async fn with_node(stop: watch::Receiver<bool>, said: [watch::Sender<bool>; 2]) {
    let [drain, close] = said;
    tokio::select! {
        () = told(stop) => {
            drain.send_replace(true);
            close.send_replace(true);
        }
        () = told(close.subscribe()) => {}
    }
}

fn app(options: Options, node: &Node, drain: watch::Receiver<bool>, close: watch::Receiver<bool>) -> App {
    App {
        poll_sessions: Arc::new(PollSessions::new(options.engine.clone())),
        sessions: Arc::default(),
        engine: options.engine,
        operations: Operations::new(options.store.clone()),
        store: options.store,
        artifacts: Artifacts::new(options.blobs.clone()),
        logs: Logs::new(options.blobs, options.log_bytes),
        tokens: options.tokens,
        failures: Failures::default(),
        shares: TokenShares::new(&node.addresses.limits()),
        metrics: node.metrics.clone(),
        disk_usage: DiskUsage::new(options.data),
        nodes: options.nodes,
        lease_ms: options.lease_ms,
        secure: node.secure,
        hosts: node.hosts.clone(),
        started: Instant::now(),
        drain,
        close,
    }
}

/// Reloads the tokens periodically: a token that another node revoked becomes invalid here within seconds.
async fn reread(tokens: Arc<Tokens>, close: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = told(close.clone()) => return,
            () = tokio::time::sleep(REREAD) => {}
        }
        tokens.reload_keys();
        if let Err(error) = tokens.refresh().await {
            tracing::warn!("failed to reload the tokens: {error}");
        }
    }
}
