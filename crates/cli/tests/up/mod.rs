//! A server in a separate process, and commands against it.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The file with the standard error of the server.
const SAID: &str = "hall.said";

/// The server, stopped on drop.
pub struct Up {
    child: Child,
    pub url: String,
    /// The directory for the data and all other files of the test.
    pub folder: tempfile::TempDir,
}

impl Up {
    /// Starts `jobhall up` or `jobhall server` with these additional arguments.
    pub fn start(folder: tempfile::TempDir, command: &str, words: &[&str]) -> Up {
        let (child, url) = open(jobhall(), &folder, command, words);
        Up { child, url, folder }
    }

    /// As [`Up::start`], with this directory for the records of running servers.
    pub fn start_recorded(folder: tempfile::TempDir, command: &str, words: &[&str], records: &Path) -> Up {
        let mut program = jobhall();
        program.env("XDG_RUNTIME_DIR", records);
        let (child, url) = open(program, &folder, command, words);
        Up { child, url, folder }
    }

    /// Starts the server with these arguments in this directory.
    pub fn start_in(folder: tempfile::TempDir, words: &[&str], directory: &Path) -> Up {
        let mut program = jobhall();
        program.current_dir(directory);
        let (child, url) = open(program, &folder, words[0], &words[1..]);
        Up { child, url, folder }
    }

    /// Stops the server, and starts one without a worker on the same data.
    pub fn restart(&mut self, listen: &str) {
        signal(&self.child, rustix::process::Signal::TERM);
        assert!(self.child.wait().unwrap().success());
        (self.child, self.url) = open(jobhall(), &self.folder, "server", &["--listen", listen]);
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The standard error of the server.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(SAID)).unwrap()
    }

    /// A command against this server.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = jobhall();
        command.args(words).env("JOBHALL_SERVER", &self.url).env("JOBHALL_DATA", self.data());
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// The JSON output of a command that must succeed.
    pub fn json(&self, words: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.told(words)).unwrap()
    }

    /// The output of a command that must succeed.
    pub fn told(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Starts a server on the data in this directory; returns it with its URL.
fn open(mut program: Command, folder: &tempfile::TempDir, command: &str, words: &[&str]) -> (Child, String) {
    let mut child = program
        .args([command, "--data"])
        .arg(folder.path().join("data"))
        .args(words)
        .stdout(Stdio::piped())
        .stderr(File::create(folder.path().join(SAID)).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("jobhall is up: ").expect("the link").to_owned();
    (child, url)
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    // The process may have ended already.
    let _ = rustix::process::kill_process(pid, signal);
}

/// Ends a process that drains at the first signal and stops at the second.
pub fn end(child: &mut Child) {
    signal(child, rustix::process::Signal::INT);
    signal(child, rustix::process::Signal::TERM);
    let _ = child.wait();
}

/// The program, without variables from the environment of the test.
pub fn jobhall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobhall"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("JOBHALL_")) {
        command.env_remove(name);
    }
    // Servers of other tests and of the user who runs the tests are not found, nor do these write records there.
    command.env("XDG_RUNTIME_DIR", "/proc/none").env("XDG_STATE_HOME", "/proc/none");
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for a condition, with a generous deadline.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Number of processes whose environment contains this text.
pub fn marked(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let environments = processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok());
    environments.filter(|environment| text(environment).contains(word)).count()
}
