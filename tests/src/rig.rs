//! Halls and workers as processes of their own.

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

/// How long anything that must come may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Ports below those that the system gives to outgoing connections: a client that tries to reach a hall that is down
/// must not happen upon the hall's own port.
const PORTS: std::ops::Range<u16> = 15_000..31_000;
/// The variable by which processes of a rig are found.
const MARK: &str = "JOBHALL_RIG";

/// Waits for something that must come, with a deadline far beyond need.
///
/// # Panics
/// It did not come.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes as text, whatever they are.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A process that ends with this.
pub struct Process {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without warning and waits until it is gone.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            kill(self.pid());
            self.wait();
        }
    }

    /// Sends a signal.
    pub fn signal(&self, which: Signal) {
        if self.ended.is_none() {
            signal(self.pid(), which);
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not come.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the end of a process", || self.ended().is_some());
        self.ended.unwrap()
    }

    /// Its end, if it has come.
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

/// A data directory and a port, and whatever was started on them.
pub struct Rig {
    hall: Option<Process>,
    address: SocketAddr,
    mark: String,
    folder: tempfile::TempDir,
}

impl Rig {
    /// A rig without a hall.
    pub fn new() -> Rig {
        let port = free_port();
        Rig {
            hall: None,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            mark: format!("{MARK}={}-{port}", std::process::id()),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A rig with `jobhall server`, which is ready, and these further words.
    pub fn server(words: &[&str]) -> Rig {
        let mut rig = Rig::new();
        rig.start(&[&["server"], words].concat());
        rig
    }

    /// A rig with `jobhall up`, which is ready, and these further words.
    pub fn up(words: &[&str]) -> Rig {
        let mut rig = Rig::new();
        rig.start(&[&["up"], words].concat());
        rig
    }

    /// Starts the hall on the rig's data and port, and waits until it is ready.
    ///
    /// # Panics
    /// It ended, or did not become ready; its own words are told.
    pub fn start(&mut self, words: &[&str]) {
        let mut command = jobhall();
        command.args(words).arg("--data").arg(self.data()).args(["--listen", &self.address.to_string()]);
        let mut process = self.spawn(command, "hall");
        let end = Instant::now() + PATIENCE;
        while !self.is_ready() {
            let ended = process.ended();
            assert!(ended.is_none(), "the hall ended: {ended:?}\n{}", self.said("hall"));
            assert!(Instant::now() < end, "the hall is not ready\n{}", self.said("hall"));
            std::thread::sleep(Duration::from_millis(5));
        }
        self.hall = Some(process);
    }

    /// Starts any command; what it says is kept under this name.
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

    /// Starts `jobhall worker` with these further words, in the name of whoever has this token.
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

    /// What a process of this name has printed, the last of it.
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

    /// The hall's process.
    ///
    /// # Panics
    /// There is none.
    pub fn hall(&mut self) -> &mut Process {
        self.hall.as_mut().expect("a hall was started")
    }

    /// Where the hall is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A directory for whatever a test needs, gone with the rig.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The word in the environment of every process that the rig started.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The administrator's token.
    pub fn token(&self) -> String {
        std::fs::read_to_string(self.data().join("admin.token")).unwrap().trim().to_owned()
    }

    /// A client in the administrator's name.
    pub fn client(&self) -> Client {
        Client::new(&self.url(), Some(&self.token())).unwrap()
    }

    /// A connection to the hall.
    pub fn raw(&self) -> Raw {
        Raw::open(self.address)
    }

    /// Runs a command against this hall and waits for its end.
    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = jobhall();
        command.args(words).env("JOBHALL_SERVER", self.url()).env("JOBHALL_DATA", self.data());
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// What a command prints as JSON.
    ///
    /// # Panics
    /// It fails, or prints something else.
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
            eprintln!("the hall said last:\n{}", self.said("hall"));
        }
        self.hall = None;
        // What a killed process left behind, such as the worker of `up`.
        eventually("the end of the rig's processes", || {
            let left = marked(&self.mark);
            left.iter().for_each(|pid| kill(*pid));
            left.is_empty()
        });
    }
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = PORTS.end - PORTS.start;
    let begin = u16::try_from(std::process::id() % u32::from(span)).unwrap();
    let at = |n: u16| PORTS.start + (begin.wrapping_mul(7).wrapping_add(n)) % span;
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    std::iter::repeat_with(|| at(NEXT.fetch_add(1, Ordering::Relaxed))).take(1_000).find(free).unwrap()
}
