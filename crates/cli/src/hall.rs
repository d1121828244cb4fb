//! The hall put together from its rooms: store, engine, blobs, tokens, server.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use jobhall_blobs::Blobs;
use jobhall_engine::{Config, Engine, SystemClock};
use jobhall_protocol::{Span, SpanError};
use jobhall_server::{Hall, Options, Running, Tokens};
use jobhall_store::Store;
use jobhall_store_sqlite::Sqlite;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// The most bytes of one attempt's log.
const LOG_BYTES: u64 = 64 << 20;

/// Time between two collections of blobs that nothing refers to.
const COLLECT_MS: u64 = 60 * 60 * 1_000;
/// The shortest and the longest lease, in milliseconds. A shorter one leaves a busy machine too little time to renew.
const LEASE_MS: std::ops::RangeInclusive<u64> = 3_000..=24 * 3_600_000;

/// Reads the flag `--lease`.
pub fn lease(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: SpanError| error.to_string())?;
    if LEASE_MS.contains(&span.0) {
        return Ok(span);
    }
    Err(format!("a lease of {span} is outside {} to {}", Span(*LEASE_MS.start()), Span(*LEASE_MS.end())))
}

/// How a hall with this lease behaves.
pub fn config(lease: Option<Span>) -> Config {
    let config = Config::default();
    Config { lease_ms: lease.map_or(config.lease_ms, |span| span.0), ..config }
}

/// A hall that is open.
pub struct OpenHall {
    /// Who may ask.
    pub tokens: Arc<Tokens>,
    /// Where it is.
    pub url: String,
    engine: Engine,
    running: Running,
}

impl OpenHall {
    /// Opens the hall whose data is in this directory, which is made if it is missing.
    pub async fn open(data: &Path, listen: SocketAddr, config: Config) -> Outcome<OpenHall> {
        if !listen.ip().is_loopback() {
            let failure = Failure::new(Exit::Usage, format!("{listen} is not on this machine"));
            return Err(failure
                .why("tokens would travel unprotected: there is no TLS yet")
                .fix("--listen 127.0.0.1:7450"));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(|error| trouble(data, &error))?;
        let store = Sqlite::open(data.join("jobs.db"), jobhall_store_sqlite::Options::default());
        let store: Arc<dyn Store> = Arc::new(store.map_err(|error| trouble(data, &error))?);
        let blobs = Arc::new(Blobs::open(&data.join("blobs")).map_err(|error| trouble(data, &error))?);
        let tokens = Arc::new(Tokens::open(data).map_err(|error| trouble(data, &error))?);
        let engine = Engine::start(store.clone(), config, SystemClock::default()).await;
        let engine = engine.map_err(|error| trouble(data, &error))?;
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            Failure::new(Exit::Unexpected, format!("failed to listen on {listen}"))
                .why(error.to_string())
                .fix("another hall may run there; choose another address with --listen")
        })?;
        let options = Options {
            engine: engine.clone(),
            store,
            blobs,
            tokens: tokens.clone(),
            data: data.to_owned(),
            lease_ms: config.lease_ms,
            log_bytes: LOG_BYTES,
            collect_ms: COLLECT_MS,
            hosts: Vec::new(),
            insecure: false,
        };
        let running = Hall::serve(listener, options).map_err(|error| trouble(data, &error))?;
        let url = format!("http://{}", running.address);
        Ok(OpenHall { tokens, url, engine, running })
    }

    /// Takes no more work; see [`Running::drain`].
    pub fn drain(&self) {
        self.running.drain();
    }

    /// Lets requests and commits under way come to their end. Leases go on.
    pub async fn close(self) {
        self.running.stop().await;
        self.engine.stop().await;
    }
}

fn trouble(data: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Unexpected, format!("failed to open the hall in {}", data.display()))
        .why(error.to_string())
}

/// The two signals that end a hall or a worker.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Outcome<Signals> {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Unexpected, "failed to listen for signals").why(error.to_string())
        };
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        Ok(Signals { terminate, interrupt })
    }

    /// The next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_a_span_within_bounds() {
        assert_eq!(lease("3s").map(|span| config(Some(span)).lease_ms), Ok(3_000));
        assert_eq!(config(None), Config::default());
        for wrong in ["2s", "25h", "soon", ""] {
            assert!(lease(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(lease("2d").unwrap_err(), "a lease of 2d is outside 3s to 1d");
    }
}
