//! Workspaces of workers that were killed. A worker holds a lock on its directory, which ends with its process, so a
//! directory that can be locked is of no worker that lives.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FlockOperation, flock, fstat, stat};
use rustix::process::geteuid;

use super::outputs::open_folder;
use super::{KEPT, PREFIX, remove};

/// Locks a directory of this user; none if another process has it, or if it is not there any more.
pub(super) fn lock(folder: &Path) -> Option<OwnedFd> {
    let opened = open_folder(CWD, folder.as_os_str()).ok()?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (about, named) = (fstat(&opened).ok()?, stat(folder).ok()?);
    let is_same = (about.st_dev, about.st_ino) == (named.st_dev, named.st_ino);
    (is_same && about.st_uid == geteuid().as_raw()).then_some(opened)
}

/// Removes what workers of this user that were killed have left in this directory, except what was to be kept.
pub(crate) fn sweep(temporary: &Path) {
    let Ok(found) = fs::read_dir(temporary) else { return };
    for entry in found.flatten().filter(|entry| begins_with(&entry.file_name(), PREFIX)) {
        let root = entry.path();
        let Some(_lock) = lock(&root) else { continue };
        match sweep_root(&root) {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!("removed {count} workspaces of a killed worker in {}", root.display());
            }
            Err(error) => tracing::warn!("failed to remove workspaces in {}: {error}", root.display()),
        }
    }
}

/// Removes the workspaces in the directory of a worker, and the directory unless one is kept. Returns their number.
fn sweep_root(root: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if !begins_with(&entry.file_name(), KEPT) {
            remove(&entry.path())?;
            count += 1;
        }
    }
    let _may_not_be_empty = fs::remove_dir(root);
    Ok(count)
}

fn begins_with(name: &OsStr, prefix: &str) -> bool {
    name.as_encoded_bytes().starts_with(prefix.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use super::super::{Root, Workspace};
    use super::*;

    /// The directory of a worker with a workspace in which something is left.
    fn worker(temporary: &Path, name: &str) -> Workspace {
        let root = Arc::new(Root::new(temporary, false).unwrap());
        let left = Workspace::new(root, name, None).unwrap();
        fs::write(left.work().join("a"), "").unwrap();
        left
    }

    #[test]
    fn audit_m10_only_workspaces_of_dead_workers_are_removed() {
        let temporary = tempfile::tempdir().unwrap();
        let temporary = temporary.path();
        let live = worker(temporary, "1-1");
        // As a worker leaves it that was killed: the lock is gone, and nothing was removed.
        let dead = temporary.join(format!("{PREFIX}dead"));
        fs::create_dir_all(dead.join("2-1/work/b")).unwrap();
        let mut kept = worker(temporary, "3-1");
        let kept_folder = kept.keep().to_owned();
        let kept_root = kept.root.path.clone();
        fs::create_dir(kept_root.join("3-2")).unwrap();
        drop(kept);
        let (other, far) = (temporary.join("other"), tempfile::tempdir().unwrap());
        fs::create_dir(&other).unwrap();
        fs::create_dir(far.path().join("4-1")).unwrap();
        symlink(far.path(), temporary.join(format!("{PREFIX}link"))).unwrap();
        sweep(temporary);
        assert!(live.work().join("a").exists(), "a worker that lives uses it");
        assert!(!dead.exists());
        assert!(kept_folder.join("work/a").exists() && !kept_root.join("3-2").exists());
        assert!(other.exists() && far.path().join("4-1").exists());
        let root = live.root.path.clone();
        drop(live);
        assert!(!root.exists());
    }
}
