//! Slots for tests, and checks through `/proc` of what is left of a command.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jobhall_worker::{Chunk, Command, Ended, Options, Running, Slots, Status, Stream};
use rustix::process::{Pid, Signal, kill_process};

/// A generous time limit, also for a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

const VARIABLE: &str = "JOBHALL_TEST_MARKER";

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_jobhall-slot-program");

pub fn slots(most: usize) -> Slots {
    Slots::new(Options { most, program: PROGRAM.into(), ..Options::default() })
}

pub async fn start(command: Command) -> Running {
    slots(1).acquire().await.run(command).await.expect("a slot")
}

/// Runs a command to its end.
pub async fn run(command: Command) -> (Vec<Chunk>, Ended) {
    let mut running = start(command).await;
    let mut chunks = Vec::new();
    while let Some(chunk) = running.next().await {
        chunks.push(chunk);
    }
    (chunks, running.wait().await)
}

pub async fn status(command: Command) -> Status {
    run(command).await.1.status
}

/// All output of one stream.
pub fn said(chunks: &[Chunk], stream: Stream) -> Vec<u8> {
    chunks.iter().filter(|chunk| chunk.stream == stream).flat_map(|chunk| chunk.bytes.clone()).collect()
}

pub fn text(chunks: &[Chunk]) -> String {
    String::from_utf8(said(chunks, Stream::Stdout)).expect("text")
}

/// Reads output until `word` was printed `times` times; returns the number of bytes read.
pub async fn hear(running: &mut Running, word: &str, times: usize) -> usize {
    let mut heard = Vec::new();
    while String::from_utf8_lossy(&heard).matches(word).count() < times {
        let chunk = tokio::time::timeout(DEADLINE, running.next()).await.expect("output in time");
        heard.extend(chunk.expect("output before the end").bytes);
    }
    heard.len()
}

pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A variable in the environment of every process of a command, by which they are found whatever they did to their
/// parents. Remaining processes are killed when it is dropped.
pub struct Marker(String);

impl Marker {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}-{nanos}-{count}", std::process::id()))
    }

    pub fn mark(&self, command: Command) -> Command {
        command.env(VARIABLE, &self.0)
    }

    pub fn variable(&self) -> (&'static str, &str) {
        (VARIABLE, &self.0)
    }

    /// The living processes with the variable.
    pub fn carriers(&self) -> BTreeSet<i32> {
        let wanted = format!("{VARIABLE}={}", self.0);
        let carries = |pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        processes().filter(|pid| is_alive(*pid)).filter(carries).collect()
    }

    pub fn is_gone(&self) -> bool {
        self.carriers().is_empty()
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        self.carriers().into_iter().for_each(|pid| send(pid, Signal::KILL));
    }
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub fn send(pid: i32, signal: Signal) {
    let _may_have_ended = kill_process(Pid::from_raw(pid).expect("a pid"), signal);
}

/// State and parent of a process.
pub fn stat(pid: i32) -> Option<(char, i32)> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = line.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

pub fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == 'T')
}

pub fn children(parent: i32) -> Vec<i32> {
    processes().filter(|pid| stat(*pid).is_some_and(|(_, found)| found == parent)).collect()
}

/// The slot of a command: its supervisor and its monitor.
pub fn pair(running: &Running) -> (i32, i32) {
    let main = i32::try_from(running.pid().expect("started")).expect("a pid");
    let (_, supervisor) = stat(main).expect("a command");
    let (_, monitor) = stat(supervisor).expect("a supervisor");
    (supervisor, monitor)
}

/// A command that runs until it is released.
pub struct RunningSlot {
    pub running: Running,
    pub supervisor: i32,
    pub monitor: i32,
    directory: tempfile::TempDir,
}

impl RunningSlot {
    pub async fn start(slots: &Slots) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let script = Command::script("echo up; until [ -e go ]; do sleep 0.01; done");
        let command = script.directory(directory.path());
        let mut running = slots.acquire().await.run(command).await.expect("a slot");
        hear(&mut running, "up", 1).await;
        let (supervisor, monitor) = pair(&running);
        Self { running, supervisor, monitor, directory }
    }

    pub async fn release(self) -> Status {
        std::fs::write(self.directory.path().join("go"), "").expect("write");
        self.running.wait().await.status
    }
}

/// A line such as `VmHWM` of a process's status, in KiB.
pub fn status_kib(pid: &str, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    found.and_then(|value| value.split_whitespace().next()?.parse().ok()).expect("a number")
}

pub fn script_file(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join(name);
    std::fs::write(&path, text).expect("write");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
    path
}
