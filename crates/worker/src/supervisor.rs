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

pub(crate) mod group;
mod isolation;
mod job;
mod monitor;
mod output;
mod slot;
mod socket;
mod spawn;
pub(crate) mod tree;

use std::ffi::{CStr, OsString};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::slots::setup::{JobUser, Setup};
use jobhall_protocol::ProcessLimits;
use rustix::process::{Gid, Resource, Rlimit, Uid, getpid, getrlimit, set_child_subreaper, setrlimit};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

pub use group::own_group;

/// The role that the worker starts; it starts the other one itself.
pub(crate) const MONITOR: &str = "monitor";
const SUPERVISOR: &str = "supervisor";
/// Sets itself up like a supervisor and exits: whether a slot can be isolated is found out by doing it.
pub(crate) const PROBE: &str = "probe";

/// How a process of a slot begins its error.
pub(crate) const FAILED: &str = "jobhall slot: ";

/// Runs a process of a slot until the slot ends. `arguments` are those after the name of the hidden command.
///
/// Its standard input must be the socket to the worker, which is the case when [`crate::Slots`] started it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match play(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{FAILED}{error}");
            ExitCode::FAILURE
        }
    }
}

fn play(arguments: &[OsString]) -> io::Result<()> {
    let unknown = || io::Error::other("this command is for the worker's own use");
    let [role, setup, rest @ ..] = arguments else { return Err(unknown()) };
    let setup: Setup = setup.to_str().and_then(|text| serde_json::from_str(text).ok()).ok_or_else(unknown)?;
    match (role.to_str(), rest) {
        (Some(MONITOR), []) => monitor::main(arguments.len(), setup),
        (Some(SUPERVISOR), [monitor]) => {
            slot::main(monitor.to_str().and_then(|pid| pid.parse().ok()).ok_or_else(unknown)?, &setup)
        }
        (Some(PROBE), []) => set_up(&setup),
        _ => Err(unknown()),
    }
}

/// What a supervisor does before its first command; all commands inherit it.
fn set_up(setup: &Setup) -> io::Result<()> {
    if setup.no_new_privileges {
        rustix::thread::set_no_new_privs(true)?;
    }
    limit(&setup.limits)?;
    setup.hidden.as_ref().map_or(Ok(()), isolation::enter)?;
    // Last, because it needs the rights of root for all before.
    setup.user.as_ref().map_or(Ok(()), become_user)
}

/// This process has one thread, so the ids of the thread are those of the process.
fn become_user(user: &JobUser) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    Ok(set_thread_res_uid(uid, uid, uid)?)
}

/// A limit is only lowered: the one of the worker remains if it is lower.
fn limit(limits: &ProcessLimits) -> io::Result<()> {
    let given = [
        (Resource::Core, Some(limits.core_bytes)),
        (Resource::Nofile, limits.open_files),
        (Resource::Nproc, limits.processes),
        (Resource::As, limits.memory_bytes),
    ];
    for (resource, value) in given {
        if value.is_some() {
            let own = getrlimit(resource);
            let least = |own: Option<u64>| own.map_or(value, |own| value.map(|value| value.min(own)));
            setrlimit(resource, Rlimit { current: least(own.current), maximum: least(own.maximum) })?;
        }
    }
    Ok(())
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
