//! The two processes of a slot, run by the hidden command of the binary.
//!
//! Both are single-threaded and use no async: the exit of a thread would trigger a parent-death signal, and a
//! supervisor should be small, quick to start and easy to reason about. They learn of each other's death through
//! pidfds and of the worker's through the socket, never through signals, so no notification is lost or delivered
//! too early.
//!
//! A signal that stops a service reaches every process of it. Monitor and supervisor catch TERM, INT and HUP and
//! continue: the worker decides, and closes the socket. They catch the signals instead of ignoring them, because a
//! command would inherit ignored signals.
//!
//! Their process names do not contain the product's name: `pkill -9 jobhall` ends the worker, and they clean up
//! after it.

mod group;
mod job;
mod monitor;
mod output;
mod slot;
mod socket;
mod spawn;
mod tree;

use std::ffi::{CStr, OsString};
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{getpid, set_child_subreaper};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

pub use group::own_group;

/// The role that the worker starts; it starts the other one itself.
pub(crate) const MONITOR: &str = "monitor";
const SUPERVISOR: &str = "supervisor";
pub(crate) const NO_NEW_PRIVILEGES: &str = "--no-new-privileges";
pub(crate) const CONTROL_GROUP: &str = "--control-group";

/// Runs a process of a slot until the slot ends. `arguments` are those after the name of the hidden command.
///
/// Its standard input must be the socket to the worker, which is the case when [`crate::Slots`] started it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match play(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("jobhall slot: {error}");
            ExitCode::FAILURE
        }
    }
}

fn play(arguments: &[OsString]) -> io::Result<()> {
    let unknown = || io::Error::other("this command is for the worker's own use");
    let (role, mut rest) = arguments.split_first().ok_or_else(unknown)?;
    if role == MONITOR && rest.first().is_some_and(|word| word == NO_NEW_PRIVILEGES) {
        rustix::thread::set_no_new_privs(true)?;
        rest = &rest[1..];
    }
    let (group, rest) = match rest {
        [flag, group, rest @ ..] if flag == CONTROL_GROUP => (Some(Path::new(group)), rest),
        rest => (None, rest),
    };
    match rest {
        [] if role == MONITOR => monitor::main(arguments.len(), group),
        [monitor] if role == SUPERVISOR => {
            slot::main(monitor.to_str().and_then(|pid| pid.parse().ok()).ok_or_else(unknown)?, group)
        }
        _ => Err(unknown()),
    }
}

/// The setup of both roles. Descriptors inherited from the worker are closed: a command gets none.
fn settle_in(name: &CStr) -> io::Result<()> {
    close_fds::set_fds_cloexec(3, &[]);
    rustix::thread::set_name(name)?;
    set_child_subreaper(Some(getpid()))?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
