//! `jobhall __slot`: the monitor and the supervisor of a job's processes, started by the worker only.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

/// The name of the hidden command.
pub const NAME: &str = "__slot";

/// Keeps the allocator from starting a thread: a process with several threads cannot enter a user namespace.
pub const ONE_THREAD: (&str, &str) = ("_RJEM_MALLOC_CONF", "background_thread:false");

/// Arguments of `__slot`; they are never parsed here, see [`start`].
#[derive(Debug, Args)]
pub struct SlotArgs {
    /// The worker's own words
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// Passes the arguments after `__slot` to the worker's supervisor, before any thread is started.
pub fn start(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    jobhall_worker::supervisor::main(arguments)
}
