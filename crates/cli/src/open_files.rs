//! The limit of open files. A server uses all that the system allows it; jobs keep the usual limit, because programs
//! exist that fail with a higher one.

use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// The limit with which this process was started, if it was raised.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of this process to the hard one.
pub fn raise() {
    let before = getrlimit(Resource::Nofile);
    if before.current == before.maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before }) {
        Ok(()) => drop(BEFORE.set(before)),
        Err(error) => tracing::warn!("failed to raise the limit of open files: {error}"),
    }
}

/// Gives a child process, which has just been started, the limit from before.
pub fn restore(child: Option<u32>) {
    let pid = child.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let (Some(pid), Some(before)) = (pid, BEFORE.get())
        && let Err(error) = prlimit(Some(pid), Resource::Nofile, *before)
    {
        tracing::warn!("failed to restore the limit of open files for the worker: {error}");
    }
}
