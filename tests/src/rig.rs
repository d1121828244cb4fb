//! Servers and workers in separate processes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use jobhall_client::Client;

use crate::binary::jobhall;
use crate::processes::{kill, marked, signal};
use crate::{Raw, Signal};

/// Time limit for any condition.
const PATIENCE: Duration = Duration::from_secs(60);
/// Ports below those that the system uses for outgoing connections: a client of a server that is down must not get
/// the server's own port.
const PORTS: std::ops::Range<u16> = 15_000..31_000;
/// The variable by which processes of a rig are found.
const MARK: &str = "JOBHALL_RIG";

/// Waits for a condition, with a generous deadline.
///
/// # Panics
/// The condition does not hold in time.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes as text, lossy.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A process, killed on drop.
pub struct Process {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without warning and waits until it has ended.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            kill(self.pid());
            self.wait();
        }
    }

    pub fn signal(&self, which: Signal) {
        if self.ended.is_none() {
            signal(self.pid(), which);
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// The process does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the end of a process", || self.ended().is_some());
        self.ended.unwrap()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A data directory and a port, and the processes started on them.
pub struct Rig {
    hall: Option<Process>,
    address: SocketAddr,
    mark: String,
    folder: tempfile::TempDir,
}

impl Rig {
    /// A rig without a server.
    pub fn new() -> Rig {
        let port = free_port();
        Rig {
            hall: None,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            mark: format!("{MARK}={}-{port}", std::process::id()),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A rig with a ready `jobhall server` and these additional arguments.
    pub fn server(words: &[&str]) -> Rig {
        let mut rig = Rig::new();
        rig.start(&[&["server"], words].concat());
        rig
    }

    /// A rig with a ready `jobhall up` and these additional arguments.
    pub fn up(words: &[&str]) -> Rig {
        let mut rig = Rig::new();
        rig.start(&[&["up"], words].concat());
        rig
    }

    /// Starts the server on the rig's data and port, and waits until it is ready.
    ///
    /// # Panics
    /// The server ended, or did not become ready; the message has its output.
    pub fn start(&mut self, words: &[&str]) {
        let mut command = jobhall();
        command.args(words).arg("--data").arg(self.data()).args(["--listen", &self.address.to_string()]);
        self.start_command(command);
    }

    /// Starts the server with this command, which names the rig's data and port, and waits until it is ready.
    ///
    /// # Panics
    /// As [`Rig::start`].
    pub fn start_command(&mut self, command: Command) {
        let mut process = self.spawn(command, "hall");
        self.wait_ready(&mut process);
        self.hall = Some(process);
    }

    /// Waits until the hall of this process is ready.
    fn wait_ready(&self, process: &mut Process) {
        let end = Instant::now() + PATIENCE;
        while !self.is_ready() {
            let ended = process.ended();
            assert!(ended.is_none(), "the hall ended: {ended:?}\n{}", self.said("hall"));
            assert!(Instant::now() < end, "the hall is not ready\n{}", self.said("hall"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts any command; its output is kept under this name.
    pub fn spawn(&self, mut command: Command, name: &str) -> Process {
        let (variable, value) = self.mark.split_once('=').unwrap();
        let child = command
            .env(variable, value)
            .stdin(Stdio::null())
            .stdout(self.file(name))
            .stderr(self.file(name))
            .spawn()
            .unwrap();
        Process { child, ended: None }
    }

    /// Starts `jobhall worker` with this token and these additional arguments.
    pub fn worker(&self, name: &str, token: &str, words: &[&str]) -> Process {
        let mut command = jobhall();
        command.args(["worker", "--name", name, "--server", &self.url()]).args(words);
        command.env("JOBHALL_TOKEN", token);
        self.spawn(command, name)
    }

    fn file(&self, name: &str) -> File {
        let path = self.folder.path().join(format!("{name}.said"));
        OpenOptions::new().append(true).create(true).open(path).unwrap()
    }

    /// The last output of the process with this name.
    pub fn said(&self, name: &str) -> String {
        let path = self.folder.path().join(format!("{name}.said"));
        let all = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<_> = all.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(self.address) else { return false };
        let asked = stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.starts_with("HTTP/1.1 200")
    }

    /// The server process.
    ///
    /// # Panics
    /// There is none.
    pub fn hall(&mut self) -> &mut Process {
        self.hall.as_mut().expect("a hall was started")
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A directory for the files of a test, removed with the rig.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The text in the environment of every process that the rig started.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Copies the key file of another node of the same hall, which this node needs before it starts.
    ///
    /// # Panics
    /// The other node has no key file.
    pub fn share_key(&self, other: &Rig) {
        std::fs::create_dir_all(self.data()).unwrap();
        std::fs::copy(other.data().join("hall.key"), self.data().join("hall.key")).unwrap();
    }

    pub fn token(&self) -> String {
        std::fs::read_to_string(self.data().join("admin.token")).unwrap().trim().to_owned()
    }

    /// A client with the administrator's token.
    pub fn client(&self) -> Client {
        Client::new(&self.url(), Some(&self.token())).unwrap()
    }

    /// A connection to the server.
    pub fn raw(&self) -> Raw {
        Raw::open(self.address)
    }

    /// Runs a command against this server and waits for its end.
    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = jobhall();
        command.args(words).env("JOBHALL_SERVER", self.url()).env("JOBHALL_DATA", self.data());
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// The JSON output of a command.
    ///
    /// # Panics
    /// The command fails, or prints something else.
    pub fn json(&self, words: &[&str]) -> serde_json::Value {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Default for Rig {
    fn default() -> Rig {
        Rig::new()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("last output of the server:\n{}", self.said("hall"));
        }
        self.hall = None;
        // Processes left by a killed process, such as the worker of `up`.
        eventually("the end of the rig's processes", || {
            let left = marked(&self.mark);
            left.iter().for_each(|pid| kill(*pid));
            left.is_empty()
        });
    }
}

/// A port without a listener.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let begin = u16::try_from(std::process::id() % u32::from(span)).unwrap();
    let at = |n: u16| PORTS.start + (begin.wrapping_mul(7).wrapping_add(n)) % span;
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    std::iter::repeat_with(|| at(NEXT.fetch_add(1, Ordering::Relaxed))).take(1_000).find(free).unwrap()
}
