//! Accepts connections until the node stops, within limits. Each request is served by the role that the node has at
//! that time.

mod addresses;
mod head_timer;
mod slow_writes;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::auth::failures::Peer;
use crate::metrics::Counted;
use crate::node::leader::DRAIN_TIME;
use crate::node::role::Node;
use crate::server::app::told;
use crate::server::tls::Tls;

pub use addresses::ConnectionLimits;
pub(crate) use addresses::{Addresses, Place};
use head_timer::HeadTimer;
use slow_writes::SlowWrites;

/// Maximum number of connections; further connections wait to be accepted.
const CONNECTIONS: usize = 20_000;
/// Maximum size of a request head.
const HEAD_BYTES: usize = 16 * 1024;
/// Time limit for a request head to arrive.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Pause after the system refused a connection, for example because of the limit on open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The response to a connection beyond the limit of its address.
const REFUSAL: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/problem+json\r\n\
    Retry-After: 1\r\nConnection: close\r\n\r\n\
    {\"code\":\"too_many_requests\",\"status\":429,\"title\":\"Too Many Requests\",\
    \"detail\":\"too many connections from this address\"}";
/// Time limit for it to be sent.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Accepts connections until the node stops, then waits for their requests to finish.
pub(crate) async fn accept(
    listener: TcpListener,
    node: Arc<Node>,
    tls: Option<Tls>,
    close: watch::Receiver<bool>,
) {
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
                    let Some(place) = node.addresses.enter(from.ip()) else {
                        connections.spawn(refuse(stream, from.ip(), tls.is_some()));
                        continue;
                    };
                    let (node, tls, close) = (node.clone(), tls.clone(), close.clone());
                    let counted = Counted::new(&node.metrics.connections);
                    connections.spawn(async move {
                        connection(stream, (Peer(from.ip()), place), node, tls, close).await;
                        drop((permit, counted));
                    });
                }
                Err(error) => {
                    tracing::warn!("failed to accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let role = node.role.borrow().clone();
    let ended = async { while connections.join_next().await.is_some() {} };
    let (ended, ()) = tokio::join!(tokio::time::timeout(DRAIN_TIME, ended), role.end());
    if ended.is_err() {
        tracing::warn!("aborting requests that are still in progress");
    }
}

/// Answers that the address has too many connections.
async fn refuse(mut stream: TcpStream, from: std::net::IpAddr, encrypted: bool) {
    tracing::debug!(%from, "refused a connection: too many from this address");
    if !encrypted {
        let _ = tokio::time::timeout(REFUSAL_TIME, stream.write_all(REFUSAL)).await;
    }
}

async fn connection(
    stream: TcpStream,
    (from, _place): (Peer, Place),
    node: Arc<Node>,
    tls: Option<Tls>,
    close: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let within = Duration::from_millis(node.addresses.limits().write_ms);
    let stream = SlowWrites::new(stream, within);
    match tls {
        None => serve(stream, from, node, close).await,
        // Boxed, so that a connection without TLS does not reserve memory for this future.
        Some(tls) => Box::pin(encrypted(tls, stream, from, node, close)).await,
    }
}

async fn encrypted(
    tls: Tls,
    stream: SlowWrites<TcpStream>,
    from: Peer,
    node: Arc<Node>,
    close: watch::Receiver<bool>,
) {
    let shaken = tokio::select! {
        shaken = tls.shake(stream) => shaken,
        () = told(close.clone()) => return,
    };
    match shaken {
        Ok(stream) => serve(stream, from, node, close).await,
        Err(error) => tracing::debug!("a TLS handshake failed: {error}"),
    }
}

async fn serve<S>(stream: S, from: Peer, node: Arc<Node>, close: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(HeadTimer::default()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES);
    let service = service_fn(move |request| node.answer(request, from));
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    tokio::select! {
        ended = served.as_mut() => return log_end(ended),
        () = told(close) => served.as_mut().graceful_shutdown(),
    }
    log_end(served.await);
}

fn log_end(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!("a connection ended with an error: {error}");
    }
}
