//! The commands, one file per noun.

pub mod artifact;
pub mod audit;
pub mod cache;
pub mod call;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod embedded;
pub mod events;
pub mod group;
pub mod help;
pub mod input;
pub mod job;
pub mod keep;
pub mod key;
pub mod limit;
pub mod man;
pub mod move_up;
pub mod nodes;
pub mod progress;
pub mod query;
pub mod queue;
pub mod recipe;
pub mod retention;
pub mod run;
pub mod schedule;
pub mod server;
pub mod slot;
pub mod source;
pub mod stats;
pub mod token;
pub mod types;
pub mod up;
pub mod worker;
pub mod worker_list;

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use crate::args::{Cli, Command};
use crate::commands::job::JobCommand;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::logging;
use crate::server::Signals;

pub async fn run(cli: Cli) -> Outcome {
    // These commands must work even if the configuration is invalid.
    match &cli.command {
        Command::Completions(args) => return completions::run(args),
        Command::Man(args) => return man::run(args),
        Command::Help(args) => return help::run(args),
        _ => {}
    }
    let context = Context::new(&cli)?;
    logging::start(&context.settings);
    match cli.command {
        Command::Up(args) => up::start(&context, &args).await,
        Command::Server(args) => server::start(&context, &args).await,
        Command::Worker(args) => worker::run(&context, &args).await,
        Command::Run(args) => run::run(&context, &args).await,
        Command::Job(command) => job::run(&context, &command).await,
        Command::Group(command) => group::run(&context, &command).await,
        Command::Artifact(command) => artifact::run(&context, &command).await,
        Command::Query(args) => query::run(&context, &args).await,
        Command::Source(command) => source::run(&context, &command).await,
        Command::Recipe(command) => recipe::run(&context, &command).await,
        Command::Cache(command) => cache::run(&context, &command).await,
        Command::Queue(command) => queue::run(&context, &command).await,
        Command::Stats(args) | Command::Status(args) => stats::run(&context, &args).await,
        Command::Submit(args) => job::run(&context, &JobCommand::Submit(args)).await,
        Command::Ls(args) => job::run(&context, &JobCommand::List(args)).await,
        Command::Ps(args) => job::run(&context, &JobCommand::List(args.with_workers())).await,
        Command::Logs(args) => job::run(&context, &JobCommand::Log(args)).await,
        Command::Workers(_) => worker_list::list(&context).await,
        Command::Nodes(_) => nodes::run(&context).await,
        Command::Retention(command) => retention::run(&context, &command).await,
        Command::Type(command) => types::run(&context, &command).await,
        Command::Schedule(command) => schedule::run(&context, &command).await,
        Command::Key(command) => key::run(&context, &command),
        Command::Token(command) => token::run(&context, &command).await,
        Command::Audit(args) => audit::run(&context, &args).await,
        Command::Call(args) => call::run(&context, &args).await,
        Command::Input(args) => input::run(&context, &args).await,
        Command::Progress(args) => progress::run(&context, &args).await,
        Command::Events(args) => events::run(&context, &args).await,
        Command::Move(args) => move_up::run(&context, &args).await,
        Command::Doctor(_) => doctor::run(&context).await,
        Command::Config(command) => config::run(&context, &command),
        Command::Slot(_) => Err(Failure::usage("this command is for the worker's own use")),
        Command::Completions(_) | Command::Man(_) | Command::Help(_) => Ok(Exit::Ok),
    }
}

/// Runs until the work ends or Ctrl-C is pressed.
async fn until_interrupted<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::select! {
        done = work => done,
        () = interrupted() => Err(Failure::new(Exit::Interrupted, "interrupted")),
    }
}

/// Waits for Ctrl-C or SIGTERM; forever if no signal handler can be installed.
async fn interrupted() {
    match Signals::listen() {
        Ok(mut signals) => signals.next().await,
        Err(_) => std::future::pending().await,
    }
}

/// Asks for confirmation; fails without a terminal.
fn confirm(what: &str) -> Outcome<()> {
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Err(Failure::usage("cannot ask for confirmation without a terminal")
            .fix("add --yes to continue without confirmation"));
    }
    write!(stderr, "{what}? [y/N] ").and_then(|()| stderr.flush())?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(Exit::Cancelled, "nothing was changed")),
    }
}

/// The value of a flag that accepts a text, `@FILE` or `-` for standard input.
pub fn text_of(value: &str, what: &str) -> Outcome<String> {
    let unreadable = |error: std::io::Error| {
        Failure::usage(format!("failed to read {what} from {value}")).why(error.to_string())
    };
    match value.strip_prefix('@') {
        _ if value == "-" => std::io::read_to_string(std::io::stdin().lock()).map_err(unreadable),
        Some(path) => std::fs::read_to_string(path).map_err(unreadable),
        None => Ok(value.to_owned()),
    }
}
