//! A PostgreSQL server for one test, and the databases in it.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::pooler::Pooler;
use crate::programs::{OWNER, own, owned, program, run};
use crate::template;

/// Time limit for a server to answer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Sessions are ended, no data is lost.
    Fast,
    /// Like a crash: the next start recovers from the log.
    Immediate,
}

/// A server for one test. It is stopped and removed when it is dropped, also by a test that panics.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    data: PathBuf,
    port: u16,
    /// The address besides its socket; mostly none.
    address: &'static str,
    server: Mutex<Option<Child>>,
    /// Whether the directory is removed with this value; a standby is in that of its primary.
    owns_directory: bool,
    databases: AtomicU32,
}

impl Cluster {
    /// A new, empty cluster that answers.
    pub fn start() -> Cluster {
        Cluster::with(&[])
    }

    /// A new cluster with these settings, such as `fsync=off`.
    pub fn with(settings: &[&str]) -> Cluster {
        let cluster = Cluster::make(5432);
        cluster.configure(settings);
        cluster.start_again();
        cluster
    }

    /// A new cluster with TLS on a free port of 127.0.0.1, with this certificate and key as PEM.
    pub fn with_tls(certificate: &str, key: &str) -> Cluster {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let mut cluster = Cluster::make(free.expect("there is a free port").port());
        cluster.address = "127.0.0.1";
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = cluster.data.join(name);
            fs::write(&path, text).expect("a certificate can be written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
            own(&path);
        }
        cluster.configure(&["ssl=on"]);
        cluster.start_again();
        cluster
    }

    fn make(port: u16) -> Cluster {
        let directory = tempfile::Builder::new().prefix("jobhall-pg-").tempdir_in("/tmp");
        let directory = directory.expect("a temporary directory can be made").keep();
        owned(&directory);
        let data = directory.join("data");
        template::copy_to(&data);
        Cluster::at(directory, data, port, true)
    }

    /// The port, which is also part of the socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// One server for all concurrent tests; see [`crate::Shared`].
    pub fn shared() -> crate::Shared {
        crate::Shared::join()
    }

    fn at(directory: PathBuf, data: PathBuf, port: u16, owns_directory: bool) -> Cluster {
        let (server, databases) = (Mutex::new(None), AtomicU32::new(0));
        Cluster { directory, data, port, address: "", server, owns_directory, databases }
    }

    fn configure(&self, settings: &[&str]) {
        let path = self.data.join("postgresql.auto.conf");
        let mut text = fs::read_to_string(&path).expect("a cluster has settings");
        for setting in settings {
            text.push_str(setting);
            text.push('\n');
        }
        fs::write(&path, text).expect("settings can be written");
    }

    /// The address of one of its databases: a percent-encoded socket directory.
    pub fn url(&self, database: &str) -> String {
        url(&self.directory, self.port, database)
    }

    /// A new database, dropped with the value.
    pub fn database(&self) -> Database {
        let n = self.databases.fetch_add(1, Ordering::Relaxed);
        Database::create(&self.directory, self.port, &format!("throwaway_{n}"), true)
    }

    /// Runs statements in a database, and returns their output: rows as lines, columns separated by `|`.
    pub fn sql(&self, database: &str, text: &str) -> String {
        sql(&self.directory, self.port, database, text)
    }

    /// Starts it after a stop.
    pub fn start_again(&self) {
        let mut server = self.server();
        assert!(server.is_none(), "it runs already");
        *server = Some(serve(&self.data, &self.directory, self.port, self.address));
        drop(server);
        until_ready(&self.directory, self.port);
    }

    /// Stops it, and waits until it has ended.
    pub fn stop(&self, how: Stop) {
        self.resume();
        let Some(mut server) = self.server().take() else { return };
        let signal = if how == Stop::Fast { Signal::INT } else { Signal::QUIT };
        send(&server, signal);
        let status = server.wait();
        status.expect("a child can be waited for");
    }

    /// Stops it like a crash.
    pub fn stop_immediate(&self) {
        self.stop(Stop::Immediate);
    }

    pub fn restart(&self, how: Stop) {
        self.stop(how);
        self.start_again();
    }

    /// Suspends all its processes, as if the machine were suspended.
    pub fn pause(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Resumes them.
    pub fn resume(&self) {
        self.signal_all(Signal::CONT);
    }

    /// A synchronous standby in the same directory: only data that it has is acknowledged.
    pub fn standby(&self) -> Cluster {
        let port = self.port + 1;
        let data = self.directory.join(format!("standby-{port}"));
        let name = "dbname=postgres application_name=standby";
        run(program("pg_basebackup")
            .args(["--checkpoint=fast", "--wal-method=stream", "--no-sync", "--write-recovery-conf"])
            .args(["--username", OWNER, "--dbname", name, "--port", &self.port.to_string()])
            .arg("--host")
            .arg(&self.directory)
            .arg("--pgdata")
            .arg(&data));
        let standby = Cluster::at(self.directory.clone(), data, port, false);
        standby.configure(&["hot_standby=on"]);
        standby.start_again();
        self.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
        self.sql("postgres", "SELECT pg_reload_conf()");
        let state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        poll("the standby to be synchronous", || self.sql("postgres", state) == "1");
        standby
    }

    /// Makes a standby the primary. The new primary waits for no standby.
    pub fn promote(&self) {
        self.sql("postgres", "SELECT pg_promote()");
        self.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''");
        self.sql("postgres", "SELECT pg_reload_conf()");
    }

    /// A pooler in transaction mode in front of it, with this many connections to a database.
    pub fn pgbouncer(&self, connections: u32) -> Pooler {
        Pooler::start(&self.directory, self.port, connections)
    }

    fn server(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn signal_all(&self, signal: Signal) {
        let server = self.server();
        let Some(server) = server.as_ref() else { return };
        send(server, signal);
        let id = server.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let pid = child.parse().ok().and_then(Pid::from_raw).expect("the kernel lists process ids");
            // A process that has ended needs no signal.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop(Stop::Immediate);
        let left = if self.owns_directory { &self.directory } else { &self.data };
        // Failing to remove a directory below /tmp does not affect the result of a test.
        let _ = fs::remove_dir_all(left);
    }
}

/// A database. It is dropped with its value, except on the shared server, where it is removed with the server: a drop
/// makes the server write all its buffers, which every test would wait for.
#[derive(Debug)]
pub struct Database {
    directory: PathBuf,
    port: u16,
    name: String,
    drops: bool,
}

impl Database {
    pub(crate) fn create(directory: &Path, port: u16, name: &str, drops: bool) -> Database {
        sql(directory, port, "postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"));
        Database { directory: directory.to_owned(), port, name: name.to_owned(), drops }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn url(&self) -> String {
        url(&self.directory, self.port, &self.name)
    }

    /// Runs statements in it, and returns their output.
    pub fn sql(&self, text: &str) -> String {
        sql(&self.directory, self.port, &self.name, text)
    }

    /// Its content as pg_dump writes it.
    pub fn dump(&self) -> String {
        let mut command = program("pg_dump");
        command.args(["--username", OWNER, "--dbname", &self.name, "--port", &self.port.to_string()]);
        run(command.arg("--host").arg(&self.directory))
    }

    /// Runs a script of any length, such as a dump.
    pub fn load(&self, script: &str) {
        let mut command = psql(&self.directory, self.port, &self.name);
        command.args(["--file", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("psql can be started");
        let mut input = child.stdin.take().expect("its input is a pipe");
        let written = input.write_all(script.as_bytes());
        drop(input);
        let output = child.wait_with_output().expect("a child can be waited for");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && written.is_ok(), "the script failed: {said}");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.drops {
            return;
        }
        let text = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // The server may be stopped already; then the database is removed with its directory.
        let _ = psql(&self.directory, self.port, "postgres").args(["--command", &text]).output();
    }
}

/// A server as a child of this process.
fn serve(data: &Path, directory: &Path, port: u16, address: &str) -> Child {
    let log = File::options().create(true).append(true).open(directory.join(format!("log-{port}")));
    let log = log.expect("a log can be written");
    let mut command = program("postgres");
    command.arg("-D").arg(data).arg("-k").arg(directory).args(SETTINGS);
    command.args(["-p", &port.to_string(), "-c", &format!("listen_addresses={address}")]);
    command.stdout(Stdio::null()).stderr(log);
    command.spawn().expect("PostgreSQL can be started")
}

/// No network, and small enough for many concurrent servers.
pub(crate) const SETTINGS: [&str; 8] = [
    "-c",
    "listen_addresses=",
    "-c",
    "max_connections=200",
    "-c",
    "shared_buffers=64MB",
    "-c",
    "max_wal_senders=4",
];

pub(crate) fn until_ready(directory: &Path, port: u16) {
    poll("PostgreSQL to answer", || {
        let mut ready = program("pg_isready");
        ready.args(["--quiet", "--port", &port.to_string()]).arg("--host").arg(directory);
        ready.status().is_ok_and(|status| status.success())
    });
}

pub(crate) fn poll(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited too long for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn url(directory: &Path, port: u16, database: &str) -> String {
    let directory = directory.to_str().expect("temporary directories have plain names").replace('/', "%2F");
    format!("postgres://{OWNER}@{directory}:{port}/{database}")
}

fn psql(directory: &Path, port: u16, database: &str) -> std::process::Command {
    let mut command = program("psql");
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
    command.args(["--username", OWNER, "--dbname", database, "--port", &port.to_string()]);
    command.arg("--host").arg(directory);
    command
}

fn sql(directory: &Path, port: u16, database: &str, text: &str) -> String {
    run(psql(directory, port, database).args(["--command", text]))
}

fn send(server: &Child, signal: Signal) {
    let pid = i32::try_from(server.id()).ok().and_then(Pid::from_raw).expect("a process has an id");
    // The server may have ended already.
    let _ = kill_process(pid, signal);
}
