//! `jobhall worker`: runs jobs of a hall.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jobhall_client::Client;
use jobhall_core::WorkerName;
use jobhall_protocol::{Allow, Code, Span, WorkerFile};
use jobhall_worker::{Connected, Hidden, Options, Setup, Shutdown, Slots, Until, WorkerError, WorkerOptions};
use tokio::sync::watch;

use crate::args::LogArgs;
use crate::commands::slot;
use crate::commands::worker_list::{self, WorkerCommand};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::server::{Signals, hide};
use crate::settings::Origin;
use crate::{credential, job_user, running, worker_file};

const EXAMPLES: &str = "\
Examples:
  jobhall worker --config worker.toml
  jobhall worker list
  jobhall worker --name gpu-1 --slots 2 --allow exec --server http://hall:7450
  jobhall worker --join \"$JOIN_TOKEN\" --name gpu-1 --server https://hall:7450
  jobhall worker --config worker.toml --idle-exit 5m";

/// Arguments of `worker`; flags override the worker file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct WorkerArgs {
    #[command(subcommand)]
    pub command: Option<WorkerCommand>,
    /// Worker file: name, slots, abilities, commands of types
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Name of the worker; with a worker's token, the token's name is used instead [default: host name]
    #[arg(long)]
    pub name: Option<String>,
    /// Maximum number of concurrent jobs [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub slots: Option<u32>,
    /// Join the hall with this join token; the credential is stored and reused
    #[arg(long, value_name = "TOKEN", env = "JOBHALL_JOIN", hide_env_values = true)]
    pub join: Option<String>,
    /// Directory for the credential [default: $XDG_STATE_HOME/jobhall]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// What clients may use this worker for, besides its types: `exec` runs any command that a client submits; may be
    /// repeated
    #[arg(long, value_name = "WORD")]
    pub allow: Vec<Allow>,
    /// The name of `--allow exec` until version 0.1.0
    #[arg(long, hide = true)]
    pub allow_exec: bool,
    /// Directory or file that jobs cannot read, besides the data directory and the worker's credential; may be
    /// repeated
    #[arg(long, value_name = "PATH")]
    pub hide: Vec<PathBuf>,
    /// User of this machine as whom jobs run; the worker must be root [default: the user of the worker]
    #[arg(long, value_name = "NAME")]
    pub job_user: Option<String>,
    /// Keep the workspaces of failed attempts; their logs name them
    #[arg(long)]
    pub keep_failed: bool,
    /// Take one job, and exit after it
    #[arg(long)]
    pub once: bool,
    /// Exit after this time without a job
    #[arg(long, value_name = "TIME")]
    pub idle_exit: Option<Span>,
    /// Give the worker the ability `main=1`
    #[arg(long)]
    pub main: bool,
    /// Exit when standard input is closed
    #[arg(long, hide = true)]
    pub with_stdin: bool,
    #[command(flatten)]
    pub log: LogArgs,
}

/// Starts a worker, or runs a subcommand.
pub async fn run(context: &Context, args: &WorkerArgs) -> Outcome {
    match &args.command {
        Some(command) => worker_list::run(context, command).await,
        None => start(context, args).await,
    }
}

/// Runs the worker and returns when it has drained.
async fn start(context: &Context, args: &WorkerArgs) -> Outcome {
    let mut signals = Signals::listen()?;
    let file = worker_file::with_flags(args)?;
    let types = worker_file::runs(&file)?;
    let client = client(context, args, &file).await?;
    hide();
    let slots = file.slots.unwrap_or_else(jobhall_worker::cpus).max(1);
    let (options, exposed) = options(slots, setup(context, args, &file)?).await;
    if let Some(why) = exposed.as_ref().filter(|_| !args.hide.is_empty()) {
        return Err(Failure::usage("failed to hide the paths of --hide from jobs").why(why.clone()));
    }
    let (shutdown, told) = watch::channel(Shutdown::None);
    let idle = args.idle_exit.map(|span| Duration::from_millis(span.0));
    // The worker of `jobhall up` would be started again.
    let until = Until { once: args.once, idle, drained: !args.with_stdin };
    let connected = start_line(context, args, StartLine { types, slots, exposed })?;
    let slots = Slots::new(options);
    let reread = args.config.clone().map(worker_file::reread);
    let options = WorkerOptions { client, file, reread, slots, shutdown: told, until, connected };
    let work = jobhall_worker::run(options);
    let mut work = std::pin::pin!(work);
    let mut alone = std::pin::pin!(stdin_ended(args.with_stdin));
    let mut left = false;
    let ended = loop {
        tokio::select! {
            ended = &mut work => break ended,
            () = signals.next() => shutdown.send_modify(|now| {
                *now = if *now == Shutdown::None { Shutdown::Drain } else { Shutdown::Now };
            }),
            () = &mut alone, if !left => {
                left = true;
                shutdown.send_replace(Shutdown::Now);
            }
        }
    };
    ended.map_err(failed)?;
    Ok(Exit::Ok)
}

/// What a worker says about itself when it starts.
struct StartLine {
    types: String,
    slots: u32,
    /// Why jobs can read the secrets of server and worker, if they can.
    exposed: Option<String>,
}

/// Prints one line when the first session begins. In JSON it is a line of the log. The worker of `jobhall up` prints
/// none: it belongs to the server, which has printed its own.
fn start_line(context: &Context, args: &WorkerArgs, line: StartLine) -> Outcome<Connected> {
    let (output, server) = (context.output.clone(), context.settings.server()?.value.clone());
    let (in_json, is_local) = (context.settings.log_format.value == "json", args.with_stdin);
    let StartLine { types, slots, exposed } = line;
    Ok(Box::new(move |name| {
        let exposed = exposed.as_deref().map(exposed_text);
        if in_json || is_local {
            tracing::info!(worker = name, server, types, slots, "connected");
            if let Some(exposed) = exposed {
                tracing::warn!("{exposed}");
            }
        } else {
            let plural = if slots == 1 { "" } else { "s" };
            let exposed = exposed.map(|text| format!("; {text}")).unwrap_or_default();
            output.say(&format!(
                "worker {name} connected to {server}: types {types}; {slots} slot{plural}{exposed}"
            ));
        }
    }))
}

/// Why the jobs of a worker on this machine can read the secrets of server and worker, if they can.
pub async fn exposed(hidden: &[PathBuf], job_user: Option<&str>) -> Outcome<Option<String>> {
    let hidden = Some(hidden_paths(hidden.iter().cloned())?);
    let user = job_user.map(job_user::find).transpose()?;
    let setup = Setup { no_new_privileges: true, hidden, user, ..Setup::default() };
    Ok(options(1, setup).await.1.map(|why| exposed_text(&why)))
}

fn exposed_text(why: &str) -> String {
    format!("jobs can read the server's data on this machine and the worker's credential ({why})")
}

fn hidden_paths(paths: impl IntoIterator<Item = PathBuf>) -> Outcome<Hidden> {
    let used = [std::env::temp_dir().canonicalize(), std::env::current_dir()];
    let used = used.into_iter().filter_map(Result::ok).chain(std::env::home_dir()).collect::<Vec<_>>();
    Hidden::new(with_directories(paths, &used))
        .map_err(|error| Failure::usage("failed to find what jobs must not read").why(error.to_string()))
}

/// These paths; instead of a file, its directory if everything in it is to be hidden. A file that replaces a hidden one
/// while a job runs is then hidden from that job too. Jobs need the directories in `used`.
fn with_directories(paths: impl IntoIterator<Item = PathBuf>, used: &[PathBuf]) -> BTreeSet<PathBuf> {
    let paths: BTreeSet<PathBuf> =
        paths.into_iter().map(|path| path.canonicalize().unwrap_or(path)).collect();
    let whole = |path: &Path| {
        let directory = path.parent().filter(|_| path.is_file())?;
        let entries = std::fs::read_dir(directory).ok()?;
        let mut entries = entries.map(|entry| entry.map(|entry| entry.path()));
        let is_whole = entries.all(|entry| entry.is_ok_and(|entry| paths.contains(&entry)));
        let is_used = used.iter().any(|used| used.starts_with(directory));
        (is_whole && !is_used).then(|| directory.to_owned())
    };
    paths.iter().map(|path| whole(path).unwrap_or_else(|| path.clone())).collect()
}

/// The options of the slots and, if jobs cannot be kept from the secrets of server and worker, why.
async fn options(slots: u32, setup: Setup) -> (Options, Option<String>) {
    let (name, value) = slot::ONE_THREAD;
    let variables = vec![(name.into(), value.into())];
    let mut options = Options { most: slots as usize, variables, adopts: true, setup, ..Options::default() };
    let exposed = options.probe().await.err();
    if exposed.is_some() {
        options.setup.hidden = None;
    }
    (options, exposed)
}

/// How slots are set up.
fn setup(context: &Context, args: &WorkerArgs, file: &WorkerFile) -> Outcome<Setup> {
    let settings = &context.settings;
    let state = args.state.clone().or_else(state_home);
    // The server creates it for its local worker, unless it is an embedded one, which leaves nothing behind.
    if let Some(state) = state.as_deref().filter(|_| !args.with_stdin) {
        create_state(state);
    }
    let known = [Some(settings.data.value.clone()), state, settings.token_file.clone()];
    // Servers of this user on this machine, wherever their data is.
    let servers = running::servers(&settings.record_directories).into_iter().map(|server| server.data);
    let all = args.hide.iter().cloned().chain(known.into_iter().flatten()).chain(servers);
    let hidden = hidden_paths(all)?;
    let temporary = std::env::temp_dir();
    let temporary = temporary.canonicalize().unwrap_or(temporary);
    if let Some(above) = hidden.above(&temporary) {
        return Err(Failure::usage(format!("jobs cannot use {}", temporary.display()))
            .why(format!("it is in {}, which is hidden from them", above.display()))
            .fix("set TMPDIR to a directory elsewhere"));
    }
    let control_group = jobhall_worker::supervisor::own_group();
    let user = args.job_user.as_deref().map(job_user::find).transpose()?;
    Ok(Setup { no_new_privileges: true, control_group, hidden: Some(hidden), limits: file.limits, user })
}

fn failed(error: WorkerError) -> Failure {
    match error {
        WorkerError::Abilities(error) => {
            Failure::usage("failed to read the worker's abilities").why(error.to_string())
        }
        WorkerError::Commands(why) => Failure::usage("failed to read the worker's commands").why(why),
        WorkerError::Refused(error) if error.code() == Some(Code::Unauthorized) => Failure::new(
            Exit::Auth,
            "the server refused this worker's token (unknown, expired or revoked)",
        )
        .why(error.to_string())
        .fix("make another with `jobhall token create NAME --role worker`, or join again with --join TOKEN"),
        WorkerError::Refused(error) => Failure::from(error),
    }
}

/// Waits for the end of standard input; forever if `asked` is false. A separate thread reads; process exit does not
/// wait for it.
async fn stdin_ended(asked: bool) {
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    if asked {
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            drop(ended);
        });
        let _ = end.await;
    } else {
        std::future::pending::<()>().await;
    }
}

/// Uses the worker's credential, unless another token was given without a join token.
async fn client(context: &Context, args: &WorkerArgs, file: &WorkerFile) -> Outcome<Client> {
    let given =
        context.settings.token.as_ref().is_some_and(|token| !matches!(token.origin, Origin::Local(_)));
    let name = file.name.clone().unwrap_or_else(jobhall_worker::host_name);
    let checked = WorkerName::new(&name);
    if args.join.is_none() && given {
        let client = context.client()?;
        // A worker's token has the name of its worker; an administrator's names it here.
        return match (checked, &file.name) {
            (Ok(_), _) => Ok(client.as_worker(&name)),
            (Err(_), None) => Ok(client),
            (Err(error), Some(_)) => Err(Failure::usage(error.to_string()).fix("name it with --name")),
        };
    }
    checked.map_err(|error| Failure::usage(error.to_string()).fix("name it with --name"))?;
    let client = match (args.state.clone().or_else(state_home), &args.join) {
        (Some(state), join) => credential::client(context, join.as_deref(), &state, &name).await,
        (None, None) => context.client(),
        (None, Some(_)) => Err(Failure::usage("no directory for the credential is known")
            .why("HOME is not set")
            .fix("set one with --state DIR")),
    }?;
    Ok(client.as_worker(&name))
}

/// Creates the directory of credentials: if it does not exist when a slot starts, it is not hidden from the slot's jobs.
pub fn create_state(state: &Path) {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(state);
    created.unwrap_or_else(|error| tracing::debug!("{} is not created: {error}", state.display()));
}

pub fn state_home() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = var("XDG_STATE_HOME").or_else(|| Some(var("HOME")?.join(".local/state")))?;
    Some(home.join("jobhall"))
}
