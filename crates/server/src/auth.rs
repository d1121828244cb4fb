//! The guard around every route. Before the route it assigns a request id and checks host, origin, token and role.
//! After the route it writes the problem, counts the request and logs it. A panic in a route becomes a 500 response
//! and does not stop the server.

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod failures;
pub(crate) mod tokens;
pub(crate) mod visibility;

use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::handler::Handler;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, Request};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use jobhall_protocol::Code;

use crate::error::{ApiError, foreign};
use crate::forward::forwarded_for::ForwardedFor;
use crate::metrics::{Metrics, StatusCounters};
use crate::request::id::{REQUEST_ID, RequestId};
use crate::request::params;
use crate::server::app::{App, Hosts, port_of};

use access::{Access, access, listed, methods};
use failures::Peer;
use tokens::{Identity, Role};

/// The beginning of the name of the cookie of a browser session.
const SESSION_COOKIE: &str = "jobhall_session";
/// The scheme that a client used with a proxy in front of this server.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// A route behind the guard. It is one future around another, not a tower layer: a waiting long poll keeps every layer
/// in memory.
pub(crate) struct Guarded<H, T> {
    route: Arc<KnownRoute>,
    handler: H,
    takes: PhantomData<fn() -> T>,
}

/// What the guard knows about a route before a request.
struct KnownRoute {
    path: &'static str,
    access: Option<Access>,
    counters: StatusCounters,
}

impl<H: Clone, T> Clone for Guarded<H, T> {
    fn clone(&self) -> Guarded<H, T> {
        Guarded { route: self.route.clone(), handler: self.handler.clone(), takes: PhantomData }
    }
}

impl<H, T> Guarded<H, T> {
    pub(crate) fn new(method: &'static str, path: &'static str, handler: H) -> Guarded<H, T> {
        let route = KnownRoute { path, access: access(method, path), counters: StatusCounters::default() };
        Guarded { route: Arc::new(route), handler, takes: PhantomData }
    }
}

impl<H: Handler<T, Arc<App>>, T: 'static> Handler<(Guarded<H, T>, T), Arc<App>> for Guarded<H, T> {
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request<Body>, app: Arc<App>) -> Self::Future {
        let Guarded { route, handler, .. } = self;
        let state = app.clone();
        Box::pin(guard(app, Target::Route(route), request, move |request| handler.call(request, state)))
    }
}

/// The fallback for an unknown path, or for an unsupported method of a known path.
pub(crate) async fn nowhere(State(app): State<Arc<App>>, request: Request<Body>) -> Response {
    let path = request.extensions().get::<MatchedPath>().and_then(|path| listed(path.as_str()));
    guard(app, Target::Unsupported(path), request, |_| async {
        ApiError::internal("a request without a route was admitted").into_response()
    })
    .await
}

/// What a request is for.
enum Target {
    Route(Arc<KnownRoute>),
    /// No route; the path, if it has routes for other methods.
    Unsupported(Option<&'static str>),
}

impl Target {
    fn path(&self) -> Option<&'static str> {
        match self {
            Target::Route(route) => Some(route.path),
            Target::Unsupported(path) => *path,
        }
    }

    fn access(&self) -> Option<Access> {
        match self {
            Target::Route(route) => route.access,
            Target::Unsupported(_) => None,
        }
    }

    fn count(&self, metrics: &Metrics, status: u16) {
        match self {
            Target::Route(route) => metrics.request_of(route.path, status, &route.counters),
            Target::Unsupported(path) => metrics.request(path.unwrap_or("none"), status),
        }
    }
}

/// What the line about a request has, if it is logged.
struct RequestLine {
    started: Instant,
    method: Method,
    who: String,
}

async fn guard<F: Future<Output = Response> + Send>(
    app: Arc<App>,
    target: Target,
    mut request: Request<Body>,
    run: impl FnOnce(Request<Body>) -> F,
) -> Response {
    let mut line = tracing::enabled!(tracing::Level::DEBUG).then(|| RequestLine {
        started: Instant::now(),
        method: request.method().clone(),
        who: String::new(),
    });
    let id = RequestId::of(request.headers());
    // `admit` logs nothing.
    let admitted = admit(&app, &mut request, &target).await;
    if let (Some(line), Some(who)) = (&mut line, request.extensions().get::<Identity>()) {
        line.who.clone_from(&who.name);
    }
    // The request is moved into the route, so this future does not keep it.
    let response = match admitted {
        Ok(()) => id.runs(survived(run(request))).await,
        Err(trouble) => trouble.into_response(),
    };
    let response = id.within(|| finish(response, id));
    let status = response.status().as_u16();
    target.count(&app.metrics, status);
    if let Some(RequestLine { started, method, who }) = line {
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let route = target.path().unwrap_or("none");
        id.within(|| tracing::debug!(%method, route, status, took_ms, who, "request"));
    }
    response
}

/// The response, or an error if the route panicked.
async fn survived(route: impl Future<Output = Response>) -> Response {
    AssertUnwindSafe(route).catch_unwind().await.unwrap_or_else(|panic| {
        ApiError::internal(format!("a route panicked: {}", words(panic.as_ref()))).into_response()
    })
}

/// Checks the request before its body is read.
async fn admit(app: &Arc<App>, request: &mut Request<Body>, target: &Target) -> Result<(), ApiError> {
    // The node that forwarded the request has checked the host.
    if request.extensions().get::<ForwardedFor>().is_none() {
        check_host(&app.hosts, request.headers())?;
    }
    check_page(request, || is_secure(request, app.secure))?;
    let shown = Shown::of(request.headers());
    let (credential, who) = (shown.credential(), identify(app, &shown).await);
    // The identity is logged even if access is refused, and open pages show more to a known identity.
    if let Some(mut who) = who {
        // The identity takes the place of the address: the table of extensions need not grow.
        who.from = request.extensions_mut().remove::<Peer>().map(|peer| peer.0);
        if who.role == Role::Admin {
            who.worker = params::named_worker(request.headers())?;
            app.tokens.note_named(&who)?;
        }
        request.extensions_mut().insert(who);
    }
    let (access, route) = (target.access(), target.path());
    if access == Some(Access::Open) {
        return Ok(());
    }
    let who = believe(app, request, credential)?;
    match (access, route) {
        (Some(access), _) if access.allows(who) => Ok(()),
        (Some(Access::Whole(roles)), _) if roles.contains(&who.role) => {
            let detail =
                format!("token {} is limited to some queues; this request covers all queues", who.name);
            Err(ApiError::new(Code::Forbidden, detail))
        }
        (Some(_), _) => {
            let detail = format!(
                "token {} has the role {}, which does not permit this request",
                who.name,
                who.role.as_str()
            );
            Err(ApiError::new(Code::Forbidden, detail))
        }
        (None, Some(route)) => {
            let allowed = methods(route).join(", ");
            let trouble = ApiError::new(Code::MethodNotAllowed, format!("this route supports {allowed}"));
            Err(trouble.with_header(header::ALLOW, &allowed))
        }
        (None, None) => Err(ApiError::new(Code::NotFound, "there is no such route")),
    }
}

/// Checks that the request is meant for this server.
pub(crate) fn check_host(hosts: &Hosts, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = header_text(headers, header::HOST).unwrap_or_default();
    if hosts.knows(host) {
        return Ok(());
    }
    Err(ApiError::new(Code::Misdirected, format!("this server does not serve the host {host:?}")))
}

/// Checks the origin of a request that changes something or opens a session.
pub(crate) fn check_page<B>(request: &Request<B>, secure: impl FnOnce() -> bool) -> Result<(), ApiError> {
    let reads = is_read(request) && !request.headers().contains_key(header::UPGRADE);
    if reads { Ok(()) } else { check_origin(request.headers(), secure()) }
}

/// Whether the client used TLS: with this node (`tls`), with the node that forwarded the request, or with a proxy in
/// front of them that says so. A client can add the header of a proxy itself, but a page of another origin cannot make
/// a browser add it, and it decides only which `Origin` is the own one and whether a cookie is `Secure`.
pub(crate) fn is_secure<B>(request: &Request<B>, tls: bool) -> bool {
    if let Some(forwarded) = request.extensions().get::<ForwardedFor>() {
        return forwarded.secure;
    }
    // With several proxies the first value is that of the client.
    let proto = || header_text(request.headers(), FORWARDED_PROTO)?.split(',').next();
    tls || proto().is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https"))
}

/// The credential of a request.
enum Shown<'a> {
    Token(&'a str),
    Cookie(&'a str),
    Nothing,
}

/// The kind of the credential of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Credential {
    Token,
    Cookie,
    Nothing,
}

impl Shown<'_> {
    fn of(headers: &HeaderMap) -> Shown<'_> {
        if let Some(value) = headers.get(header::AUTHORIZATION) {
            return Shown::Token(value.to_str().ok().and_then(bearer).unwrap_or_default());
        }
        session(headers).map_or(Shown::Nothing, Shown::Cookie)
    }

    fn credential(&self) -> Credential {
        match self {
            Shown::Token(_) => Credential::Token,
            Shown::Cookie(_) => Credential::Cookie,
            Shown::Nothing => Credential::Nothing,
        }
    }
}

/// The identity behind a token or a browser cookie.
async fn identify(app: &App, shown: &Shown<'_>) -> Option<Identity> {
    match shown {
        Shown::Token(token) => match app.tokens.who(token) {
            Some(who) => Some(who),
            None => Box::pin(app.tokens.who_of_job(&app.engine, token)).await,
        },
        Shown::Cookie(cookie) => app.tokens.who_of_cookie(cookie),
        Shown::Nothing => None,
    }
}

/// Checks the identity for this request. A browser sends its cookie with every request, so a change authorized by a
/// cookie requires an `Origin` header.
fn believe<'a>(
    app: &Arc<App>,
    request: &'a Request<Body>,
    credential: Credential,
) -> Result<&'a Identity, ApiError> {
    let cookie = credential == Credential::Cookie;
    match request.extensions().get::<Identity>() {
        Some(_) if cookie && !is_read(request) && !request.headers().contains_key(header::ORIGIN) => {
            Err(ApiError::new(Code::Forbidden, "missing Origin header (required for browser requests)"))
        }
        Some(who) => Ok(who),
        // A request without a credential is not counted as a guess.
        None if credential == Credential::Nothing => Err(challenge()),
        None => Err(wrong(app, request)),
    }
}

/// The address that a request came from.
pub(crate) fn source<B>(request: &Request<B>) -> Option<IpAddr> {
    let extensions = request.extensions();
    match extensions.get::<Identity>() {
        Some(who) => who.from,
        None => extensions.get::<Peer>().map(|peer| peer.0),
    }
}

/// Counts an invalid token, and writes an audit entry for the first one per minute.
pub(crate) fn wrong(app: &Arc<App>, request: &Request<Body>) -> ApiError {
    let from = source(request).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let counted = app.failures.count(from);
    if counted.first {
        let (app, entry) = (app.clone(), audit::entry(&from.to_string(), "wrong_token", "", String::new()));
        tokio::spawn(async move { app.write_down(entry).await });
    }
    match counted.wait_s {
        None => challenge(),
        Some(wait_s) => ApiError::new(Code::TooManyRequests, "too many invalid tokens from this address")
            .with_header(header::RETRY_AFTER, &wait_s.to_string()),
    }
}

/// The name of the cookie. It has the port that the browser uses, because a browser sends a cookie to every port of a
/// host: two halls on one host do not replace each other's cookie.
pub(crate) fn cookie_name(headers: &HeaderMap) -> String {
    match header_text(headers, header::HOST).and_then(port_of) {
        Some(port) => format!("{SESSION_COOKIE}_{port}"),
        None => SESSION_COOKIE.to_owned(),
    }
}

/// The cookie of a browser session in the request.
fn session(headers: &HeaderMap) -> Option<&str> {
    if !headers.contains_key(header::COOKIE) {
        return None;
    }
    let wanted = cookie_name(headers);
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

fn is_read<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Refuses cross-origin requests: another origin may not change anything or open a session.
fn check_origin(headers: &HeaderMap, secure: bool) -> Result<(), ApiError> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let scheme = if secure { "https" } else { "http" };
    let own = format!("{scheme}://{}", header_text(headers, header::HOST).unwrap_or_default());
    if origin.as_bytes().eq_ignore_ascii_case(own.as_bytes()) {
        return Ok(());
    }
    let detail = format!(
        "cross-origin requests are refused: the Origin header is not {own}; a TLS proxy in front of this server must \
         set X-Forwarded-Proto: https"
    );
    Err(ApiError::new(Code::Forbidden, detail))
}

fn challenge() -> ApiError {
    let trouble =
        ApiError::new(Code::Unauthorized, "missing or invalid token; send Authorization: Bearer jh_…");
    trouble.with_header(header::WWW_AUTHENTICATE, "Bearer realm=\"jobhall\"")
}

/// The bearer token of a request.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    header_text(headers, header::AUTHORIZATION).and_then(bearer)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_at_checked("bearer".len())?;
    let token = token.strip_prefix(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

pub(crate) fn finish(mut response: Response, id: RequestId) -> Response {
    let trouble = response.extensions_mut().remove::<ApiError>();
    let problem = || {
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json")
    };
    if let Some(trouble) = trouble.or_else(|| foreign(&response).filter(|_| !problem())) {
        if let Some(inside) = trouble.inside() {
            tracing::error!("{inside}");
        }
        response = trouble.render(id.as_str());
    }
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.header());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_address_with_and_without_an_identity() {
        let from = IpAddr::from([10, 0, 0, 5]);
        let mut request = Request::new(());
        assert_eq!(source(&request), None);
        request.extensions_mut().insert(Peer(from));
        assert_eq!(source(&request), Some(from));
        let who = Identity { from: Some(from), ..Identity::new("1", "ci", Role::Client) };
        request.extensions_mut().remove::<Peer>();
        request.extensions_mut().insert(who);
        assert_eq!(source(&request), Some(from));
    }

    #[test]
    fn a_bearer_token_follows_the_scheme() {
        for good in ["Bearer jh_x", "bearer jh_x", "BEARER  jh_x "] {
            assert_eq!(bearer(good), Some("jh_x"), "{good:?}");
        }
        for bad in ["", "Bearer", "Bearerjh_x", "Basic jh_x", "Bearers jh_x", "jh_x", "Beareré jh_x"] {
            assert_eq!(bearer(bad), None, "{bad:?}");
        }
    }

    #[tokio::test]
    async fn a_panic_in_a_route_is_a_problem_that_does_not_tell_what_it_was() {
        let headers = HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_static("r1"))]);
        let response =
            finish(survived(async { panic!("the secret is {}", 7) }).await, RequestId::of(&headers));
        assert_eq!(response.status().as_u16(), 500);
        let bytes = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let problem: jobhall_protocol::Problem = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((problem.code, problem.request_id.as_str()), (Code::Internal, "r1"));
        assert!(!problem.detail.contains("secret"), "{problem}");
    }
}
