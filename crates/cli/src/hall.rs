//! The hall put together from its rooms: store, engine, blobs, tokens, server.

use std::fs::DirBuilder;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jobhall_blobs::Blobs;
use jobhall_engine::{Config, Engine, SystemClock};
use jobhall_protocol::{Span, SpanError};
use jobhall_server::{Hall, Options, Running, Tls, Tokens};
use jobhall_store::Store;
use jobhall_store_sqlite::Sqlite;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::hosts;
use crate::settings::{Origin, Setting, Settings};

/// The most bytes of one attempt's log.
const LOG_BYTES: u64 = 64 << 20;

/// Time between two collections of blobs that nothing refers to.
const COLLECT_MS: u64 = 60 * 60 * 1_000;
/// The shortest and the longest lease, in milliseconds. A shorter one leaves a busy machine too little time to renew.
const LEASE_MS: std::ops::RangeInclusive<u64> = 3_000..=24 * 3_600_000;

/// Reads the flag `--lease`.
fn lease(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: SpanError| error.to_string())?;
    if LEASE_MS.contains(&span.0) {
        return Ok(span);
    }
    Err(format!("a lease of {span} is outside {} to {}", Span(*LEASE_MS.start()), Span(*LEASE_MS.end())))
}

/// Where a hall listens, and how.
#[derive(Clone, Debug, Args)]
pub struct ListenArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7450")]
    pub listen: SocketAddr,
    /// Certificate to show, as PEM, with those between it and its authority [env: JOBHALL_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Key of that certificate, as PEM; nobody else may read it [env: JOBHALL_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Name under which the hall may be called besides localhost; say it again for more. Where none is named, a hall
    /// that other machines reach answers to any name [env: JOBHALL_HOST]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = hosts::name)]
    pub host: Vec<String>,
    /// Serve other machines without TLS: whoever is between can read tokens
    #[arg(long)]
    pub insecure: bool,
    /// How long a worker may be silent before its jobs are given to others [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = lease)]
    pub lease: Option<Span>,
}

impl ListenArgs {
    /// On any free port of this machine, without TLS.
    pub fn anywhere() -> ListenArgs {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let (tls_cert, tls_key, host) = (None, None, Vec::new());
        ListenArgs { listen, tls_cert, tls_key, host, insecure: false, lease: None }
    }

    /// With what the environment and the files say where no flag does.
    pub fn with(&self, settings: &Settings) -> Outcome<ListenArgs> {
        let file = |flag: &Option<PathBuf>, setting: &Option<Setting>| {
            let given = flag.clone().or_else(|| Some(PathBuf::from(&setting.as_ref()?.value)))?;
            // Whole, because the jobs of the local worker are told of it and run elsewhere.
            Some(std::path::absolute(&given).unwrap_or(given))
        };
        Ok(ListenArgs {
            tls_cert: file(&self.tls_cert, &settings.tls_cert),
            tls_key: file(&self.tls_key, &settings.tls_key),
            host: self.hosts(settings)?,
            ..self.clone()
        })
    }

    /// The names under which the hall may be called.
    fn hosts(&self, settings: &Settings) -> Outcome<Vec<String>> {
        hosts::few(&self.host).map_err(|why| Failure::usage(format!("--host: {why}")))?;
        match &settings.hosts {
            _ if !self.host.is_empty() => Ok(self.host.clone()),
            None => Ok(Vec::new()),
            // A checked-out file may be anyone's: a page under a name of its choice could speak to the hall.
            Some(Setting { origin: Origin::Project(path), .. }) => {
                Err(Failure::usage(format!("the hosts in {} are not believed", path.display()))
                    .why("that file may be someone else's, and the hall is yours")
                    .fix("give them with --host NAME or JOBHALL_HOST, or in a file of your own"))
            }
            Some(named) => Ok(named.value.clone()),
        }
    }

    /// The certificate to show. Other machines are not served in the clear unless someone says so.
    fn tls(&self) -> Outcome<Option<Tls>> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let tls = Tls::read(certificate, key);
                tls.map(Some).map_err(|error| Failure::usage(error.to_string()))
            }
            (None, None) if self.listen.ip().is_loopback() || self.insecure => Ok(None),
            (None, None) => {
                Err(Failure::usage(format!("{} is not on this machine, and there is no TLS", self.listen))
                    .why("whoever is between could read tokens")
                    .fix(
                        "give --tls-cert FILE and --tls-key FILE, or say --insecure behind a proxy with TLS",
                    ))
            }
            _ => Err(Failure::usage("a certificate needs its key, and a key its certificate")
                .fix("give both --tls-cert FILE and --tls-key FILE")),
        }
    }
}

/// A hall that is open.
pub struct OpenHall {
    /// Who may ask.
    pub tokens: Arc<Tokens>,
    /// Where it is.
    pub url: String,
    /// The certificate it shows.
    pub certificate: Option<PathBuf>,
    engine: Engine,
    running: Running,
}

impl OpenHall {
    /// Opens the hall whose data is in this directory, which is made if it is missing.
    pub async fn open(data: &Path, at: &ListenArgs) -> Outcome<OpenHall> {
        let (tls, listen) = (at.tls()?, at.listen);
        hide();
        DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(|error| trouble(data, &error))?;
        let store = Sqlite::open(data.join("jobs.db"), jobhall_store_sqlite::Options::default());
        let store: Arc<dyn Store> = Arc::new(store.map_err(|error| trouble(data, &error))?);
        let blobs = Arc::new(Blobs::open(&data.join("blobs")).map_err(|error| trouble(data, &error))?);
        let tokens =
            Arc::new(Tokens::open(data, store.clone()).await.map_err(|error| trouble(data, &error))?);
        let mut config = Config::default();
        config.lease_ms = at.lease.map_or(config.lease_ms, |span| span.0);
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
            hosts: at.host.clone(),
            tls,
            insecure: at.insecure,
        };
        let running = Hall::serve(listener, options).map_err(|error| trouble(data, &error))?;
        let scheme = if at.tls_cert.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", reachable(running.address));
        Ok(OpenHall { tokens, url, certificate: at.tls_cert.clone(), engine, running })
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

/// Where this machine reaches what listens there: on every address means on its own too.
fn reachable(address: SocketAddr) -> SocketAddr {
    let own = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(own, address.port())
}

/// Closes the environment and memory of this process to others of the same user: jobs could find secrets there.
pub fn hide() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!("processes of the same user can look into this one: {error}");
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
        assert_eq!(lease("3s").map(|span| span.0), Ok(3_000));
        for wrong in ["2s", "25h", "soon", ""] {
            assert!(lease(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(lease("2d").unwrap_err(), "a lease of 2d is outside 3s to 1d");
    }
}
