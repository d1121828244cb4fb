//! Connections to the leader. A connection serves one request at a time and is kept for the next request.
//!
//! The pool distinguishes a request that was not sent from a request whose response was lost. The first was certainly
//! not executed. The outcome of the second is unknown, so it is never sent again.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::uri::Scheme;
use axum::http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Time limit for opening a connection, including the TLS handshake.
const CONNECT: Duration = Duration::from_secs(3);
/// Maximum number of idle connections, and how long they are kept: less than the leader's own timeout.
const IDLE: usize = 256;
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Maximum size of a response head.
const HEAD_BYTES: usize = 64 * 1024;

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Failed {
    /// The request was not sent.
    NotSent(String),
    /// The request was sent, at least in part.
    Unanswered(String),
}

#[derive(Clone)]
pub(super) struct Pool {
    to: Arc<To>,
    idle: Arc<Mutex<VecDeque<Idle>>>,
}

struct To {
    host: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
}

struct Idle {
    sender: SendRequest<Body>,
    since: Instant,
}

/// Host and port of a node's address, and whether it is behind TLS.
pub(super) fn place(url: &str) -> Result<(String, u16, bool), String> {
    let wrong = || format!("{url:?} is not of the form http://HOST:PORT or https://HOST:PORT");
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
    let secure = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => true,
        Some(scheme) if *scheme == Scheme::HTTP => false,
        _ => return Err(wrong()),
    };
    if host.is_empty() || !["", "/"].contains(&uri.path()) || uri.query().is_some() {
        return Err(wrong());
    }
    Ok((host, uri.port_u16().unwrap_or(if secure { 443 } else { 80 }), secure))
}

impl Pool {
    /// Creates a pool for the node at this address, `http://HOST:PORT` or `https://HOST:PORT`.
    pub(super) fn new(url: &str, tls: Option<Arc<ClientConfig>>) -> Result<Pool, String> {
        let (host, port, secure) = place(url)?;
        let tls = match secure {
            true => {
                Some(tls.ok_or_else(|| format!("{url:?} requires TLS, but no TLS configuration is given"))?)
            }
            false => None,
        };
        Ok(Pool { to: Arc::new(To { host, port, tls }), idle: Arc::default() })
    }

    /// Sends a request and waits for the response head.
    pub(super) async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Failed> {
        loop {
            let (mut sender, kept) = match self.kept() {
                Some(sender) => (sender, true),
                None => (self.connect().await.map_err(|error| Failed::NotSent(error.to_string()))?, false),
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(sender);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    // The leader may have closed an idle connection; try the next one or open a new one.
                    Some(unsent) if kept => request = unsent,
                    Some(_) => return Err(Failed::NotSent(error.into_error().to_string())),
                    None => return Err(Failed::Unanswered(error.into_error().to_string())),
                },
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection used last, so that surplus connections expire.
    fn kept(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.idle();
        let fresh = |way: &Idle| way.since.elapsed() < IDLE_TIME && !way.sender.is_closed();
        while idle.front().is_some_and(|way| !fresh(way)) {
            idle.pop_front();
        }
        idle.pop_back().filter(fresh).map(|way| way.sender)
    }

    /// Keeps a connection after its response was read to the end.
    fn keep(&self, mut sender: SendRequest<Body>) {
        let pool = self.clone();
        tokio::spawn(async move {
            if sender.ready().await.is_ok() {
                let mut idle = pool.idle();
                if idle.len() < IDLE {
                    idle.push_back(Idle { sender, since: Instant::now() });
                }
            }
        });
    }

    async fn connect(&self) -> io::Result<SendRequest<Body>> {
        let connected = tokio::time::timeout(CONNECT, self.connected()).await;
        connected.map_err(|_| io::Error::other("the connection timed out"))?
    }

    async fn connected(&self) -> io::Result<SendRequest<Body>> {
        let stream = TcpStream::connect((self.to.host.as_str(), self.to.port)).await?;
        let _ = stream.set_nodelay(true);
        match &self.to.tls {
            None => speak(stream).await,
            Some(tls) => {
                let name = ServerName::try_from(self.to.host.clone()).map_err(io::Error::other)?;
                speak(TlsConnector::from(tls.clone()).connect(name, stream).await?).await
            }
        }
    }
}

async fn speak<S>(stream: S) -> io::Result<SendRequest<Body>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!("a connection to the leader ended with an error: {error}");
        }
    });
    Ok(sender)
}
