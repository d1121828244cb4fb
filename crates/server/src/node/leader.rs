//! The leader role on this node: the routes and the background services that run as long as the node leads.

pub(crate) mod internal_jobs;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use jobhall_blobs::Digest;
use jobhall_core::query::SourceDigest;
use jobhall_queries::Queries;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::auth::failures::Failures;
use crate::auth::tokens::{TokenShares, Tokens};
use crate::blobs::artifacts::Artifacts;
use crate::blobs::collector::{self, References};
use crate::blobs::logs::Logs;
use crate::forward::forwarded_for::NodeSecret;
use crate::metrics::disk_usage::DiskUsage;
use crate::node::role::Node;
use crate::routes;
use crate::server::Options;
use crate::server::app::{App, told};
use crate::services::inbox;
use crate::services::operations::{self, Operations};
use crate::services::source_upkeep;
use crate::sessions::poll_sessions::PollSessions;

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
    background: Mutex<Vec<JoinHandle<()>>>,
}

impl Leader {
    /// Starts the leader role on this node, until the node stops.
    pub(crate) fn new(options: Options, node: &Node, stop: watch::Receiver<bool>) -> Leader {
        let ((drain, draining), (close, closing)) = (watch::channel(false), watch::channel(false));
        let (blobs, store) = (options.blobs.clone(), options.store.clone());
        let every = Duration::from_millis(options.collect_ms);
        tokio::spawn(reread(options.tokens.clone(), closing.clone()));
        tokio::spawn(options.tokens.clone().end_revoked(options.engine.clone(), closing.clone()));
        let (internal_jobs, engine) = (options.internal_jobs.clone(), options.engine.clone());
        let internal_jobs = tokio::spawn(internal_jobs::run(internal_jobs, engine, closing.clone()));
        let secret = options.secret.clone();
        let given = options.references.clone();
        let app = Arc::new(app(options, node, draining.clone(), closing));
        let references = references(app.queries.clone(), given);
        let collecting = tokio::spawn(collector::run(blobs, store, references, every, draining));
        tokio::spawn(source_upkeep::run(app.clone()));
        tokio::spawn(operations::run(app.clone()));
        tokio::spawn(inbox::run(app.clone()));
        let (queries, ends) = (app.queries.clone(), app.close.clone());
        let cache = tokio::spawn(async move { queries.keep_cache(told(ends)).await });
        tokio::spawn(with_node(stop, [drain.clone(), close.clone()]));
        let (router, background) = (routes::router(&app), Mutex::new(vec![collecting, internal_jobs, cache]));
        Leader { router, secret, app, drain, close, background }
    }

    pub(crate) fn drain(&self) {
        self.drain.send_replace(true);
    }

    /// Ends long polls, streams and sessions, and waits for them within a time limit.
    pub(crate) async fn end(&self) {
        self.drain();
        self.close.send_replace(true);
        let background = std::mem::take(&mut *self.background.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = async {
            self.app.sessions.ended().await;
            for task in background {
                let _ = task.await;
            }
        };
        if tokio::time::timeout(DRAIN_TIME, ended).await.is_err() {
            tracing::warn!(
                "sessions, internal jobs or blob collection did not end in time; not waiting for them"
            );
        }
    }
}

/// The objects of sources are referenced too.
fn references(queries: Queries, given: References) -> References {
    let runtime = Handle::current();
    let referenced = move |object: &Digest| {
        let named = queries.names_object(SourceDigest(*object.as_bytes()));
        (given.referenced)(object) || runtime.block_on(named)
    };
    References { referenced: Arc::new(referenced), pinned: given.pinned }
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
        queries: Queries::with_cache(
            options.engine.clone(),
            options.store.clone(),
            options.blobs.clone(),
            options.cache,
        ),
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
