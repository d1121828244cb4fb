//! A control group for a slot: a second way to find its processes, if the worker was given a directory for control
//! groups.
//!
//! If monitor and supervisor are both killed, the group still contains their processes: the worker ends it and, if the
//! worker was killed too, the next slot in the same directory. Also, `cgroup.kill` ends in one step processes that fork
//! faster than `/proc` can be read.
//!
//! The supervisor does not kill by group, because it is in it: moving the supervisor out and in around every
//! command would cost more than the command.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::tree::LONGEST_PAUSE;

const PREFIX: &str = "hall-slot-";

/// Time limit for the kernel to empty a killed group.
const EMPTIED_WITHIN: Duration = Duration::from_secs(2);

/// The group of one slot.
pub(super) struct Group(PathBuf);

impl Group {
    fn of(place: &Path, monitor: u32) -> Self {
        Self(place.join(format!("{PREFIX}{monitor}")))
    }

    /// Creates the group of this process below `place`, after ending groups that dead monitors left there.
    pub(super) fn make(place: &Path) -> io::Result<Self> {
        sweep(place);
        let group = Self::of(place, std::process::id());
        fs::create_dir(&group.0)?;
        if group.0.join("cgroup.kill").exists() {
            return Ok(group);
        }
        group.remove();
        Err(io::Error::other("control groups there have no cgroup.kill"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Kills all processes in the group, however fast they fork.
    pub(super) fn kill(&self) {
        let _nothing_else_to_try = fs::write(self.0.join("cgroup.kill"), "1");
    }

    /// Removes the group once it is empty; a group that does not become empty is left to a later sweep.
    pub(super) fn remove(&self) {
        let give_up_at = Instant::now() + EMPTIED_WITHIN;
        while fs::remove_dir(&self.0).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy) {
            if Instant::now() >= give_up_at {
                return;
            }
            std::thread::sleep(LONGEST_PAUSE);
        }
    }
}

/// Moves this process, and with it its future children, into a group.
pub(super) fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// Ends the group of a slot whose processes were killed.
pub(crate) fn end(place: &Path, monitor: u32) {
    let group = Group::of(place, monitor);
    group.kill();
    group.remove();
}

/// Ends the groups of monitors that have ended.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let monitor = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if monitor.is_some_and(|monitor| is_gone(monitor) && is_visible(&entry.path())) {
            let group = Group(entry.path());
            group.kill();
            group.remove();
        }
    }
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Whether processes of the group are visible. A process of another PID namespace shows as 0; its monitor would be
/// invisible too.
fn is_visible(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|text| text.lines().all(|line| line != "0"))
}

/// The control group of this process, if it may create groups in it.
///
/// It may be able to even if the service manager does not expect it.
#[must_use]
pub fn own_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.find(|fields| fields.get(2) == Some(&"cgroup2"))?.get(1)?.to_string();
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let path = Path::new(&mount).join(own);
    let writable = |file: &Path| rustix::fs::access(file, rustix::fs::Access::WRITE_OK).is_ok();
    (writable(&path) && writable(&path.join("cgroup.procs"))).then_some(path)
}
