//! The role of a node: leader, follower or closed. A node listens once; its role may change between two requests on
//! one connection.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::response::IntoResponse as _;
use futures_util::future::{BoxFuture, Either};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use jobhall_protocol::Code;
use tokio::sync::watch;

use crate::auth;
use crate::auth::failures::Peer;
use crate::error::{self, Answer, ApiError};
use crate::forward::Forwarder;
use crate::forward::forwarded_for::{self, ForwardedFor, NodeSecret};
use crate::metrics::Metrics;
use crate::node::leader::Leader;
use crate::request::id::{REQUEST_ID, RequestId};
use crate::server::app::Hosts;
use crate::server::connections::{Addresses, ConnectionLimits};

/// Why a follower refuses a request that another node forwarded.
const ASTRAY: &str = "the request was forwarded to a node that is not the leader: the leadership has just moved, or \
                      the leader advertises a wrong address (--advertise)";

pub(crate) enum ServingRole {
    /// No request is served; the reason.
    Closed(String),
    /// This node leads.
    Leader(Leader),
    /// Another node leads.
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

    /// Ends long polls, streams and sessions, and waits until they have ended.
    pub(crate) async fn end(&self) {
        match self {
            ServingRole::Closed(_) => {}
            ServingRole::Leader(leader) => leader.end().await,
            ServingRole::Follower(follower) => follower.close(),
        }
    }
}

/// The pending response: from the routes of the leader, or from a node that does not lead.
type Answering = Either<
    <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future,
    BoxFuture<'static, Result<Response<Body>, Infallible>>,
>;

/// State of a node that does not depend on its role.
pub(crate) struct Node {
    pub hosts: Arc<Hosts>,
    pub metrics: Arc<Metrics>,
    /// Whether requests come over TLS.
    pub secure: bool,
    pub role: watch::Sender<Arc<ServingRole>>,
    pub addresses: Arc<Addresses>,
}

impl Node {
    pub(crate) fn new(hosts: Hosts, secure: bool, limits: ConnectionLimits) -> Node {
        let role = watch::Sender::new(Arc::new(ServingRole::Closed("this node has just started".to_owned())));
        Node {
            hosts: Arc::new(hosts),
            metrics: Arc::default(),
            secure,
            role,
            addresses: Addresses::new(limits),
        }
    }

    /// Answers a request in the current role. It does not wrap the router's future in another one: a waiting long poll
    /// would keep the memory of the request in both.
    pub(crate) fn answer(self: &Arc<Node>, mut request: Request<Incoming>, from: Peer) -> Answering {
        let role = self.role.borrow().clone();
        let forwarded_for = forwarded_for::take(request.headers_mut(), role.secret());
        if forwarded_for.is_some() {
            self.addresses.is_node(from.0);
        }
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

    /// Answers a request on a node that does not lead.
    async fn outside(
        &self,
        role: &ServingRole,
        mut request: Request<Incoming>,
        from: Peer,
        passed_on: bool,
    ) -> Response<Body> {
        let id = RequestId::of(request.headers());
        // The logs of both nodes use the same request id.
        request.headers_mut().insert(REQUEST_ID, id.header());
        let forwarded_for = ForwardedFor { from, secure: auth::is_secure(&request, self.secure) };
        let route = match request.uri().path() {
            "/livez" => "/livez",
            "/readyz" => "/readyz",
            "/metrics" => "/metrics",
            _ => "follower",
        };
        let checked = auth::check_host(&self.hosts, request.headers());
        let checked = checked.and_then(|()| auth::check_page(&request, || forwarded_for.secure));
        let answer = match (checked, role) {
            (Err(trouble), _) => Err(trouble),
            (Ok(()), _) if route == "/livez" => Ok(error::body("text/plain; charset=utf-8", "ok\n")),
            // The sender has stale or wrong information about the leader; forwarding again could loop.
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
            Ok(response) => auth::finish(response, id),
            Err(trouble) => auth::finish(trouble.into_response(), id),
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
            // The metrics are those of this node; the leader checks who may read them.
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
