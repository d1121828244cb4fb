//! A server on a free port with a store in a temporary directory, and a minimal client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobhall_blobs::Blobs;
use jobhall_engine::{Config, Engine, SystemClock};
use jobhall_server::{
    CacheBounds, ConnectionLimits, HallKeys, InternalJobs, Listen, Nodes, Options, References, Role, Running,
    Server, Tokens,
};
use jobhall_store::Store;
use jobhall_store_sqlite::Sqlite;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A short interval, so that every test runs concurrently with collections.
const COLLECT_MS: u64 = 50;

pub struct TestServer {
    pub address: String,
    pub tokens: Arc<Tokens>,
    pub admin: String,
    pub client: String,
    pub viewer: String,
    pub worker: String,
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub running: Option<Running>,
    pub dir: TempDir,
}

/// The keys of the hall in this directory.
pub fn keys(dir: &TempDir) -> Arc<HallKeys> {
    Arc::new(HallKeys::open(&dir.path().join("hall.key")).unwrap())
}

pub fn quick() -> Config {
    Config { lease_ms: 6_000, accept_ms: 3_000, ..Config::default() }
}

impl TestServer {
    pub async fn start() -> TestServer {
        TestServer::with(Config::default()).await
    }

    pub async fn with(config: Config) -> TestServer {
        TestServer::on(tempfile::tempdir().unwrap(), config).await
    }

    pub async fn on(dir: TempDir, config: Config) -> TestServer {
        TestServer::on_store(dir, config, jobhall_store_sqlite::Options::default()).await
    }

    pub async fn on_store(
        dir: TempDir,
        config: Config,
        options: jobhall_store_sqlite::Options,
    ) -> TestServer {
        TestServer::limited(dir, config, options, ConnectionLimits::default()).await
    }

    pub async fn limited(
        dir: TempDir,
        config: Config,
        options: jobhall_store_sqlite::Options,
        limits: ConnectionLimits,
    ) -> TestServer {
        let store: Arc<dyn Store> = Arc::new(open_store(&dir, options).await);
        let engine = Engine::start(store.clone(), config, SystemClock::default()).await.unwrap();
        let tokens = Arc::new(Tokens::open(dir.path(), keys(&dir), store.clone()).await.unwrap());
        let admin = std::fs::read_to_string(dir.path().join("admin.token")).unwrap().trim().to_owned();
        let blobs = open_blobs(&dir).await;
        let options = Options {
            engine: engine.clone(),
            store: store.clone(),
            blobs: Arc::new(blobs),
            tokens: tokens.clone(),
            data: dir.path().to_owned(),
            lease_ms: config.lease_ms,
            log_bytes: 4 << 20,
            collect_ms: COLLECT_MS,
            references: References::default(),
            cache: CacheBounds::default(),
            internal_jobs: InternalJobs::default(),
            nodes: nodes(),
            secret: None,
        };
        let listen = Listen { hosts: vec!["hall.example".to_owned()], limits, ..Listen::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let running = Server::serve(listener, listen, options).unwrap();
        TestServer {
            address: running.address.to_string(),
            client: tokens.mint("c", Role::Client),
            viewer: tokens.mint("v", Role::Viewer),
            worker: tokens.mint("w", Role::Worker),
            tokens,
            admin,
            engine,
            store,
            running: Some(running),
            dir,
        }
    }

    /// The options for another server of this hall.
    pub fn options(&self, blobs: Blobs) -> Options {
        Options {
            engine: self.engine.clone(),
            store: self.store.clone(),
            blobs: Arc::new(blobs),
            tokens: self.tokens.clone(),
            data: self.dir.path().to_owned(),
            lease_ms: 30_000,
            log_bytes: 1 << 20,
            collect_ms: COLLECT_MS,
            references: References::default(),
            cache: CacheBounds::default(),
            internal_jobs: InternalJobs::default(),
            nodes: nodes(),
            secret: None,
        }
    }

    /// Stops server and engine and starts both again on the same directory.
    pub async fn restart(mut self, config: Config) -> TestServer {
        self.running.take().unwrap().stop().await;
        self.engine.stop().await;
        let TestServer { dir, engine, store, tokens, .. } = self;
        drop((engine, store, tokens));
        TestServer::on(dir, config).await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &self.viewer, &[], b"").await
    }

    pub async fn post(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &self.client, &[], body.as_bytes()).await
    }

    pub async fn work(&self, path: &str, body: &str) -> Reply {
        self.send("POST", path, &self.worker, &[], body.as_bytes()).await
    }

    /// Sends a message about an attempt.
    pub async fn word(&self, given: &Value, verb: &str, body: &[u8]) -> Reply {
        let path = format!("/api/v1/attempts/{}/{verb}", given["id"].as_str().unwrap());
        let lease = given["lease"].as_str().unwrap();
        self.send("POST", &path, &self.worker, &[("Jobhall-Lease", lease)], body).await
    }

    /// Submits one job of type `t`.
    pub async fn submit(&self, body: &str) -> u64 {
        let reply = self.post("/api/v1/jobs", body).await;
        assert!([200, 201].contains(&reply.status), "{reply:?}");
        reply.json()["id"].as_u64().unwrap()
    }

    /// Returns the assignment of a long poll, which must not be empty.
    pub async fn take(&self) -> Value {
        let reply = self.work("/api/v1/vacancies", r#"{"slots":1,"wait_s":10}"#).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["attempts"][0].clone()
    }

    /// Creates a stored token; returns it with its secret.
    pub async fn token(&self, body: &str) -> Value {
        let reply = self.send("POST", "/api/v1/tokens", &self.admin, &[], body.as_bytes()).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()
    }

    /// Creates a stored token; returns the secret.
    pub async fn secret(&self, body: &str) -> String {
        self.token(body).await["secret"].as_str().unwrap().to_owned()
    }

    pub async fn state(&self, id: u64) -> String {
        self.get(&format!("/api/v1/jobs/{id}")).await.json()["state"].as_str().unwrap().to_owned()
    }

    /// Waits until the job is in this state.
    pub async fn until(&self, id: u64, state: &str) {
        wait_until(&format!("job {id} is {state}"), async || self.state(id).await == state).await;
    }

    /// The workers that are listed, each with the slots that it offers.
    pub async fn workers(&self) -> Vec<Value> {
        self.get("/api/v1/workers").await.json()["items"].as_array().unwrap().clone()
    }

    /// Waits until the vacancies of this worker offer so many slots.
    pub async fn until_offered(&self, worker: &str, slots: u64) {
        let offers = |item: &Value| item["name"] == worker && item["slots"] == slots;
        let what = format!("{worker} offers {slots} slots");
        wait_until(&what, async || self.workers().await.iter().any(offers)).await;
    }

    /// Waits until no worker is listed.
    pub async fn until_no_worker(&self) {
        wait_until("no worker is listed", async || self.workers().await.is_empty()).await;
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        token: &str,
        more: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let mut stream = self.open(method, path, token, more, body).await;
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut bytes));
        read.await.expect("an answer in time").unwrap();
        Reply::parse(&bytes)
    }

    /// Sends a request and leaves the response unread on the connection.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        token: &str,
        more: &[(&str, &str)],
        body: &[u8],
    ) -> TcpStream {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        self.request_on(stream, (method, path), token, more, body).await
    }

    /// Requests a page on a connection that buffers little of it.
    pub async fn open_narrow(&self, path: &str, token: &str) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let stream = socket.connect(self.address.parse().unwrap()).await.unwrap();
        self.request_on(stream, ("GET", path), token, &[], b"").await
    }

    async fn request_on(
        &self,
        mut stream: TcpStream,
        (method, path): (&str, &str),
        token: &str,
        more: &[(&str, &str)],
        body: &[u8],
    ) -> TcpStream {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !more.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.address);
        }
        if !token.is_empty() {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        if !more.iter().any(|(name, _)| *name == "Content-Length") {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        for (name, value) in more {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        stream
    }
}

/// A hall with one node whose last heartbeat was at time zero.
pub fn nodes() -> Nodes {
    let seen_at = jobhall_protocol::Timestamp(jobhall_core::Time::EPOCH);
    let (url, version) = ("http://127.0.0.1:7450".to_owned(), "0".to_owned());
    let node = jobhall_protocol::Node {
        name: "alone".to_owned(),
        url,
        role: jobhall_protocol::NodeRole::Leader,
        version,
        seen_at,
    };
    Nodes::new(move || {
        let node = node.clone();
        Box::pin(async move { Ok(vec![node]) })
    })
}

/// Waits until a condition holds, and panics if it does not hold within 30 seconds.
pub async fn wait_until(what: &str, holds: impl AsyncFn() -> bool) {
    wait_for(what, async || holds().await.then_some(())).await;
}

/// Waits until there is a value, and panics if there is none within 30 seconds.
pub async fn wait_for<T>(what: &str, value: impl AsyncFn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(value) = value().await {
            return value;
        }
        assert!(Instant::now() < end, "not within 30 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Opens the store once the previous server has closed its file.
async fn open_store(dir: &TempDir, options: jobhall_store_sqlite::Options) -> Sqlite {
    let path = dir.path().join("hall.db");
    wait_for("the store is free", async || Sqlite::open(&path, options.clone()).ok()).await
}

/// Opens the blobs once the previous server has closed them.
pub async fn open_blobs(dir: &TempDir) -> Blobs {
    let path = dir.path().join("blobs");
    wait_for("the blobs are free", async || Blobs::open(&path).ok()).await
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn parse(bytes: &[u8]) -> Reply {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let rest = &bytes[end + 4..];
        let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { unchunk(rest) } else { rest.to_vec() };
        Reply { status, head, body }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that the response is this problem; returns its detail.
    pub fn problem(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!((problem["code"].as_str(), problem["status"].as_u64()), (Some(code), Some(status.into())));
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"));
        problem["detail"].as_str().unwrap().to_owned()
    }
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(at) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        body.extend_from_slice(&bytes[at + 2..at + 2 + size]);
        bytes = &bytes[at + 4 + size..];
    }
    body
}

/// Reads from a connection until the text appears; returns everything read.
pub async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    // One limit for the whole read: a stream that only sends heartbeats must not be read forever.
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if text.contains(wanted) {
            return text;
        }
        let read = tokio::time::timeout_at(end, stream.read(&mut buffer)).await;
        let n = read.unwrap_or_else(|_| panic!("no {wanted:?} in {text:?}")).unwrap();
        assert!(n > 0, "ended before {wanted:?}: {text:?}");
        all.extend_from_slice(&buffer[..n]);
    }
}
