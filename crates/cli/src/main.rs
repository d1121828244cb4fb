//! The command line of Jobhall: the only binary, which assembles the crates.
//!
//! A command parses its own arguments (`commands/<noun>.rs`), calls the server through the client, and prints through
//! `output`. Nothing else prints, and nothing but `exit.rs` knows an exit code.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod context;
mod credential;
mod database;
mod exit;
mod failure;
mod hall_key;
mod hosts;
mod job_user;
mod limits;
mod listen;
mod local_worker;
mod logging;
mod node;
mod open_files;
mod output;
mod running;
mod server;
mod serving;
mod settings;
mod size;
mod suggest;
mod worker_file;

use std::process::ExitCode;

use clap::Parser as _;

use crate::exit::Exit;

/// A server has thousands of buffers that are never written; this allocator keeps them out of memory
/// (bench/README.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Before anything else: the processes of a slot must be small and have one thread.
    let mut arguments = std::env::args_os();
    if arguments.nth(1).is_some_and(|word| word == commands::slot::NAME) {
        return commands::slot::start(arguments);
    }
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let exit = match run(cli) {
        Ok(exit) => exit,
        Err(failure) => {
            if failure.exit != Exit::Ok {
                output::complain(&failure);
            }
            failure.exit
        }
    };
    ExitCode::from(exit.code())
}

/// Help and version are successes; any other report of clap is an error.
fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { Exit::Ok.code() })
}

fn run(cli: args::Cli) -> failure::Outcome {
    // A server uses several threads. All other commands wait most of the time, and a worker forwards output: there,
    // waking another thread for each chunk would cost more than the work.
    let mut builder = match cli.command {
        args::Command::Up(_) | args::Command::Server(_) | args::Command::Run(_) | args::Command::Move(_) => {
            tokio::runtime::Builder::new_multi_thread()
        }
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(failure::Failure::from)?;
    let exit = runtime.block_on(commands::run(cli));
    // A thread that still reads from a terminal must not delay the exit.
    runtime.shutdown_background();
    exit
}
