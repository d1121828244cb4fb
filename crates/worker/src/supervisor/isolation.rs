//! The file system as the jobs of a slot see it: without the server's data and the worker's credential.
//!
//! In a mount namespace of the slot, each hidden directory is covered by an empty one, and each hidden file by an empty
//! file. Landlock then closes the namespace: a process in a Landlock domain cannot mount or unmount, and cannot trace a
//! process outside of the domain, so `/proc/PID/root` of another process is no way around the mounts. The ruleset
//! allows all access below `/`, because Landlock cannot exclude a directory below an allowed one.
//!
//! A job that runs as root keeps root's access to devices, and with that to the disk below the file system.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr,
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{DumpableBehavior, getgid, getuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use crate::slots::setup::{Hidden, HiddenPath, identity};

/// The capabilities with which root could see below the mounts, by a copy of the mount or by a file handle, and with which
/// it could read the environment of server and worker.
const UNCOVERING: [CapabilitySet; 3] =
    [CapabilitySet::SYS_ADMIN, CapabilitySet::DAC_READ_SEARCH, CapabilitySet::PERFMON];

/// The first version of Landlock in which files can be moved between directories.
const LANDLOCK: ABI = ABI::V2;

/// Hides these paths from this process and all that it starts.
pub(super) fn enter(hidden: &Hidden) -> io::Result<()> {
    // Another thread would keep the mounts of the machine.
    if fs::read_dir("/proc/self/task")?.count() > 1 {
        return Err(io::Error::other("a process of a slot has several threads"));
    }
    let here = std::env::current_dir();
    unshare().map_err(|error| because("no mount namespace", &error))?;
    // Mounts of the machine still appear here; those made here appear nowhere else.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|error| because("mounts cannot be changed", &error.into()))?;
    cover_all(hidden).map_err(|error| because("a path cannot be hidden", &error))?;
    // The open directory of this process may be below a mount, and a job can reach it through /proc.
    std::env::set_current_dir(here.as_deref().unwrap_or(Path::new("/")))
        .or_else(|_| std::env::set_current_dir("/"))?;
    close().map_err(|error| because("no Landlock", &error))?;
    drop_capabilities().map_err(|error| because("capabilities cannot be dropped", &error))?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn because(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Enters a mount namespace; without the capability for it, also a user namespace in which all ids are the same.
fn unshare() -> io::Result<()> {
    if capabilities(None)?.effective.contains(CapabilitySet::SYS_ADMIN) {
        return leave(UnshareFlags::NEWNS);
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    leave(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

#[expect(deprecated, reason = "the unsafe variant is for flags that unshare file descriptors; these do not")]
fn leave(namespaces: UnshareFlags) -> io::Result<()> {
    Ok(rustix::thread::unshare(namespaces)?)
}

fn cover_all(hidden: &Hidden) -> io::Result<()> {
    hidden
        .iter()
        .try_for_each(|one| cover(one).map_err(|error| because(&one.path.display().to_string(), &error)))
}

fn cover(one: &HiddenPath) -> io::Result<()> {
    let moved = || io::Error::other("it was moved or replaced after the worker has started");
    let at = match open(one) {
        Ok(at) => at,
        // If this process cannot reach it, its jobs cannot either.
        Err(Errno::ACCESS) => return Ok(()),
        Err(Errno::NOENT) if one.directory.is_none() => return Ok(()),
        Err(Errno::NOENT) => return Err(moved()),
        Err(error) => return Err(error.into()),
    };
    let about = at.file.metadata()?;
    let directory = if one.is_directory { identity(&about) } else { identity(&at.parent.metadata()?) };
    if one.directory.is_some_and(|known| known != directory) {
        return Err(moved());
    }
    // By the open file: the path could name another one by now.
    let target = format!("/proc/self/fd/{}", at.file.as_raw_fd());
    if about.is_dir() {
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        return Ok(mount("none", target, "tmpfs", flags, Some(c"size=4k,mode=0555"))?);
    }
    Ok(mount_bind("/dev/null", target)?)
}

struct Opened {
    parent: File,
    file: File,
}

fn open(one: &HiddenPath) -> rustix::io::Result<Opened> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (parent, name) = (one.path.parent(), one.path.file_name());
    let (parent, name) = parent.zip(name).ok_or(Errno::INVAL)?;
    let parent = openat(CWD, parent, flags | OFlags::DIRECTORY, Mode::empty())?;
    let file = openat(&parent, name, flags, Mode::empty())?;
    Ok(Opened { parent: parent.into(), file: file.into() })
}

/// Forbids mounts and tracing of other processes.
fn close() -> io::Result<()> {
    let all = AccessFs::from_all(LANDLOCK);
    let root = PathFd::new("/").map_err(io::Error::other)?;
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rule(PathBeneath::new(root, all)))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map(|_| ())
        .map_err(io::Error::other)
}

/// Jobs do not need what this process needed for the mounts. Root keeps its other capabilities.
fn drop_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    for capability in UNCOVERING {
        match remove_capability_from_bounding_set(capability) {
            // An older kernel does not have it.
            Err(Errno::INVAL) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let kept = |set: CapabilitySet| {
        if getuid().is_root() {
            UNCOVERING.into_iter().fold(set, CapabilitySet::difference)
        } else {
            CapabilitySet::empty()
        }
    };
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    let sets = CapabilitySets {
        effective: kept(effective),
        permitted: kept(permitted),
        inheritable: kept(inheritable),
    };
    Ok(set_capabilities(None, sets)?)
}
