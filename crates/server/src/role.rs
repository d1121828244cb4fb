//! What a node is at this moment, to whoever comes: the leadership itself, a follower that leads to it, or closed. A node listens
//! once; what it is may change between two requests on one connection.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header::HeaderValue;
use axum::http::{Request, Response};
use axum::response::IntoResponse as _;
use futures_util::future::{BoxFuture, Either};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use jobhall_protocol::Code;
use tokio::sync::watch;

use crate::app::Hosts;
use crate::auth;
use crate::error::{self, Answer, ApiError};
use crate::failures::Peer;
use crate::forward::Forwarder;
use crate::forwarded_for::{self, ForwardedFor, NodeSecret};
use crate::leader::Leader;
use crate::metrics::Metrics;

/// Why a request that another node passed on to a follower goes no further.
const ASTRAY: &str = "the request was forwarded to a node that is not the leader: the leadership has just moved, or \
                      the leader advertises a wrong address (--advertise)";

/// See the module.
pub(crate) enum ServingRole {
    /// Nobody is served; why.
    Closed(String),
    /// This node leads.
    Leader(Leader),
    /// Another node does.
    Follower(Forwarder),
}

impl ServingRole {
    fn secret(&self) -> Option<&NodeSecret> {
        match self {
            ServingRole::Closed(_) => None,
            ServingRole::Leader(leader) => leader.secret.as_ref(),
            ServingRole::Follower(follower) => Some(&follower.secret),
        }
    }

    /// Ends whatever waits or streams, and waits until it has ended.
    pub(crate) async fn end(&self) {
        match self {
            ServingRole::Closed(_) => {}
            ServingRole::Leader(leader) => leader.end().await,
            ServingRole::Follower(follower) => follower.close(),
        }
    }
}

/// The answer to come: from the leader's routes, or from a node that does not lead.
type Answering = Either<
    <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future,
    BoxFuture<'static, Result<Response<Body>, Infallible>>,
>;

/// What is the same whatever a node is.
pub(crate) struct Node {
    pub hosts: Arc<Hosts>,
    pub metrics: Arc<Metrics>,
    /// Whether requests come over TLS.
    pub secure: bool,
    pub role: watch::Sender<Arc<ServingRole>>,
}

impl Node {
    pub(crate) fn new(hosts: Hosts, secure: bool) -> Node {
        let role = watch::Sender::new(Arc::new(ServingRole::Closed("this node has just started".to_owned())));
        Node { hosts: Arc::new(hosts), metrics: Arc::default(), secure, role }
    }

    /// Answers a request as what this node is now. Not a future of its own around the router's: a long poll that waits
    /// would keep the room of the request in each of them.
    pub(crate) fn answer(self: &Arc<Node>, mut request: Request<Incoming>, from: Peer) -> Answering {
        let role = self.role.borrow().clone();
        let forwarded_for = forwarded_for::take(request.headers_mut(), role.secret());
        if let ServingRole::Leader(leader) = &*role {
            request.extensions_mut().insert(forwarded_for.map_or(from, |forwarded_for| forwarded_for.from));
            if let Some(forwarded_for) = forwarded_for {
                request.extensions_mut().insert(forwarded_for);
            }
            return Either::Left(TowerToHyperService::new(leader.router.clone()).call(request));
        }
        let node = self.clone();
        Either::Right(Box::pin(async move {
            Ok(node.outside(&role, request, from, forwarded_for.is_some()).await)
        }))
    }

    /// Answers where this node does not lead.
    async fn outside(
        &self,
        role: &ServingRole,
        mut request: Request<Incoming>,
        from: Peer,
        passed_on: bool,
    ) -> Response<Body> {
        let id = auth::request_id(request.headers());
        // One id goes through the logs of both nodes.
        if let Ok(id) = HeaderValue::from_str(&id) {
            request.headers_mut().insert(auth::REQUEST_ID, id);
        }
        let forwarded_for = ForwardedFor { from, secure: self.secure };
        let route = match request.uri().path() {
            "/livez" => "/livez",
            "/readyz" => "/readyz",
            "/metrics" => "/metrics",
            _ => "follower",
        };
        let checked = auth::check_host(&self.hosts, request.headers());
        let checked = checked.and_then(|()| auth::check_page(&request));
        let answer = match (checked, role) {
            (Err(trouble), _) => Err(trouble),
            (Ok(()), _) if route == "/livez" => Ok(error::body("text/plain; charset=utf-8", "ok\n")),
            // Whoever sent it here is behind the times, or was told a wrong address; it must not go round.
            (Ok(()), ServingRole::Follower(_)) if passed_on => {
                tracing::warn!(from = %from.0, "{ASTRAY}");
                Err(no_leader(ASTRAY))
            }
            (Ok(()), ServingRole::Follower(follower)) => {
                self.through(follower, route, request, forwarded_for).await
            }
            (Ok(()), ServingRole::Closed(why)) => Err(no_leader(why)),
            (Ok(()), ServingRole::Leader(_)) => {
                Err(ApiError::internal("the leader was treated as a follower"))
            }
        };
        let response = match answer {
            // The answer of the leader is passed on unchanged.
            Ok(response) if route == "follower" => response,
            Ok(response) => auth::finish(response, &id),
            Err(trouble) => auth::finish(trouble.into_response(), &id),
        };
        self.metrics.request(route, response.status().as_u16());
        response
    }

    async fn through(
        &self,
        follower: &Forwarder,
        route: &'static str,
        request: Request<Incoming>,
        forwarded_for: ForwardedFor,
    ) -> Answer {
        match route {
            "/readyz" => follower.is_ready(&request, forwarded_for).await,
            // The numbers are this node's own; who may see them is known on the leader.
            "/metrics" => {
                let answer = follower.may_see_numbers(&request, forwarded_for).await?;
                if answer.status().is_success() {
                    Ok(error::numbers(self.metrics.own_text()))
                } else {
                    Ok(answer)
                }
            }
            _ => follower.pass(request, forwarded_for).await,
        }
    }
}

fn no_leader(why: &str) -> ApiError {
    ApiError::new(Code::NoLeader, format!("{why}; nothing was done"))
}
