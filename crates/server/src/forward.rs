//! The follower role: a node that is not the leader forwards requests to the leader.
//!
//! ```text
//!   client ─▶ guard of the follower: host, origin ─▶ pool ─▶ the leader: token, role, route
//!          ◀── response, streamed as it arrives ◀────┘
//!          ◀══════ bytes both ways, after an upgrade ══════▶
//! ```
//!
//! A follower buffers nothing: bodies, streams and long polls pass through as they arrive, and a connection that ends
//! on one side ends on the other. A follower does not check tokens. It sends the source address of a request to the
//! leader, which counts invalid tokens against that address. The secret shared by the nodes authenticates the follower.

pub(crate) mod forwarded_for;
mod headers;
mod pool;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use jobhall_protocol::Code;
use tokio::io::copy_bidirectional;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::rustls::ClientConfig;

use self::forwarded_for::{ForwardedFor, NodeSecret};
use self::pool::{Failed, Pool};
use crate::error::{Answer, ApiError};
use crate::request::id::REQUEST_ID;
use crate::server::app::told;

/// Maximum number of upgraded connections, equal to the maximum number of sessions.
const TUNNELS: usize = 10_000;
/// Minimum time between two warnings in the log that the leader is unreachable.
const COMPLAIN: Duration = Duration::from_secs(10);
/// Time limit for the readiness response of the leader.
const READY: Duration = Duration::from_secs(3);
/// Maximum size of that response.
const READY_BYTES: usize = 16 * 1024;

/// Checks the address that a node advertises to other nodes.
///
/// # Errors
/// The address is not of the form `http://HOST:PORT` or `https://HOST:PORT`.
pub fn check_address(url: &str) -> Result<(), String> {
    pool::place(url).map(|_| ())
}

/// Target of a follower.
#[derive(Clone, Debug)]
pub struct ForwardTo {
    /// Address of the leader: `http://HOST:PORT` or `https://HOST:PORT`.
    pub url: String,
    /// The secret that the nodes of the hall share.
    pub secret: NodeSecret,
    /// TLS configuration and trusted certificates for that node; required for `https`.
    pub tls: Option<Arc<ClientConfig>>,
}

pub(crate) struct Forwarder {
    pool: Pool,
    pub(crate) secret: NodeSecret,
    tunnels: Arc<Semaphore>,
    /// Becomes true once: another node leads, or this node stops.
    close: watch::Sender<bool>,
    /// Time of the last warning that the leader is unreachable.
    complained: Mutex<Option<Instant>>,
}

impl Forwarder {
    pub(crate) fn new(to: ForwardTo) -> Result<Forwarder, String> {
        let ForwardTo { url, secret, tls } = to;
        let tunnels = Arc::new(Semaphore::new(TUNNELS));
        let (pool, close) = (Pool::new(&url, tls)?, watch::Sender::new(false));
        Ok(Forwarder { pool, secret, tunnels, close, complained: Mutex::default() })
    }

    /// Ends all forwarded connections. The clients reconnect and reach the new leader.
    pub(crate) fn close(&self) {
        self.close.send_replace(true);
    }

    fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        told(self.close.subscribe())
    }

    pub(crate) async fn pass(&self, mut request: Request<Incoming>, forwarded_for: ForwardedFor) -> Answer {
        let upgrade = headers::strip(request.headers_mut());
        // Before anything is sent: a session beyond the limit is refused.
        let asked = match upgrade {
            Some(to) => Some((to, self.place()?, hyper::upgrade::on(&mut request))),
            None => None,
        };
        let (mut parts, body) = request.into_parts();
        // The pool determines the address, so only the path is kept.
        parts.uri = parts.uri.path_and_query().map_or_else(Uri::default, |path| Uri::from(path.clone()));
        let mut request = Request::from_parts(parts, Body::new(body));
        self.secret.sign(request.headers_mut(), forwarded_for);
        if let Some((to, ..)) = &asked {
            headers::ask(request.headers_mut(), to.clone());
        }
        let mut response = self.send(request).await?;
        let agreed = headers::strip(response.headers_mut());
        match (response.status(), asked, agreed) {
            (StatusCode::SWITCHING_PROTOCOLS, Some((_, place, from)), Some(to)) => {
                headers::ask(response.headers_mut(), to);
                self.tunnel(from, hyper::upgrade::on(&mut response), place);
                Ok(response.map(|_| Body::empty()))
            }
            (StatusCode::SWITCHING_PROTOCOLS, ..) => {
                Err(self.lost("it switched protocols without being asked", false))
            }
            _ => Ok(response.map(|body| Body::new(Passing { body, closed: Box::pin(self.closed()) }))),
        }
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, ApiError> {
        let reads = request.method().is_safe();
        let sent = tokio::select! {
            sent = self.pool.send(request) => sent,
            () = self.closed() => Err(Failed::Unanswered("the leader changed during the request".to_owned())),
        };
        sent.map_err(|failed| match failed {
            Failed::NotSent(why) => self.absent(&why),
            Failed::Unanswered(why) => self.lost(&why, reads),
        })
    }

    /// The error for a request that was not sent.
    fn absent(&self, why: &str) -> ApiError {
        self.complain("the leader cannot be reached", why);
        ApiError::new(Code::NoLeader, "the leader cannot be reached; nothing was done")
    }

    /// The error for a request that was sent and not answered.
    fn lost(&self, why: &str, reads: bool) -> ApiError {
        self.complain("the connection to the leader was lost before it answered", why);
        if reads {
            return ApiError::new(
                Code::NoLeader,
                "the connection to the leader was lost before it answered; try again",
            );
        }
        let words = "the connection to the leader was lost before it answered; it is not known whether the \
                     request was executed";
        ApiError::new(Code::OutcomeUnknown, words)
    }

    /// Logs a warning, at most one per interval.
    fn complain(&self, what: &str, why: &str) {
        let mut last = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() > COMPLAIN) {
            *last = Some(Instant::now());
            tracing::warn!("{what}: {why}");
        } else {
            tracing::debug!("{what}: {why}");
        }
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let place = self.tunnels.clone().try_acquire_owned();
        place.map_err(|_| {
            ApiError::new(Code::Unavailable, format!("{TUNNELS} sessions are open, which is the limit"))
        })
    }

    /// Copies bytes in both directions until both sides have ended, or the follower is closed.
    fn tunnel(&self, client: OnUpgrade, leadership: OnUpgrade, place: OwnedSemaphorePermit) {
        let closed = self.closed();
        tokio::spawn(async move {
            let through = async {
                let (client, leadership) =
                    tokio::try_join!(client, leadership).map_err(std::io::Error::other)?;
                copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(leadership)).await
            };
            tokio::select! {
                passed = through => if let Err(error) = passed {
                    tracing::debug!("a forwarded session ended with an error: {error}");
                },
                () = closed => {}
            }
            drop(place);
        });
    }

    /// Returns the readiness response of the leader.
    pub(crate) async fn is_ready(&self, asked: &Request<Incoming>, forwarded_for: ForwardedFor) -> Answer {
        let path =
            asked.uri().query().map_or_else(|| "/readyz".to_owned(), |query| format!("/readyz?{query}"));
        let question = self.question(&path, asked, forwarded_for)?;
        let answering = async {
            let (parts, body) = self.send(question).await?.into_parts();
            let bytes = Limited::new(body, READY_BYTES).collect().await;
            let bytes = bytes.map_err(|error| self.lost(&error.to_string(), true))?.to_bytes();
            let mut answer = Response::new(Body::from(bytes));
            *answer.status_mut() = parts.status;
            for name in [header::CONTENT_TYPE, header::RETRY_AFTER] {
                if let Some(said) = parts.headers.get(&name) {
                    answer.headers_mut().insert(name, said.clone());
                }
            }
            Ok(answer)
        };
        tokio::time::timeout(READY, answering)
            .await
            .unwrap_or_else(|_| Err(self.lost("it did not answer in time", true)))
    }

    /// Asks the leader whether the caller may read metrics.
    pub(crate) async fn may_see_numbers(
        &self,
        asked: &Request<Incoming>,
        forwarded_for: ForwardedFor,
    ) -> Answer {
        Ok(self.send(self.question("/metrics", asked, forwarded_for)?).await?.map(Body::new))
    }

    /// A request that this node sends to the leader with the credentials of the caller.
    fn question(
        &self,
        path: &str,
        asked: &Request<Incoming>,
        forwarded_for: ForwardedFor,
    ) -> Result<Request<Body>, ApiError> {
        let mut question = Request::builder().uri(path).body(Body::empty()).map_err(ApiError::bad)?;
        let headers = question.headers_mut();
        for name in [header::HOST, header::AUTHORIZATION, header::COOKIE, REQUEST_ID] {
            if let Some(shown) = asked.headers().get(&name) {
                headers.insert(name, shown.clone());
            }
        }
        self.secret.sign(headers, forwarded_for);
        Ok(question)
    }
}

/// A forwarded body, aborted when the follower is closed.
struct Passing {
    body: Incoming,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl hyper::body::Body for Passing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() && self.closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new("the leader changed during the request"))));
        }
        frame.map_err(axum::Error::new)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
