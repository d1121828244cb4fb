//! A node of a hall on PostgreSQL. All nodes are equal: each requests the leadership repeatedly. The leader runs the
//! engine until it loses the leadership; the followers forward requests to it.
//!
//! ```text
//!                ┌──▶ leader: open tokens, blobs, store and engine ──────┐ lost: close everything,
//!   request ─────┤                                                       ├──▶ request again
//!                └──▶ follower: forward to the leader; check each second ┘
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobhall_blobs::Blobs;
use jobhall_client::{Trust, tls_config};
use jobhall_core::{Retention, Time, WorkerName};
use jobhall_engine::{Config, Engine, SystemClock, set_first_rule};
use jobhall_protocol::{Node as Told, NodeRole, Timestamp};
use jobhall_server::{CacheBounds, ForwardTo, HallKeys, NodeSecret, Nodes, Options, Running, Server, Tokens};
use jobhall_store::{Store, StoreError};
use jobhall_store_postgres::{Database, LeaderSeen, Leadership, Node as Me, NodeSeen, Postgres};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::hall_key::{self, Verdict};
use crate::listen::ListenArgs;
use crate::local_worker::TokenSource;
use crate::server::{COLLECT_MS, LOG_BYTES, bind, prepare, trouble};

/// How often a follower checks whether the leadership is free, and a disconnected node whether the database is back.
const LOOK: Duration = Duration::from_secs(1);
/// How long a follower forwards to the last known leader while the database does not answer.
const BELIEVED: Duration = Duration::from_secs(10);
/// Number of connections for logs and artifacts.
const BLOB_CONNECTIONS: usize = 8;
/// How long a start waits until the node is leader or follower.
const SETTLED: Duration = Duration::from_secs(10);
/// Delay after a failed start as leader, so that another node can try.
const REST: Duration = Duration::from_secs(5);
/// Interval between two comparisons of the key of this node with the hall's.
const KEY_CHECK: Duration = Duration::from_secs(2);

/// A running node.
pub struct Node {
    /// The URL at which this machine reaches it.
    pub url: String,
    /// The rule for completed jobs, if this node has set it as the first leader.
    pub first_rule: Option<Retention>,
    name: WorkerName,
    keys: Arc<HallKeys>,
    stop: watch::Sender<bool>,
    /// The error that ended the node by itself.
    failed: watch::Receiver<Option<String>>,
    task: JoinHandle<()>,
}

impl Node {
    /// Starts a node on this database. The directory has the node's few local files.
    pub async fn open(data: &Path, at: &ListenArgs, url: String, trust: &Trust) -> Outcome<Node> {
        let tls = at.tls()?;
        prepare(data)?;
        let database = connect(at, url).await?;
        let key_path = at.key_path(data);
        let keys = hall_key::open(&database, &key_path).await?;
        let listener = bind(at.listen).await?;
        let running = Server::listen(listener, at.listener(tls)).map_err(|error| trouble(data, &error))?;
        let (address, own_url) = (running.address, at.own_url(running.address));
        let me = Me { name: name(address.port()), url: at.advertised(address) };
        let name = WorkerName::new(&me.name).map_err(|error| failed(&error))?;
        let (stop, stops) = watch::channel(false);
        let (fails, failed) = watch::channel(None);
        let (settled, known) = oneshot::channel();
        let monitor = Monitor {
            running,
            database,
            me,
            data: data.to_owned(),
            config: at.config(),
            cache: at.cache(None),
            keys: keys.clone(),
            key_path,
            key_checked: Instant::now(),
            // Only needed if another node uses TLS; reported then.
            tls: tls_config(trust).ok(),
            stops,
            fails,
            first_rule: None,
            settled: Some(settled),
        };
        let task = tokio::spawn(monitor.keep());
        // After the timeout the node keeps trying; until then it answers requests with the reason.
        let first_rule = tokio::time::timeout(SETTLED, known).await.ok().and_then(Result::ok).flatten();
        Ok(Node { url: own_url, first_rule, name, keys, stop, failed, task })
    }

    /// Makes the token of this node's local worker; valid whichever node leads.
    pub fn worker_token(&self) -> TokenSource {
        let (keys, name) = (self.keys.clone(), self.name.clone());
        Box::new(move || Tokens::of_node(&keys, &name))
    }

    /// Waits for an error after which this node cannot continue. A lost leadership is none.
    pub async fn failed(&self) -> String {
        let mut failed = self.failed.clone();
        let why = failed.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| "the task of the node has ended".to_owned())
    }

    /// Finishes pending requests and commits and gives up the leadership. Leases stay valid on the next leader.
    pub async fn close(self) {
        self.stop.send_replace(true);
        let _ = self.task.await;
    }
}

/// The name of the node; different for each start, so that a restarted node is a new one.
fn name(port: u16) -> String {
    format!("{}-{port}-{:08x}", jobhall_worker::host_name(), rand::random::<u32>())
}

async fn connect(at: &ListenArgs, url: String) -> Outcome<Database> {
    for url in [Some(&url), at.database_direct.as_ref()].into_iter().flatten() {
        if let Ok(Some(host)) = jobhall_store_postgres::unencrypted_host(url) {
            tracing::warn!(
                host,
                "the connection to the database may be unencrypted; \
                 add sslmode=verify-full (or require) to its URL"
            );
        }
    }
    let mut options = jobhall_store_postgres::Options::new(url);
    options.pooled = at.database_pooled;
    options.direct_url = at.database_direct.clone();
    let opened = tokio::task::spawn_blocking(move || Database::open(options)).await;
    opened.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Unexpected, "failed to use the database").why(why.to_string())
}

/// How a leadership ended.
enum Ended {
    /// The node stops; with the parts to close.
    Stop(Engine, Arc<Postgres>),
    Lost,
    /// This process cannot continue: the store reported an error, or the engine stopped while the node led.
    Failed(String),
}

/// The task that makes the node leader or follower.
struct Monitor {
    running: Running,
    database: Database,
    me: Me,
    data: PathBuf,
    config: Config,
    cache: CacheBounds,
    keys: Arc<HallKeys>,
    key_path: PathBuf,
    /// When the key was last compared with the hall's.
    key_checked: Instant,
    tls: Option<Arc<rustls::ClientConfig>>,
    /// Becomes true once.
    stops: watch::Receiver<bool>,
    fails: watch::Sender<Option<String>>,
    /// The rule for completed jobs that this node has set.
    first_rule: Option<Retention>,
    /// Notified when the node is leader or follower for the first time, with the rule that it has set.
    settled: Option<oneshot::Sender<Option<Retention>>>,
}

impl Monitor {
    async fn keep(mut self) {
        let mut led: Option<(String, u64)> = None;
        let mut heard = Instant::now();
        loop {
            if let Some(why) = self.foreign_key().await {
                led = None;
                tracing::error!("this node does not serve: {why}");
                self.running.shut(&why).await;
                self.settle();
                tokio::select! {
                    () = tokio::time::sleep(KEY_CHECK) => continue,
                    () = stopped(self.stops.clone()) => break,
                }
            }
            let mut asking = self.database.lead(self.me.clone());
            let asked = tokio::select! {
                asked = &mut asking => asked,
                () = stopped(self.stops.clone()) => {
                    // The request may still succeed; give the leadership up, so that others need not wait.
                    if let Ok(Leadership::Mine(store)) = asking.await {
                        store.leave().await;
                    }
                    break;
                }
            };
            let mut pause = LOOK;
            match asked {
                Ok(Leadership::Mine(store)) => {
                    led = None;
                    match self.hold(store).await {
                        Ended::Stop(engine, store) => return self.stop(engine, &store).await,
                        // Another node may succeed, so this node waits before it requests the leadership again.
                        Ended::Lost => heard = Instant::now(),
                        Ended::Failed(why) => {
                            self.fails.send_replace(Some(why));
                            break;
                        }
                    }
                }
                Ok(Leadership::Theirs(holder)) => {
                    heard = Instant::now();
                    pause = pause.min(Duration::from_millis(holder.left_ms + 10));
                    self.follow(holder, &mut led).await;
                }
                Err(error) => {
                    tracing::warn!("failed to read the leader from the database: {error}");
                    if heard.elapsed() > BELIEVED || led.is_none() {
                        led = None;
                        self.running.shut("the database cannot be reached").await;
                    }
                }
            }
            self.settle();
            tokio::select! {
                () = self.database.changed(pause) => {}
                () = stopped(self.stops.clone()) => break,
            }
        }
        self.leave().await;
    }

    /// Reports that the node is leader or follower.
    fn settle(&mut self) {
        if let Some(settled) = self.settled.take() {
            // The receiver may have timed out.
            let _ = settled.send(self.first_rule);
        }
    }

    /// Releases waiting requests, finishes pending ones, and gives up the leadership.
    async fn stop(self, engine: Engine, store: &Postgres) {
        self.running.stop().await;
        engine.stop().await;
        store.leave().await;
    }

    /// Stops a follower and removes it from the list of nodes.
    async fn leave(self) {
        self.running.stop().await;
        if let Err(error) = self.database.forget(self.me.name).await {
            tracing::debug!("failed to remove this node from the list of nodes: {error}");
        }
    }

    /// Forwards to the leader, if it does not do so yet.
    async fn follow(&self, holder: LeaderSeen, led: &mut Option<(String, u64)>) {
        let to = (holder.node.url, holder.epoch);
        if led.as_ref() == Some(&to) {
            return;
        }
        tracing::info!(node = holder.node.name, url = to.0, "another node leads");
        let follower = ForwardTo {
            url: to.0.clone(),
            secret: NodeSecret::new(self.keys.clone()),
            tls: self.tls.clone(),
        };
        if let Err(why) = self.running.forward(follower).await {
            tracing::error!(node = holder.node.name, "the leader cannot be reached: {why}");
            self.running.shut("the address of the leader is wrong").await;
        }
        *led = Some(to);
    }

    /// Leads until the leadership is lost or the node stops.
    async fn hold(&mut self, store: Arc<Postgres>) -> Ended {
        let (options, engine) = match self.lead_on(store.clone()).await {
            Ok(made) => made,
            Err(why) => {
                tracing::error!("failed to start as leader: {why}");
                self.running.shut("this node failed to start as leader; see its log").await;
                store.leave().await;
                let _ = tokio::time::timeout(REST, stopped(self.stops.clone())).await;
                return Ended::Lost;
            }
        };
        self.running.open(options).await;
        self.settle();
        tracing::info!(node = self.me.name, epoch = store.epoch(), "this node leads");
        let why = tokio::select! {
            why = store.lost() => why,
            why = engine.stopped() => why,
            why = self.key_replaced() => why,
            () = stopped(self.stops.clone()) => return Ended::Stop(engine, store),
        };
        let failure = failure(&store, why.clone());
        let (what, closed) = match failure {
            Some(_) => {
                ("this node cannot lead any more", "this node has stopped because of an error; see its log")
            }
            None => ("this node lost the leadership", "this node has just lost the leadership"),
        };
        tracing::error!("{what}: {why}");
        self.running.shut(closed).await;
        engine.stop().await;
        store.leave().await;
        failure.map_or(Ended::Lost, Ended::Failed)
    }

    /// Reads a changed key file, and compares the key with the hall's every few seconds. Returns why this node must not
    /// serve, if it has another key.
    async fn foreign_key(&mut self) -> Option<String> {
        if self.key_checked.elapsed() < KEY_CHECK {
            return None;
        }
        let compared = self.compare_keys().await;
        // A node with another key is checked again before it serves.
        if compared.is_none() {
            self.key_checked = Instant::now();
        }
        compared
    }

    /// Waits until the hall has another key than this node.
    async fn key_replaced(&self) -> String {
        loop {
            tokio::time::sleep(KEY_CHECK).await;
            if let Some(why) = self.compare_keys().await {
                return why;
            }
        }
    }

    async fn compare_keys(&self) -> Option<String> {
        if let Err(error) = self.keys.reload() {
            tracing::error!("the key file has changed, the keys read before are used: {error}");
        }
        match hall_key::compare(&self.database, &self.keys, &self.key_path).await {
            Ok(Verdict::Same) => None,
            Ok(Verdict::Earlier(record)) => {
                tracing::debug!("{}", hall_key::earlier(&record, &self.key_path));
                None
            }
            Ok(Verdict::Other(record)) => Some(hall_key::replaced(&record, &self.key_path)),
            // The leadership has its own checks of the connection.
            Err(error) => {
                tracing::debug!("failed to compare the key of this node with the hall's: {error}");
                None
            }
        }
    }

    async fn lead_on(&mut self, store: Arc<Postgres>) -> Result<(Options, Engine), String> {
        let blobs = self.blobs(store.epoch()).await?;
        let store: Arc<dyn Store> = store;
        let tokens = Tokens::shared(&self.data, self.keys.clone(), store.clone()).await;
        let tokens = Arc::new(tokens.map_err(|error| error.to_string())?);
        let first_rule = set_first_rule(store.as_ref()).await.map_err(|error| error.to_string())?;
        if let Some(rule) = first_rule {
            self.first_rule = Some(rule);
            tracing::info!(?rule, "the rule for completed jobs was set");
        }
        let engine = Engine::start(store.clone(), self.config, SystemClock::default()).await;
        let engine = engine.map_err(|error| error.to_string())?;
        let options = Options {
            engine: engine.clone(),
            store,
            blobs,
            tokens,
            data: self.data.clone(),
            lease_ms: self.config.lease_ms,
            log_bytes: LOG_BYTES,
            collect_ms: COLLECT_MS,
            references: jobhall_server::References::default(),
            cache: self.cache,
            internal_jobs: jobhall_server::InternalJobs::default(),
            nodes: nodes(self.database.clone()),
            secret: Some(NodeSecret::new(self.keys.clone())),
        };
        Ok((options, engine))
    }

    /// The blobs of the hall. They can be written only during this epoch of the leadership.
    async fn blobs(&self, epoch: u64) -> Result<Arc<Blobs>, String> {
        let pool = self.database.connections(BLOB_CONNECTIONS).map_err(|error| error.to_string())?;
        let place = jobhall_blobs::Database { pool, runtime: Handle::current(), epoch: Some(epoch) };
        let opened = tokio::task::spawn_blocking(move || Blobs::in_database(place)).await;
        let opened = opened.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        Ok(Arc::new(opened))
    }
}

/// The error that ended a leadership; none if another node may lead. An engine that stopped although this node may
/// still lead has failed.
fn failure(store: &Postgres, why: String) -> Option<String> {
    store.failure().or_else(|| store.may_lead().then_some(why))
}

/// Waits until the node is to stop.
async fn stopped(mut stops: watch::Receiver<bool>) {
    // An error means that the sender was dropped.
    let _ = stops.wait_for(|stop| *stop).await;
}

fn nodes(database: Database) -> Nodes {
    Nodes::new(move || {
        let listing = database.nodes();
        Box::pin(async move { listing.await?.into_iter().map(told).collect() })
    })
}

fn told(seen: NodeSeen) -> Result<Told, StoreError> {
    let NodeSeen { node: Me { name, url }, version, seen_ms, leads, gone, .. } = seen;
    let seen_at = i64::try_from(seen_ms).ok().and_then(|ms| Time::from_ms(ms).ok());
    let seen_at = seen_at.ok_or_else(|| StoreError::new(format!("node {name} has no last-seen time")))?;
    let role = match (leads, gone) {
        (true, _) => NodeRole::Leader,
        (false, true) => NodeRole::Gone,
        (false, false) => NodeRole::Follower,
    };
    Ok(Told { name, url, role, version, seen_at: Timestamp(seen_at) })
}
