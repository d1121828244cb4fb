//! A worker, and a server that sends only what a test makes it send.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use jobhall_client::Client;
use jobhall_core::{AttemptId, LeaseId};
use jobhall_protocol::{
    Allow, AssignedJob, Code, EXEC, Encoding, FrameWriter, Hello, ToServer, ToWorker, Welcome, Word,
    WorkerFile, read_frame,
};
use jobhall_worker::{Options, Shutdown, Slots, Until, WorkerError, WorkerOptions};
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

const DEADLINE: Duration = Duration::from_secs(60);
/// Commands are stopped after half of this time.
const LEASE_MS: u64 = 3_000;
const PROTOCOL: &str = "sec-websocket-protocol";

/// Waits for a condition, with a generous deadline.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub struct Rig {
    listener: TcpListener,
    folder: tempfile::TempDir,
    shutdown: watch::Sender<Shutdown>,
    worker: JoinHandle<Result<(), WorkerError>>,
}

impl Rig {
    /// A worker with two slots that connects to its server.
    pub async fn start() -> Rig {
        Rig::until(Until::default()).await
    }

    /// The same worker, which ends by itself.
    pub async fn until(until: Until) -> Rig {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
        let program = env!("CARGO_BIN_EXE_jobhall-slot-program").into();
        let slots = Slots::new(Options { most: 2, program, ..Options::default() });
        let file = WorkerFile { slots: Some(2), allow: [Allow::Exec].into(), ..WorkerFile::default() };
        let (shutdown, orders) = watch::channel(Shutdown::None);
        let connected = Box::new(|_: &str| {});
        let options = WorkerOptions { client, file, reread: None, slots, shutdown: orders, until, connected };
        let worker = tokio::spawn(jobhall_worker::run(options));
        Rig { listener, folder: tempfile::tempdir().unwrap(), shutdown, worker }
    }

    /// The next connection of the worker, and the attempts that its hello names.
    pub async fn accept(&self) -> (Connection, Vec<AttemptId>) {
        let (connection, hello) = self.accept_hello().await;
        (connection, hello.attempts.iter().map(|held| held.attempt).collect())
    }

    /// The next connection of the worker, and its hello.
    pub async fn accept_hello(&self) -> (Connection, Hello) {
        let accepted = tokio::time::timeout(DEADLINE, self.listener.accept()).await;
        let (stream, _) = accepted.expect("a connection in time").unwrap();
        let mut connection = Connection(accept_hdr_async(stream, same_protocol).await.unwrap(), Vec::new());
        let Some(ToServer::Hello(hello)) = connection.next().await else {
            panic!("the first message is a hello")
        };
        (connection, hello)
    }

    /// A script that runs until it is killed.
    pub fn script(&self) -> String {
        format!("echo $$ > {}; exec sleep 600", self.pid_file().display())
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.path().join("pid")
    }

    /// Whether the process of that script exists.
    pub fn is_running(&self) -> bool {
        let text = std::fs::read_to_string(self.pid_file()).unwrap_or_default();
        let pid = text.strip_suffix('\n').map(|pid| rustix::process::Pid::from_raw(pid.parse().unwrap()));
        pid.flatten().is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
    }

    /// The worker finds the time past the moment when commands must be stopped, as on a machine that slept. It runs on
    /// the thread of the test, so that nothing of it happens meanwhile.
    pub async fn stand_still(&self) {
        self.pass(Duration::from_millis(LEASE_MS / 2 + LEASE_MS / 6)).await;
    }

    /// Lets time pass at once.
    pub async fn pass(&self, time: Duration) {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    }

    /// Refuses the next hello, because another process has the name. Returns when the worker has read that.
    pub async fn name_is_taken(&self) {
        let mut connection = self.accept().await.0;
        let (code, detail) = (Code::Conflict, "taken".to_owned());
        connection.send(ToWorker::Refused { to: Word::Hello, attempt: None, code, detail }).await;
        assert!(connection.next().await.is_none(), "it closes the connection");
    }

    pub async fn stop(self) {
        self.ended_by(Shutdown::Now).await;
    }

    /// Drains the worker while it has no server.
    pub async fn drain(self) {
        self.ended_by(Shutdown::Drain).await;
    }

    async fn ended_by(self, shutdown: Shutdown) {
        drop(self.listener);
        self.shutdown.send_replace(shutdown);
        tokio::time::timeout(DEADLINE, self.worker).await.expect("its end in time").unwrap().unwrap();
    }

    /// Refuses the next connection of the worker with this status.
    pub async fn refuse(&self, status: u16) {
        let accepted = tokio::time::timeout(DEADLINE, self.listener.accept()).await;
        let (stream, _) = accepted.expect("a connection in time").unwrap();
        #[expect(clippy::result_large_err, reason = "the signature is that of the library")]
        let refusal = move |_: &Request, _: Response| {
            let mut response = ErrorResponse::new(Some("no".to_owned()));
            *response.status_mut() = status.try_into().unwrap();
            Err(response)
        };
        accept_hdr_async(stream, refusal).await.unwrap_err();
    }

    /// Waits until the worker has ended by itself.
    pub async fn ended(self) -> Result<(), WorkerError> {
        tokio::time::timeout(DEADLINE, self.worker).await.expect("its end in time").unwrap()
    }
}

#[expect(clippy::result_large_err, reason = "the signature is that of the library")]
fn same_protocol(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    let asked = request.headers()[PROTOCOL].clone();
    response.headers_mut().insert(PROTOCOL, asked);
    Ok(response)
}

/// One connection, and its unread messages.
pub struct Connection(WebSocketStream<TcpStream>, Vec<ToServer>);

impl Connection {
    /// The next message; none at the end of the session.
    pub async fn next(&mut self) -> Option<ToServer> {
        while self.1.is_empty() {
            let message = tokio::time::timeout(DEADLINE, self.0.next()).await.expect("a message in time");
            match message? {
                Ok(Message::Binary(bytes)) => {
                    self.1 = read_frame(Encoding::MessagePack, &bytes).unwrap();
                    self.1.reverse();
                }
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
        self.1.pop()
    }

    pub async fn send(&mut self, message: ToWorker) {
        let mut frame = FrameWriter::new(Encoding::MessagePack);
        frame.push(&message).unwrap();
        self.0.send(Message::Binary(frame.take().unwrap().into())).await.unwrap();
    }

    /// Answers the hello: these attempts are kept.
    pub async fn welcome(&mut self, kept: &[AttemptId]) {
        let welcome = Welcome {
            version: 1,
            features: Vec::new(),
            worker: String::new(),
            lease_ms: LEASE_MS,
            kept: kept.to_vec(),
            lost: Vec::new(),
        };
        self.send(ToWorker::Welcome(welcome)).await;
    }

    pub async fn assign(&mut self, attempt: AttemptId, script: &str) {
        self.assign_job(attempt, script, false).await;
    }

    pub async fn assign_at_most_once(&mut self, attempt: AttemptId, script: &str) {
        self.assign_job(attempt, script, true).await;
    }

    async fn assign_job(&mut self, attempt: AttemptId, script: &str, at_most_once: bool) {
        let job = AssignedJob {
            id: attempt.job.get(),
            job_type: EXEC.to_owned(),
            key: None,
            queue: "default".to_owned(),
            params: to_raw_value(&json!({ "script": script })).unwrap(),
            attempt: 1,
            external: false,
            at_most_once,
            inputs: 0,
        };
        self.send(ToWorker::Assign { attempt, lease: LeaseId(7), token: String::new(), job }).await;
    }
}
