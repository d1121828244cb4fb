//! `jobhall up`: a server and a supervised worker on this machine.

use std::path::{Path, PathBuf};

use clap::Args;
use jobhall_protocol::{Allow, WorkerFile};

use crate::args::LogArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::listen::ListenArgs;
use crate::local_worker::LocalWorker;
use crate::server::Signals;
use crate::serving::Serving;
use crate::settings::is_loopback;
use crate::{job_user, worker_file};

const EXAMPLES: &str = "\
Examples:
  jobhall up                       server and worker on 127.0.0.1:7450
  jobhall up --data ./hall --slots 4
  jobhall up --no-exec             server only: no worker on this machine
  jobhall up --config worker.toml  the worker on this machine runs the types of this file
  jobhall up --listen 127.0.0.1:0  any free port";

/// Arguments of `up`; the data directory is the global `--data`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UpArgs {
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Maximum number of concurrent jobs [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub slots: Option<u32>,
    /// Worker file of the worker on this machine: slots, abilities, commands [default: the types and commands of
    /// .jobhall.toml in this directory, or above it in this repository]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Run any command that a client submits (type `exec`) on this machine, as the user of this server [default: only
    /// if the server listens on loopback, or if the worker file allows it]
    #[arg(long, overrides_with = "no_exec")]
    pub exec: bool,
    /// Run no commands of clients on this machine: no local worker is started, unless the worker file has types
    #[arg(long, overrides_with = "exec")]
    pub no_exec: bool,
    /// Give the worker on this machine the ability `main=1`
    #[arg(long)]
    pub main: bool,
    /// User of this machine as whom jobs run; needs root [default: the user of this server]
    #[arg(long, value_name = "NAME")]
    pub job_user: Option<String>,
    #[command(flatten)]
    pub log: LogArgs,
}

impl UpArgs {
    /// Whether the local worker runs commands of clients. Clients on other machines are a reason not to, unless the
    /// operator has asked for it.
    fn runs_exec(&self, listen: &ListenArgs, file: &WorkerFile) -> bool {
        let is_local =
            listen.listen.ip().is_loopback() && listen.advertise.as_deref().is_none_or(is_loopback);
        self.exec || (!self.no_exec && (is_local || file.allow.contains(&Allow::Exec)))
    }

    /// What the local worker is used for. A file with nothing to run is an error; without a file there is no worker
    /// then.
    fn work(&self, listen: &ListenArgs) -> Outcome<Work> {
        let Some((path, mut file)) = self.worker_file()? else {
            let runs_exec = self.runs_exec(listen, &WorkerFile::default());
            return Ok(Work { config: None, runs_exec, types: String::new() });
        };
        let path = path.as_path();
        let config = std::path::absolute(path).map_err(|error| unreadable(path).why(error.to_string()))?;
        if file.name.is_some() {
            let why = "name: the worker of `jobhall up` has the name that its server gives it";
            return Err(unreadable(path).why(why).fix("remove the line"));
        }
        if self.no_exec && file.allow.contains(&Allow::Exec) {
            let why = "allow: it has exec, and --no-exec was given";
            return Err(unreadable(path).why(why).fix("remove one of them"));
        }
        let runs_exec = self.runs_exec(listen, &file);
        file.allow.extend(runs_exec.then_some(Allow::Exec));
        let types =
            worker_file::runs(&file).map_err(|failure| failure.while_doing(&path.display().to_string()))?;
        Ok(Work { config: Some(config), runs_exec, types })
    }

    /// The worker file that was given, or else that of the repository, if it serves anything.
    fn worker_file(&self) -> Outcome<Option<(PathBuf, WorkerFile)>> {
        if let Some(path) = &self.config {
            return Ok(Some((path.clone(), worker_file::read(path)?)));
        }
        let here = std::env::current_dir().ok();
        let Some(path) = here.and_then(|here| worker_file::project::find(&here)) else { return Ok(None) };
        let file = worker_file::read(&path)?;
        Ok(worker_file::project::serves(&file).then_some((path, file)))
    }
}

fn unreadable(path: &Path) -> Failure {
    Failure::usage(format!("failed to use {}", path.display()))
}

/// What the local worker is used for.
struct Work {
    /// Its worker file.
    config: Option<PathBuf>,
    /// Whether it runs commands of clients.
    runs_exec: bool,
    /// The types of a worker with a file.
    types: String,
}

impl Work {
    /// Whether there is a local worker.
    fn is_any(&self) -> bool {
        self.runs_exec || self.config.is_some()
    }

    /// What is printed about it at the start.
    fn text(&self) -> String {
        let types = match &self.config {
            Some(path) => format!(
                "\nthe worker on this machine serves {}: it runs jobs of these types: {}",
                path.display(),
                self.types
            ),
            None => String::new(),
        };
        let exec = match (self.runs_exec, &self.config) {
            (true, _) => {
                "\neach client with a token can run commands on this machine (jobs of type exec); \
                 --no-exec turns that off"
            }
            (false, Some(_)) => "; commands of clients (jobs of type exec) only with --exec",
            (false, None) => {
                "\nno worker on this machine: it runs commands of clients (jobs of type exec) only with --exec; \
                 start workers with `jobhall worker`"
            }
        };
        let first = if self.runs_exec { "; try: jobhall run -- echo hello" } else { "" };
        format!("{first}{types}{exec}")
    }
}

/// Starts server and worker, prints the link, and returns when both have stopped.
pub async fn start(context: &Context, args: &UpArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    let data = &context.settings.data.value;
    let listen = args.listen.with(&context.settings)?;
    // Checked before anything is started; the worker finds the user itself.
    args.job_user.as_deref().map(job_user::find).transpose()?;
    let work = args.work(&listen)?;
    let hall = Serving::open(data, &listen, &context.settings).await?;
    let _registration = hall.register(data, &listen, &context.settings);
    context.output.line(&format!("jobhall is up: {}", hall.url()))?;
    if let Some(first) = hall.first_start() {
        context.output.say(&first);
    }
    if let Some(link) = hall.link() {
        context.output.say(&format!("open in a browser (valid once, for ten minutes): {link}"));
    }
    context.output.say(&format!("data in {}{}", data.display(), work.text()));
    let settings = &context.settings;
    let files = [args.listen.private_files(settings), listen.private_files(settings)].concat();
    let hidden: Vec<_> = files.into_iter().chain([data.clone()]).collect();
    if work.is_any()
        && let Some(exposed) = super::worker::exposed(&hidden, args.job_user.as_deref()).await?
    {
        context.output.say(&exposed);
    }
    if let Some(state) = super::worker::state_home().filter(|_| work.is_any()) {
        super::worker::create_state(&state);
    }
    let at = (hall.url(), listen.tls_cert.as_deref());
    let local = || LocalWorker::new(at, hall.worker_token(), settings).exec(work.runs_exec);
    let local = || local().slots(args.slots).hide(hidden).job_user(args.job_user.clone());
    let mut worker = work.is_any().then(|| local().config(work.config.clone()).main(args.main));
    let failed = tokio::select! {
        () = signals.next() => None,
        () = keep(worker.as_mut()) => None,
        failure = hall.failed() => Some(failure),
    };
    if let Some(failure) = failed {
        // The server can store nothing any more. The leases stay valid: its successor takes the jobs back.
        stop(worker.as_mut()).await;
        hall.close().await;
        return Err(failure);
    }
    hall.drain();
    context.output.say("stopping: running jobs finish first; a second signal stops immediately");
    tokio::select! {
        () = drain(worker.as_mut()) => {}
        () = signals.next() => stop(worker.as_mut()).await,
    }
    hall.close().await;
    Ok(Exit::Ok)
}

async fn keep(worker: Option<&mut LocalWorker>) {
    match worker {
        Some(worker) => worker.keep().await,
        None => std::future::pending().await,
    }
}

async fn drain(worker: Option<&mut LocalWorker>) {
    if let Some(worker) = worker {
        worker.drain().await;
    }
}

async fn stop(worker: Option<&mut LocalWorker>) {
    if let Some(worker) = worker {
        worker.kill().await;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use jobhall_protocol::{Allow, WorkerFile};

    use crate::args::{Cli, Command};

    fn runs_exec(words: &[&str]) -> bool {
        runs_exec_with(words, &WorkerFile::default())
    }

    fn runs_exec_with(words: &[&str], file: &WorkerFile) -> bool {
        let words = ["jobhall", "up"].iter().chain(words);
        let Command::Up(args) = Cli::try_parse_from(words).unwrap().command else { panic!("not up") };
        args.runs_exec(&args.listen, file)
    }

    #[test]
    fn a_worker_file_that_allows_exec_is_as_good_as_the_flag() {
        let file = WorkerFile { allow: [Allow::Exec].into(), ..WorkerFile::default() };
        assert!(runs_exec_with(&["--listen", "10.0.0.5:7450"], &file));
        assert!(!runs_exec_with(&["--no-exec"], &file));
    }

    #[test]
    fn audit_h2_exec_is_on_by_default_on_loopback_only() {
        for local in
            [&[][..], &["--listen", "127.0.0.7:1"], &["--listen", "[::1]:1"], &["--no-exec", "--exec"]]
        {
            assert!(runs_exec(local), "{local:?}");
        }
        let elsewhere = ["--listen", "10.0.0.5:7450"];
        assert!(!runs_exec(&elsewhere));
        assert!(!runs_exec(&["--listen", "0.0.0.0:7450"]));
        assert!(!runs_exec(&["--listen", "[::]:7450"]));
        assert!(!runs_exec(&["--advertise", "https://hall-1:7450"]), "clients come through other nodes");
        assert!(!runs_exec(&["--no-exec"]));
        assert!(runs_exec(&[&elsewhere[..], &["--exec"]].concat()));
        assert!(!runs_exec(&["--exec", "--no-exec"]), "the last one counts");
    }
}
