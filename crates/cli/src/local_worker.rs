//! The local worker that `jobhall up` starts.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::open_files;
use crate::settings::Settings;

/// Delays before a worker that exited is restarted.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// Makes the token of a worker each time it is started: a key of the hall may have been replaced.
pub type TokenSource = Box<dyn Fn() -> String + Send + Sync>;

/// The worker on this machine, in a separate process that is restarted when it exits.
pub struct LocalWorker {
    server: String,
    token: TokenSource,
    certificate: Option<PathBuf>,
    slots: Option<u32>,
    hidden: Vec<PathBuf>,
    job_user: Option<String>,
    config: Option<PathBuf>,
    runs_exec: bool,
    main: bool,
    log: [String; 2],
    child: Option<Child>,
    /// Open while this process runs: the worker exits when it is closed, also after `kill -9`.
    line: Option<File>,
}

impl LocalWorker {
    /// A worker for the server at this URL with this certificate, if any, and this token. It logs like the server.
    /// [`LocalWorker::keep`] starts it.
    pub fn new(at: (&str, Option<&Path>), token: TokenSource, settings: &Settings) -> LocalWorker {
        let log = [settings.log.value.clone(), settings.log_format.value.clone()];
        let (server, certificate) = (at.0.to_owned(), at.1.map(Path::to_owned));
        let (slots, hidden, job_user, config, runs_exec) = (None, Vec::new(), None, None, true);
        let (child, line) = (None, None);
        LocalWorker {
            server,
            token,
            certificate,
            slots,
            hidden,
            job_user,
            config,
            runs_exec,
            main: false,
            log,
            child,
            line,
        }
    }

    /// Sets the maximum number of concurrent jobs; without it, the number of CPUs.
    pub fn slots(self, slots: Option<u32>) -> LocalWorker {
        LocalWorker { slots, ..self }
    }

    /// Sets the directories and files that its jobs cannot read.
    pub fn hide(self, hidden: Vec<PathBuf>) -> LocalWorker {
        LocalWorker { hidden, ..self }
    }

    /// Sets the user as whom jobs run.
    pub fn job_user(self, job_user: Option<String>) -> LocalWorker {
        LocalWorker { job_user, ..self }
    }

    /// Sets its worker file.
    pub fn config(self, config: Option<PathBuf>) -> LocalWorker {
        LocalWorker { config, ..self }
    }

    /// Sets whether it runs commands of clients.
    pub fn exec(self, runs_exec: bool) -> LocalWorker {
        LocalWorker { runs_exec, ..self }
    }

    /// Sets whether it has the ability `main=1`.
    pub fn main(self, main: bool) -> LocalWorker {
        LocalWorker { main, ..self }
    }

    fn spawn(&mut self) -> std::io::Result<&mut Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", "--with-stdin", "--server", &self.server]);
        if self.runs_exec {
            command.args(["--allow", "exec"]);
        }
        if self.main {
            command.arg("--main");
        }
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        let [level, format] = &self.log;
        command.args(["--log", level, "--log-format", format]);
        if let Some(slots) = self.slots {
            command.args(["--slots", &slots.to_string()]);
        }
        command.args(self.job_user.iter().flat_map(|name| ["--job-user", name]));
        for path in &self.hidden {
            command.arg("--hide").arg(path);
        }
        // It connects to this server only, regardless of the name and CA in the certificate.
        for name in ["JOBHALL_PIN", "JOBHALL_CA", "JOBHALL_TOKEN", "JOBHALL_JOIN"] {
            command.env_remove(name);
        }
        if let Some(certificate) = &self.certificate {
            command.env("JOBHALL_PIN", certificate);
        }
        // In a separate process group, so that Ctrl-C on a terminal does not reach it directly.
        command.stdin(Stdio::piped()).process_group(0).kill_on_drop(true);
        // Through a pipe, because the environment of a worker can be read by a job that runs as root.
        command.env("JOBHALL_TOKEN_FILE", "/dev/stdin");
        let mut child = command.spawn()?;
        open_files::restore(child.id());
        let stdin = child.stdin.take().and_then(|stdin| stdin.into_owned_fd().ok());
        let mut stdin = File::from(stdin.ok_or_else(|| std::io::Error::other("no pipe to the worker"))?);
        // Much less than the capacity of a pipe, so this does not block.
        writeln!(stdin, "{}", (self.token)())?;
        self.line = Some(stdin);
        Ok(self.child.insert(child))
    }

    /// Keeps a worker running, with growing delays if it exits early.
    pub async fn keep(&mut self) {
        let mut pause = SHORTEST;
        loop {
            let began = Instant::now();
            let ended = match self.spawn() {
                Ok(child) => child.wait().await.map(|status| status.to_string()),
                Err(error) => Err(error),
            };
            let why = ended.unwrap_or_else(|error| error.to_string());
            tracing::warn!(why, "the local worker ended; restarting it");
            pause = if began.elapsed() > LONGEST { SHORTEST } else { (pause * 2).min(LONGEST) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Lets it finish its running jobs.
    pub async fn drain(&mut self) {
        let Some(child) = &mut self.child else { return };
        if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = child.wait().await;
    }

    /// Stops it now; its slots end their processes.
    pub async fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill().await;
        }
    }
}
