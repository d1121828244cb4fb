//! Assembles a server from its parts: store, engine, blobs, tokens, HTTP.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use jobhall_blobs::Blobs;
use jobhall_core::{Retention, Time};
use jobhall_engine::{Engine, SystemClock, set_first_rule};
use jobhall_protocol::{Node, NodeRole, Timestamp};
use jobhall_server::{Nodes, Options, Running, Server, Tokens};
use jobhall_store::Store;
use jobhall_store_sqlite::{LOCKED, Sqlite};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::database::Database;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::hall_key;
use crate::listen::ListenArgs;
use crate::open_files;
use crate::output::human::now_ms;

/// Maximum size of the log of an attempt.
pub const LOG_BYTES: u64 = 64 << 20;

/// Interval between two collections of unreferenced blobs.
pub const COLLECT_MS: u64 = 60 * 60 * 1_000;

/// An open server of a hall with one node.
pub struct OpenServer {
    pub tokens: Arc<Tokens>,
    pub url: String,
    /// The rule for completed jobs, if this start has set it.
    pub first_rule: Option<Retention>,
    engine: Engine,
    running: Running,
}

impl OpenServer {
    /// Opens the hall in this data directory, which is created if it is missing.
    pub async fn open(data: &Path, at: &ListenArgs) -> Outcome<OpenServer> {
        let tls = at.tls()?;
        prepare(data)?;
        let jobs = match at.database()? {
            Some(Database::Sqlite(path)) => path,
            _ => data.join("jobs.db"),
        };
        let store = Sqlite::open(jobs, jobhall_store_sqlite::Options::default());
        let store: Arc<dyn Store> = Arc::new(store.map_err(|error| trouble(data, &error))?);
        let blobs = Arc::new(Blobs::open(&data.join("blobs")).map_err(|error| trouble(data, &error))?);
        let keys = hall_key::open_alone(&at.key_path(data))?;
        let tokens = Tokens::open(data, keys, store.clone()).await.map_err(|error| trouble(data, &error))?;
        let tokens = Arc::new(tokens);
        let config = at.config();
        let first_rule = set_first_rule(store.as_ref()).await.map_err(|error| trouble(data, &error))?;
        let engine = Engine::start(store.clone(), config, SystemClock::default()).await;
        let engine = engine.map_err(|error| trouble(data, &error))?;
        let listener = bind(at.listen).await?;
        let address = listener.local_addr().map_err(|error| trouble(data, &error))?;
        let options = Options {
            engine: engine.clone(),
            store,
            blobs,
            tokens: tokens.clone(),
            data: data.to_owned(),
            lease_ms: config.lease_ms,
            log_bytes: LOG_BYTES,
            collect_ms: COLLECT_MS,
            references: jobhall_server::References::default(),
            cache: at.cache(Some(data)),
            internal_jobs: jobhall_server::InternalJobs::default(),
            nodes: alone(at.advertised(address)),
            secret: None,
        };
        let running =
            Server::serve(listener, at.listener(tls), options).map_err(|error| trouble(data, &error))?;
        let url = at.own_url(address);
        Ok(OpenServer { tokens, url, first_rule, engine, running })
    }

    /// Waits until the engine has stopped by itself, and returns the reason.
    pub async fn failed(&self) -> String {
        self.engine.stopped().await
    }

    /// Accepts no more work; see [`Running::drain`].
    pub fn drain(&self) {
        self.running.drain();
    }

    /// Finishes pending requests and commits. Leases stay valid.
    pub async fn close(self) {
        self.running.stop().await;
        self.engine.stop().await;
    }
}

/// Creates the data directory if it is missing, and protects this process.
pub fn prepare(data: &Path) -> Outcome<()> {
    hide();
    open_files::raise();
    DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(|error| trouble(data, &error))
}

/// Listens at this address.
pub async fn bind(listen: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(listen).await.map_err(|error| {
        Failure::new(Exit::Unexpected, format!("failed to listen on {listen}"))
            .why(error.to_string())
            .fix("another server may use this address; choose another one with --listen")
    })
}

/// The only node of the hall; its last-seen time is always the present.
fn alone(url: String) -> Nodes {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let node = Node {
        name: "alone".to_owned(),
        url,
        role: NodeRole::Leader,
        version,
        seen_at: Timestamp(Time::EPOCH),
    };
    Nodes::new(move || {
        let seen_at = Timestamp(Time::from_ms(now_ms()).unwrap_or(Time::EPOCH));
        let node = Node { seen_at, ..node.clone() };
        Box::pin(async move { Ok(vec![node]) })
    })
}

/// Prevents other processes of the same user from reading the environment and memory of this process: jobs could find
/// secrets there.
pub fn hide() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!("other processes of this user can read the memory of this one: {error}");
    }
}

/// The error for an unusable data directory.
pub fn trouble(data: &Path, error: &dyn std::fmt::Display) -> Failure {
    let (data, why) = (data.display(), error.to_string());
    let failure = Failure::new(Exit::Unexpected, format!("failed to open the hall in {data}"));
    if why.ends_with(LOCKED) {
        let fix = format!(
            "use the server that runs (`jobhall stats --data {data}`), stop it, or choose another directory \
             with --data"
        );
        return failure.why(why).fix(fix);
    }
    failure.why(why)
}

/// Whether a data directory cannot be opened because another server has it open.
pub fn is_locked(failure: &Failure) -> bool {
    failure.why.as_deref().is_some_and(|why| why.ends_with(LOCKED))
}

/// The two signals that stop a server or a worker.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to listen for the signals.
    pub fn listen() -> Outcome<Signals> {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Unexpected, "failed to listen for signals").why(error.to_string())
        };
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        Ok(Signals { terminate, interrupt })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use jobhall_engine::{Clock, Config, Now};
    use jobhall_store::Memory;

    use super::*;
    use crate::serving::Serving;

    /// A clock that panics from some time on.
    struct BrokenClock(SystemClock, Arc<AtomicBool>);

    impl Clock for BrokenClock {
        fn now(&self) -> Now {
            assert!(!self.1.load(Ordering::SeqCst), "the clock is broken");
            self.0.now()
        }
    }

    #[tokio::test]
    async fn audit_m8_a_panic_of_the_engine_ends_the_server_with_exit_1() {
        let data = tempfile::tempdir().unwrap();
        let mut open = OpenServer::open(data.path(), &ListenArgs::anywhere()).await.unwrap();
        let is_broken = Arc::new(AtomicBool::new(false));
        let clock = BrokenClock(SystemClock::default(), is_broken.clone());
        let engine = Engine::start(Arc::new(Memory::new()), Config::default(), clock).await.unwrap();
        std::mem::replace(&mut open.engine, engine.clone()).stop().await;
        is_broken.store(true, Ordering::SeqCst);
        assert!(engine.counts().await.is_err());
        let serving = Serving::Alone(open);
        let failure = serving.failed().await;
        assert_eq!((failure.exit, failure.exit.code()), (Exit::Unexpected, 1));
        assert_eq!(failure.why.as_deref(), Some("the engine panicked: the clock is broken"));
        serving.close().await;
    }
}
