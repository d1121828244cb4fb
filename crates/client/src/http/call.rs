//! One call: request, reply, and error handling.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jobhall_protocol::{API, Code, WORKER_HEADER};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ClientError, excerpt};
use crate::http::backoff::Backoff;
use crate::http::places::{Place, Places};
use crate::http::trust::{Trust, no_tls, tls_config};

pub(crate) const CONNECT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Time limit of an ordinary call.
const ANSWER: Duration = Duration::from_secs(30);
/// Maximum size of a response that is read into memory.
const ANSWER_BYTES: usize = 64 << 20;

/// A client of a Jobhall server, for clients and workers. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    pub(crate) places: Places,
    token: Option<Secret>,
    /// The worker that it acts for.
    worker: Option<String>,
    trust: Trust,
    tls: Arc<ClientConfig>,
}

impl Client {
    /// The header with the token.
    pub(crate) fn authorization(&self) -> Option<String> {
        self.token.as_ref().map(|Secret(token)| format!("Bearer {token}"))
    }
}

/// A token that is never printed.
#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// A failed call, and whether it certainly did not reach the server.
struct Tried {
    error: ClientError,
    unsent: bool,
}

/// The base of routes until the address of the server is known.
static ROUTE: LazyLock<Url> = LazyLock::new(|| Url::parse("http://hall").expect("a URL"));

/// A request that can be repeated.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The route, without the address of the server.
    pub(crate) url: Url,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<(Bytes, &'static str)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) repeatable: bool,
}

impl Call {
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Call {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn query(mut self, pairs: &[(&str, String)]) -> Call {
        if !pairs.is_empty() {
            self.url.query_pairs_mut().extend_pairs(pairs);
        }
        self
    }

    pub(crate) fn json(self, body: &impl Serialize) -> Result<Call, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| ClientError::Protocol(error.to_string()))?;
        Ok(self.bytes(Bytes::from(body), "application/json"))
    }

    pub(crate) fn bytes(mut self, body: Bytes, kind: &'static str) -> Call {
        self.body = Some((body, kind));
        self
    }

    /// Marks the call as idempotent.
    pub(crate) fn repeatable(mut self) -> Call {
        self.repeatable = true;
        self
    }

    /// Adds an idempotency key, if there is one: the server executes the call once, however often it is sent.
    pub(crate) fn keyed(self, key: Option<&str>) -> Call {
        match key {
            Some(key) => self.header("idempotency-key", key).repeatable(),
            None => self,
        }
    }

    pub(crate) fn within(mut self, timeout: Option<Duration>) -> Call {
        self.timeout = timeout;
        self
    }
}

impl Client {
    /// A client of the server at `base_url`, such as `http://127.0.0.1:7450`, with this machine's trusted certificates.
    /// If a hall has several nodes, all of them may be named, separated by commas.
    ///
    /// # Errors
    /// The address is not a supported URL, or the token has characters that are not valid in a header.
    pub fn new(base_url: &str, token: Option<&str>) -> Result<Client, ClientError> {
        Client::trusting(base_url, token, Trust::System)
    }

    /// A client that trusts these certificates, if the address begins with `https`.
    ///
    /// # Errors
    /// As [`Client::new`]; or the certificates cannot be used.
    pub fn trusting(base_url: &str, token: Option<&str>, trust: Trust) -> Result<Client, ClientError> {
        let wrong = |why: String| ClientError::Unreachable { url: base_url.to_owned(), why };
        let places = Places::parse(base_url)?;
        let printable = |token: &str| token.bytes().all(|byte| byte.is_ascii_graphic());
        if !token.is_none_or(printable) {
            return Err(ClientError::Protocol(
                "the token has characters that no header can carry".to_owned(),
            ));
        }
        let http =
            reqwest::Client::builder().connect_timeout(CONNECT).tcp_keepalive(KEEPALIVE).tcp_nodelay(true);
        let tls = if places.any_tls() { tls_config(&trust)? } else { no_tls()? };
        // A Jobhall server never redirects; another server might do so to obtain the token.
        let http = http.tls_backend_preconfigured(ClientConfig::clone(&tls)).redirect(Policy::none());
        // A server on this machine is not behind a proxy, and a remote server is given by its own address.
        let http = http.no_proxy().build().map_err(|error| wrong(error.to_string()))?;
        let token = token.map(|token| Secret(token.to_owned()));
        Ok(Client { http, places, token, worker: None, trust, tls })
    }

    /// The same client for the worker of this name. Only an administrator's token can name its worker.
    #[must_use]
    pub fn as_worker(self, name: &str) -> Client {
        Client { worker: Some(name.to_owned()), ..self }
    }

    /// The worker that it acts for, if one was named.
    pub(crate) fn worker(&self) -> Option<&str> {
        self.worker.as_deref()
    }

    /// The address of the server, or several addresses separated by commas.
    #[must_use]
    pub fn base_url(&self) -> &str {
        self.places.named()
    }

    /// Makes the next call go to the next node, if several are named, because this one failed.
    pub fn go_on(&self) {
        self.places.leave(&self.places.now());
    }

    /// The trusted certificates.
    #[must_use]
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The TLS configuration, for connections of another kind to the same server.
    #[must_use]
    pub fn tls(&self) -> Arc<ClientConfig> {
        self.tls.clone()
    }

    /// A call to a route below the API's prefix; segments are escaped.
    pub(crate) fn api(&self, method: Method, segments: &[&str]) -> Call {
        let prefix: Vec<&str> = API.split('/').filter(|part| !part.is_empty()).collect();
        self.top(method, &[prefix.as_slice(), segments].concat())
    }

    /// A call to a route at the top.
    pub(crate) fn top(&self, method: Method, segments: &[&str]) -> Call {
        let mut url = ROUTE.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        let repeatable = method == Method::GET;
        Call { method, url, headers: Vec::new(), body: None, timeout: Some(ANSWER), repeatable }
    }

    /// Makes the call. If no node accepted it and a repetition is safe, it is retried at another node or after a
    /// pause. The response has a success status.
    pub(crate) async fn send(&self, call: &Call) -> Result<Response, ClientError> {
        let mut patience = if call.repeatable { Backoff::of_a_call() } else { Backoff::none() };
        // While the leadership changes, a request that was not executed can be repeated.
        let mut between = Backoff::of_a_stream();
        let mut others = self.places.count() - 1;
        loop {
            let Tried { error, unsent } = match self.try_once(call).await {
                Ok(response) => return Ok(response),
                Err(tried) => tried,
            };
            if !error.is_transient() {
                return Err(error);
            }
            let harmless = unsent || call.repeatable;
            if harmless && others > 0 {
                others -= 1;
                continue;
            }
            let of_nodes = matches!(error.code(), Some(Code::NoLeader | Code::OutcomeUnknown));
            let pause = if harmless && of_nodes { between.pause() } else { patience.pause() };
            let Some(pause) = pause else { return Err(error) };
            tokio::time::sleep(pause).await;
            others = self.places.count() - 1;
        }
    }

    /// Makes the call at the node in use. If it fails there, the next call goes to another.
    pub(crate) async fn send_once(&self, call: &Call) -> Result<Response, ClientError> {
        self.try_once(call).await.map_err(|tried| tried.error)
    }

    async fn try_once(&self, call: &Call) -> Result<Response, Tried> {
        let place = self.places.now();
        let tried = self.answer(place, self.request(place, call)).await;
        if tried.as_ref().is_err_and(|tried| tried.error.is_transient()) {
            self.places.leave(&place);
        }
        tried
    }

    /// The status of the answer to a call that has no body.
    pub(crate) async fn status(&self, call: &Call) -> Result<StatusCode, ClientError> {
        let place = self.places.now();
        let response = self.request(place, call).send().await;
        let response = response.map_err(|error| ClientError::transport(place.name(), &error))?;
        Ok(response.status())
    }

    /// Makes a call with a streamed body, which can be sent only once.
    pub(crate) async fn send_body(&self, call: &Call, body: reqwest::Body) -> Result<Response, ClientError> {
        let place = self.places.now();
        self.answer(place, self.request(place, call).body(body)).await.map_err(|tried| tried.error)
    }

    async fn answer(&self, place: Place<'_>, request: RequestBuilder) -> Result<Response, Tried> {
        let response = request.send().await.map_err(|error| Tried {
            unsent: error.is_connect(),
            error: ClientError::transport(place.name(), &error),
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.body(response).await.map_err(|error| Tried { error, unsent: false })?;
        let error = ClientError::from_answer(status.as_u16(), &body);
        Err(Tried { unsent: error.code() == Some(Code::NoLeader), error })
    }

    fn request(&self, place: Place<'_>, call: &Call) -> RequestBuilder {
        let mut request = self.http.request(call.method.clone(), place.of(&call.url));
        if let Some(Secret(token)) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(worker) = &self.worker {
            request = request.header(WORKER_HEADER, worker);
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some((body, kind)) = &call.body {
            request = request.header("content-type", *kind).body(body.clone());
        }
        match call.timeout {
            Some(timeout) => request.timeout(timeout),
            None => request,
        }
    }

    /// The whole body, up to a size limit.
    pub(crate) async fn body(&self, mut response: Response) -> Result<Bytes, ClientError> {
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk(&mut response).await? {
            if body.len() + chunk.len() > ANSWER_BYTES {
                return Err(ClientError::Protocol(format!("the answer is longer than {ANSWER_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    pub(crate) async fn chunk(&self, response: &mut Response) -> Result<Option<Bytes>, ClientError> {
        let chunk = response.chunk().await;
        chunk.map_err(|error| ClientError::transport(self.places.now().name(), &error))
    }

    /// Makes the call and parses the response as JSON. If a repetition is safe, a failed read repeats the call.
    pub(crate) async fn read<T: DeserializeOwned>(&self, call: &Call) -> Result<T, ClientError> {
        let response = self.send(call).await?;
        parse(&self.body(response).await?)
    }
}

pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|error| ClientError::Protocol(format!("{error}{}", excerpt(body))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_escaped_and_keep_a_path_before_them() {
        let client = Client::new("http://hall:1/below/", None).unwrap();
        let call = client.api(Method::GET, &["types", "a/b c"]).query(&[("q", "x&y".to_owned())]);
        let url = client.places.now().of(&call.url);
        assert_eq!(url.as_str(), "http://hall:1/below/api/v1/types/a%2Fb%20c?q=x%26y");
        assert_eq!(client.base_url(), "http://hall:1/below");
    }

    #[test]
    fn addresses_and_tokens_that_cannot_work_are_refused_at_once() {
        for bad in ["", "hall", "ftp://hall", "http://"] {
            assert!(matches!(Client::new(bad, None), Err(ClientError::Unreachable { .. })), "{bad:?}");
        }
        assert!(Client::new("http://hall", Some("two\nlines")).is_err());
    }

    #[test]
    fn a_token_is_never_shown() {
        let client = Client::new("http://hall", Some("secret-word")).unwrap();
        assert!(!format!("{client:?}").contains("secret-word"));
    }
}
