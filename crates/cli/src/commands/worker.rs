//! `jobhall worker`: runs jobs of a hall.

use std::path::{Path, PathBuf};

use clap::Args;
use jobhall_client::Client;
use jobhall_core::WorkerName;
use jobhall_protocol::WorkerFile;
use jobhall_worker::{Shutdown, Slots, WorkerOptions};
use tokio::sync::watch;

use crate::args::LogArgs;
use crate::commands::worker_list::{self, WorkerCommand};
use crate::context::Context;
use crate::credential;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::server::{Signals, hide};
use crate::settings::Origin;

const EXAMPLES: &str = "\
Examples:
  jobhall worker --config worker.toml
  jobhall worker list
  jobhall worker --name gpu-1 --slots 2 --server http://hall:7450
  jobhall worker --join \"$JOIN_TOKEN\" --name gpu-1 --server https://hall:7450";

/// Arguments of `worker`; flags override the worker file.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct WorkerArgs {
    #[command(subcommand)]
    pub command: Option<WorkerCommand>,
    /// Worker file: name, slots, abilities, commands of types
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Name with which the worker joins; with a given token, the token's name is used instead
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
    /// Run any command that a client submits, as type `exec`
    #[arg(long)]
    pub allow_exec: bool,
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
    let file = file(args)?;
    let client = client(context, args, &file).await?;
    hide();
    let slots = file.slots.unwrap_or_else(jobhall_worker::cpus).max(1);
    let options = jobhall_worker::Options { most: slots as usize, ..jobhall_worker::Options::default() };
    let (shutdown, told) = watch::channel(Shutdown::None);
    let work =
        jobhall_worker::run(WorkerOptions { client, file, slots: Slots::new(options), shutdown: told });
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
    ended.map_err(|error| Failure::usage("failed to read the worker's abilities").why(error.to_string()))?;
    Ok(Exit::Ok)
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
    if args.join.is_none() && given {
        return context.client();
    }
    let name = file.name.clone().unwrap_or_else(jobhall_worker::host_name);
    WorkerName::new(&name).map_err(|error| Failure::usage(error.to_string()).fix("name it with --name"))?;
    match (args.state.clone().or_else(state_home), &args.join) {
        (Some(state), join) => credential::client(context, join.as_deref(), &state, &name).await,
        (None, None) => context.client(),
        (None, Some(_)) => Err(Failure::usage("no directory for the credential is known")
            .why("HOME is not set")
            .fix("set one with --state DIR")),
    }
}

fn state_home() -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = var("XDG_STATE_HOME").or_else(|| Some(var("HOME")?.join(".local/state")))?;
    Some(home.join("jobhall"))
}

/// The worker file, with the flags applied.
fn file(args: &WorkerArgs) -> Outcome<WorkerFile> {
    let mut file = match &args.config {
        Some(path) => read(path)?,
        None => WorkerFile::default(),
    };
    file.name = args.name.clone().or(file.name);
    file.slots = args.slots.or(file.slots);
    file.allow_exec |= args.allow_exec;
    Ok(file)
}

fn read(path: &Path) -> Outcome<WorkerFile> {
    let failed = |why: String| Failure::usage(format!("failed to read {}", path.display())).why(why);
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    toml::from_str(&text).map_err(|error| failed(error.to_string()))
}
