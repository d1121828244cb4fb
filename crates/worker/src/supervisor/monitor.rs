//! The monitor: starts the supervisor, waits until the worker or the supervisor is gone, and then ends all
//! processes of the slot.
//!
//! It exists because a supervisor can be killed like any process. The orphans are then reparented to the monitor,
//! which is the next subreaper up, and not to the worker, which may have unrelated children. If the monitor is
//! killed, the supervisor notices and cleans up in the same way.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, setsid};

use super::group::Group;
use super::{SUPERVISOR, settle_in, tree};
use crate::slots::setup::Setup;

/// `own` is the number of arguments of the role; those before are the binary's.
pub(super) fn main(own: usize, setup: Setup) -> io::Result<()> {
    // A new session has no terminal: neither an interrupt nor a hang-up of the terminal reaches the slot.
    let _already_leading = setsid();
    settle_in(c"hall-monitor")?;
    let group = setup.control_group.as_deref().and_then(make_group);
    let setup = Setup { control_group: group.as_ref().map(|group| group.path().to_owned()), ..setup };
    let waited = start_supervisor(own, &setup).and_then(|supervisor| wait_for_end(&supervisor));
    group.iter().for_each(Group::kill);
    tree::end_all();
    group.iter().for_each(Group::remove);
    waited
}

/// A slot works without its group too.
fn make_group(place: &std::path::Path) -> Option<Group> {
    let made = Group::make(place);
    made.inspect_err(|error| eprintln!("jobhall slot: no control group in {}: {error}", place.display())).ok()
}

/// In the setup of the supervisor, the control group is its own.
fn start_supervisor(own: usize, setup: &Setup) -> io::Result<Child> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let binary_own = &arguments[..arguments.len().saturating_sub(own)];
    Command::new("/proc/self/exe")
        .arg0("hall-slot")
        .args(binary_own)
        .arg(SUPERVISOR)
        .arg(serde_json::to_string(setup)?)
        .arg(getpid().as_raw_nonzero().to_string())
        .stdin(Stdio::inherit())
        .spawn()
}

fn wait_for_end(supervisor: &Child) -> io::Result<()> {
    let supervisor = pidfd_open(Pid::from_child(supervisor), PidfdFlags::empty())?;
    let worker = io::stdin();
    loop {
        // An empty event mask still reports that the other end was closed.
        let mut ends = [
            PollFd::from_borrowed_fd(worker.as_fd(), PollFlags::empty()),
            PollFd::new(&supervisor, PollFlags::IN),
        ];
        match poll(&mut ends, None) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
