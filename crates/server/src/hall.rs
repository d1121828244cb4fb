//! The hall as a whole: it takes connections until it is told to stop, then lets everything come to its end.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use jobhall_blobs::Blobs;
use jobhall_engine::Engine;
use jobhall_store::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::app::{App, Hosts, told};
use crate::artifacts::Artifacts;
use crate::collector;
use crate::failures::{Failures, Peer};
use crate::floor::Floor;
use crate::inbox;
use crate::logs::Logs;
use crate::metrics::{Counted, Metrics};
use crate::operations::{self, Operations};
use crate::place::Place;
use crate::routes;
use crate::tls::Tls;
use crate::tokens::Tokens;

/// Connections at once; more wait to be taken.
const CONNECTIONS: usize = 20_000;
/// The most bytes of a request's head.
const HEAD_BYTES: usize = 16 * 1024;
/// How long the head of a request may take.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long requests under way have when the hall stops.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Pauses between two readings of the tokens.
const REREAD: Duration = Duration::from_secs(2);
/// Pause after the system refused a connection, for instance because files ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a hall is made of.
pub struct Options {
    /// The engine. It is not stopped with the hall.
    pub engine: Engine,
    /// The engine's own store, for reads that need no decision.
    pub store: Arc<dyn Store>,
    /// Where logs are kept.
    pub blobs: Arc<Blobs>,
    /// Who may ask.
    pub tokens: Arc<Tokens>,
    /// The directory that has the store, for what it takes and what is left on its disk.
    pub data: PathBuf,
    /// How long a session lives without a renewal: the engine's own number.
    pub lease_ms: u64,
    /// The most bytes of one attempt's log.
    pub log_bytes: u64,
    /// Time between two collections of blobs that nothing refers to.
    pub collect_ms: u64,
    /// Names besides those of this machine under which the hall may be called, without port. Where there are none, a
    /// hall on loopback answers to this machine's alone, and one that others reach to any.
    pub hosts: Vec<String>,
    /// The certificate to show; none serves without encryption.
    pub tls: Option<Tls>,
    /// Whether other machines may be served without encryption, so that anyone between can read tokens.
    pub insecure: bool,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("lease_ms", &self.lease_ms).finish_non_exhaustive()
    }
}

/// The server.
#[derive(Debug)]
pub struct Hall;

/// A hall that takes requests. Dropped, it stops too, but nobody waits for it.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    drain: watch::Sender<bool>,
    close: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Hall {
    /// Serves on this listener, on the current tokio runtime.
    ///
    /// # Errors
    /// The listener has no address, or one that other machines reach without `insecure`.
    pub fn serve(listener: TcpListener, options: Options) -> std::io::Result<Running> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && options.tls.is_none() && !options.insecure {
            return Err(std::io::Error::other(format!(
                "failed to serve on {address}: it is not loopback and has no TLS"
            )));
        }
        let ((drain, draining), (close, closing)) = (watch::channel(false), watch::channel(false));
        let (blobs, store) = (options.blobs.clone(), options.store.clone());
        let every = Duration::from_millis(options.collect_ms);
        let collecting = collector::run(blobs, store, every, draining.clone());
        let (tls, tokens) = (options.tls.clone(), options.tokens.clone());
        tokio::spawn(reread(tokens, closing.clone()));
        let app = Arc::new(app(options, address, draining, closing.clone()));
        tokio::spawn(operations::run(app.clone()));
        tokio::spawn(inbox::run(app.clone()));
        let any_host = app.hosts.any();
        let serving = accept(listener, app, tls, closing);
        let task = tokio::spawn(async move {
            tokio::join!(serving, collecting);
        });
        if any_host {
            tracing::warn!(%address, "the hall is open, and answers to any host because none is named");
        } else {
            tracing::info!(%address, "the hall is open");
        }
        Ok(Running { address, drain, close, task })
    }
}

impl Running {
    /// Takes no more work: submits are refused, long polls end, and `/readyz` says so. Everything else goes on, so
    /// that workers can finish and people can watch.
    pub fn drain(&self) {
        self.drain.send_replace(true);
    }

    /// Takes no more connections, ends what waits, and gives requests under way some seconds.
    pub async fn stop(self) {
        self.drain();
        self.close.send_replace(true);
        let _ = self.task.await;
    }
}

fn app(
    options: Options,
    address: SocketAddr,
    drain: watch::Receiver<bool>,
    close: watch::Receiver<bool>,
) -> App {
    App {
        floor: Arc::new(Floor::new(options.engine.clone())),
        sessions: Arc::default(),
        engine: options.engine,
        operations: Operations::new(options.store.clone()),
        store: options.store,
        artifacts: Artifacts::new(options.blobs.clone()),
        logs: Logs::new(options.blobs, options.log_bytes),
        tokens: options.tokens,
        failures: Failures::default(),
        metrics: Metrics::default(),
        place: Place::new(options.data),
        lease_ms: options.lease_ms,
        secure: options.tls.is_some(),
        hosts: Hosts::new(&options.hosts, address.ip()),
        started: Instant::now(),
        drain,
        close,
    }
}

/// Reads the tokens anew again and again: what another node revoked is gone here within seconds.
async fn reread(tokens: Arc<Tokens>, close: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = told(close.clone()) => return,
            () = tokio::time::sleep(REREAD) => {}
        }
        if let Err(error) = tokens.refresh().await {
            tracing::warn!("the tokens could not be read anew: {error}");
        }
    }
}

/// What a connection is served with.
#[derive(Clone)]
struct Service {
    router: Router,
    tls: Option<Tls>,
}

async fn accept(listener: TcpListener, app: Arc<App>, tls: Option<Tls>, close: watch::Receiver<bool>) {
    let service = Service { router: routes::router(&app), tls };
    let mut connections = JoinSet::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let taken = async {
            let permit = room.clone().acquire_owned().await;
            (listener.accept().await, permit)
        };
        tokio::select! {
            () = told(close.clone()) => break,
            Some(_) = connections.join_next() => {}
            (stream, permit) = taken => match stream {
                Ok((stream, from)) => {
                    let (service, close) = (service.clone(), close.clone());
                    let counted = Counted::new(&app.metrics.connections);
                    connections.spawn(async move {
                        connection(stream, Peer(from.ip()), service, close).await;
                        drop((permit, counted));
                    });
                }
                Err(error) => {
                    tracing::warn!("failed to take a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let ended = async {
        while connections.join_next().await.is_some() {}
        app.sessions.ended().await;
    };
    if tokio::time::timeout(DRAIN_TIME, ended).await.is_err() {
        tracing::warn!("requests that were still under way are cut");
    }
}

async fn connection(stream: TcpStream, from: Peer, service: Service, close: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let Service { router, tls } = service;
    match tls {
        None => serve(stream, from, router, close).await,
        // Apart, because its room would be taken by every connection without TLS too.
        Some(tls) => Box::pin(encrypted(tls, stream, from, router, close)).await,
    }
}

async fn encrypted(tls: Tls, stream: TcpStream, from: Peer, router: Router, close: watch::Receiver<bool>) {
    let shaken = tokio::select! {
        shaken = tls.shake(stream) => shaken,
        () = told(close.clone()) => return,
    };
    match shaken {
        Ok(stream) => serve(stream, from, router, close).await,
        Err(error) => tracing::debug!("a connection ended in its handshake: {error}"),
    }
}

async fn serve<S>(stream: S, from: Peer, router: Router, close: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(from);
        router.call(request)
    });
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    tokio::select! {
        ended = served.as_mut() => return log_end(ended),
        () = told(close) => served.as_mut().graceful_shutdown(),
    }
    log_end(served.await);
}

fn log_end(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}
