//! Where a job runs: a directory for each attempt, with its working directory, its temporary files and what it leaves.
//!
//! The job created what is in it, so nothing of that is trusted.

mod leftover;
pub(crate) mod outputs;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::CWD;
use rustix::process::geteuid;

pub(crate) use self::leftover::sweep;
use self::outputs::{names, open_folder};
use crate::slots::setup::JobUser;

/// The names of the directories in a workspace, in order.
const FOLDERS: [&str; 3] = [OUTPUT, TEMPORARY, WORK];
const OUTPUT: &str = "output";
const TEMPORARY: &str = "tmp";
const WORK: &str = "work";
/// The beginning of the names of the directories of workers, and of workspaces that are kept.
const PREFIX: &str = "jobhall-workspaces-";
const KEPT: &str = "kept-";
/// How many directories are made until one can be locked.
const ROOTS: usize = 8;
/// The mode of the directories: accessible only to the owner.
const MODE: u32 = 0o700;

/// The workspaces of a worker, in one directory that is made for the first.
///
/// Those that jobs left untouched are used again: creating and removing them costs more than anything else around a
/// short job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspaces(Arc<Mutex<Pool>>);

#[derive(Debug, Default)]
struct Pool {
    root: Option<Arc<Root>>,
    spare: Vec<Workspace>,
}

/// Removed when the last workspace in it was removed, unless one was kept.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// The directory itself, locked as long as the worker lives.
    _lock: OwnedFd,
}

impl Drop for Root {
    fn drop(&mut self) {
        let _may_not_be_empty = fs::remove_dir(&self.path);
    }
}

/// The directory of an attempt; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: PathBuf,
    owner: u32,
    is_kept: bool,
    root: Arc<Root>,
}

impl Workspaces {
    /// An empty workspace with this name, for jobs of this user or of the worker's.
    pub(crate) fn take(&self, name: &str, user: Option<&JobUser>) -> io::Result<Workspace> {
        let mut pool = self.lock();
        if let Some(mut spare) = pool.spare.pop() {
            let folder = spare.root.path.join(name);
            if fs::rename(&spare.folder, &folder).is_ok() {
                spare.folder = folder;
                return Ok(spare);
            }
        }
        let root = match &pool.root {
            // It may have been removed by a service that cleans up temporary files.
            Some(root) if root.path.is_dir() => Arc::clone(root),
            _ => Arc::clone(pool.root.insert(Arc::new(Root::new(&std::env::temp_dir(), user.is_some())?))),
        };
        Workspace::new(root, name, user)
    }

    /// Keeps a workspace that is untouched for another attempt.
    pub(crate) fn put(&self, left: Workspace) {
        if !left.is_kept {
            self.lock().spare.push(left);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Root {
    /// A new directory in this one.
    fn new(temporary: &Path, is_for_others: bool) -> io::Result<Root> {
        let mode = if is_for_others { 0o711 } else { MODE };
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).permissions(Permissions::from_mode(mode));
        for _ in 0..ROOTS {
            let path = builder.tempdir_in(temporary)?.keep();
            // Another worker may have removed it before it was locked.
            if let Some(_lock) = leftover::lock(&path) {
                return Ok(Root { path, _lock });
            }
        }
        Err(io::Error::other(format!("no directory could be locked in {}", temporary.display())))
    }
}

impl Workspace {
    fn new(root: Arc<Root>, name: &str, user: Option<&JobUser>) -> io::Result<Workspace> {
        let folder = root.path.join(name);
        let mut builder = DirBuilder::new();
        builder.mode(MODE);
        builder.create(&folder)?;
        let owner = user.map_or_else(|| geteuid().as_raw(), |user| user.uid);
        let workspace = Workspace { folder, owner, is_kept: false, root };
        FOLDERS.iter().try_for_each(|name| builder.create(workspace.folder.join(name)))?;
        if let Some(user) = user {
            // Last the one above: until then the user cannot change what is in it.
            let inner = FOLDERS.map(|name| workspace.folder.join(name));
            for folder in inner.iter().chain([&workspace.folder]) {
                chown(folder, Some(user.uid), Some(user.gid))?;
            }
        }
        Ok(workspace)
    }

    /// The file for the result.
    pub(crate) fn result(&self) -> PathBuf {
        self.folder.join("result.json")
    }

    /// The file with the inputs.
    pub(crate) fn inputs(&self) -> PathBuf {
        self.folder.join("inputs.json")
    }

    /// A file beside the directories of the job.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes the file with the inputs.
    pub(crate) fn write_inputs(&self, text: &[u8], user: Option<&JobUser>) -> io::Result<()> {
        self.write_file(&self.inputs(), text, user)
    }

    /// Writes a file that the job can read. Other jobs of the same user can write to the directory, so no link is
    /// followed.
    pub(crate) fn write_file(&self, path: &Path, text: &[u8], user: Option<&JobUser>) -> io::Result<()> {
        self.create_file(path, user)?.write_all(text)
    }

    /// Creates a file that the job can read, to be written by the worker.
    pub(crate) fn create_file(&self, path: &Path, user: Option<&JobUser>) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(path)?;
        if let Some(user) = user {
            fchown(&file, Some(user.uid), Some(user.gid))?;
        }
        Ok(file)
    }

    /// The directory for artifacts.
    pub(crate) fn output(&self) -> PathBuf {
        self.folder.join(OUTPUT)
    }

    /// The working directory of a job that names no other.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.join(WORK)
    }

    /// The directory for temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.folder.join(TEMPORARY)
    }

    /// Does not remove it; returns its path. Its new name says that no later worker removes it either.
    pub(crate) fn keep(&mut self) -> &Path {
        self.is_kept = true;
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        let kept = self.root.path.join(format!("{KEPT}{name}"));
        match fs::rename(&self.folder, &kept) {
            Ok(()) => self.folder = kept,
            Err(error) => tracing::warn!("failed to rename {}: {error}", self.folder.display()),
        }
        &self.folder
    }

    /// Whether a directory has its original owner and mode.
    fn is_own(&self, folder: &OwnedFd) -> io::Result<bool> {
        let about = rustix::fs::fstat(folder)?;
        Ok(about.st_mode & 0o7777 == MODE && about.st_uid == self.owner)
    }

    /// Whether it is as it was when it was made.
    pub(crate) fn is_untouched(&self) -> bool {
        let looked = || -> io::Result<bool> {
            let folder = open_folder(CWD, self.folder.as_os_str())?;
            let mut found = names(&folder, FOLDERS.len() + 1)?;
            found.sort_unstable();
            if !self.is_own(&folder)? || found != FOLDERS {
                return Ok(false);
            }
            let is_new = |name: &&str| -> io::Result<bool> {
                let inner = open_folder(&folder, OsStr::new(name))?;
                Ok(self.is_own(&inner)? && names(&inner, 1)?.is_empty())
            };
            FOLDERS.iter().map(is_new).try_fold(true, |all, one| Ok(all && one?))
        };
        looked().unwrap_or(false)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = remove(&self.folder)
        {
            tracing::warn!("failed to remove the workspace {}: {error}", self.folder.display());
        }
    }
}

/// Removes a directory with all that is in it, but nothing that is mounted there.
fn remove(folder: &Path) -> io::Result<()> {
    if let Some(mounted) = mount_in(folder)? {
        return Err(io::Error::other(format!("something is mounted on {}", mounted.display())));
    }
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_removable(folder)?;
            fs::remove_dir_all(folder)
        }
        removed => removed,
    }
}

/// Some programs leave directories that are not writable.
fn make_removable(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(MODE))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_removable(&entry.path())?;
        }
    }
    Ok(())
}

/// A mount point in this directory, if there is one.
fn mount_in(folder: &Path) -> io::Result<Option<PathBuf>> {
    let folder = folder.canonicalize()?;
    let mounts = fs::read("/proc/self/mountinfo")?;
    let points =
        mounts.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    Ok(points.map(unescaped).find(|point| point.starts_with(&folder)))
}

/// Blanks and backslashes in a path are written as `\` with three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code =
            after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn audit_m10_a_workspace_is_empty_named_after_its_attempt_and_removed() {
        let workspaces = Workspaces::default();
        let left = workspaces.take("7-1", None).unwrap();
        assert!(left.folder.ends_with("7-1"));
        let all = [left.output(), left.work(), left.temporary()];
        assert!(all.iter().all(|folder| fs::read_dir(folder).unwrap().next().is_none()));
        fs::write(left.work().join("a"), "").unwrap();
        fs::create_dir_all(left.temporary().join("b/c")).unwrap();
        let (folder, root) = (left.folder.clone(), left.root.path.clone());
        assert!(!left.is_untouched());
        drop(left);
        assert!(!folder.exists());
        workspaces.put(workspaces.take("7-2", None).unwrap());
        drop(workspaces);
        assert!(!root.exists());
    }

    #[test]
    fn ground_6_the_file_with_the_inputs_is_new_and_only_for_its_job() {
        let workspaces = Workspaces::default();
        let left = workspaces.take("7-1", None).unwrap();
        left.write_inputs(b"[]", None).unwrap();
        assert_eq!(fs::read_to_string(left.inputs()).unwrap(), "[]");
        assert_eq!(fs::metadata(left.inputs()).unwrap().permissions().mode() & 0o777, 0o400);
        fs::remove_file(left.inputs()).unwrap();
        let target = left.work().join("target");
        symlink(&target, left.inputs()).unwrap();
        let refused = left.write_inputs(b"[]", None).unwrap_err();
        assert_eq!((refused.kind(), target.exists()), (io::ErrorKind::AlreadyExists, false));
    }

    #[test]
    fn a_workspace_can_be_kept() {
        let workspaces = Workspaces::default();
        let mut left = workspaces.take("7-1", None).unwrap();
        fs::write(left.work().join("a"), "b").unwrap();
        let kept = left.keep().to_owned();
        let root = kept.parent().unwrap().file_name().unwrap().to_str().unwrap();
        assert!(root.starts_with("jobhall-workspaces-"), "its name says what it is: {root}");
        workspaces.put(left);
        drop(workspaces);
        assert_eq!(fs::read_to_string(kept.join("work/a")).unwrap(), "b");
        fs::remove_dir_all(kept.parent().unwrap()).unwrap();
    }

    #[test]
    fn only_a_workspace_that_is_as_new_is_used_again() {
        type Touch = fn(&Workspace);
        let touches: [Touch; 9] = [
            |left| fs::write(left.result(), "1").unwrap(),
            |left| fs::write(left.output().join("a"), "").unwrap(),
            |left| fs::write(left.work().join("a"), "").unwrap(),
            |left| fs::create_dir(left.temporary().join("a")).unwrap(),
            |left| fs::write(left.folder.join("other"), "").unwrap(),
            |left| fs::remove_dir(left.output()).unwrap(),
            |left| fs::set_permissions(left.work(), Permissions::from_mode(0o777)).unwrap(),
            |left| fs::set_permissions(&left.folder, Permissions::from_mode(0o755)).unwrap(),
            |left| {
                fs::remove_dir(left.work()).unwrap();
                symlink("/etc", left.work()).unwrap();
            },
        ];
        let workspaces = Workspaces::default();
        for touch in touches {
            let left = workspaces.take("1-1", None).unwrap();
            touch(&left);
            assert!(!left.is_untouched());
        }
        let left = workspaces.take("1-2", None).unwrap();
        fs::write(left.work().join("a"), "").unwrap();
        fs::remove_file(left.work().join("a")).unwrap();
        assert!(left.is_untouched());
        workspaces.put(left);
        assert!(workspaces.lock().spare[0].folder.ends_with("1-2"));
        assert!(workspaces.take("1-3", None).unwrap().work().ends_with("1-3/work"));
        assert!(workspaces.lock().spare.is_empty());
    }

    #[test]
    fn mount_points_are_read_with_their_blanks() {
        assert_eq!(unescaped(br"/tmp/a\040b\134c\9"), Path::new(r"/tmp/a b\c\9"));
        assert_eq!(mount_in(Path::new("/proc/self")).unwrap(), None);
        assert_eq!(mount_in(Path::new("/proc")).unwrap(), Some("/proc".into()));
    }

    #[test]
    fn directories_that_are_not_writable_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(inner.parent().unwrap(), Permissions::from_mode(0o500)).unwrap();
        make_removable(folder.path()).unwrap();
        assert_eq!(fs::metadata(inner.parent().unwrap()).unwrap().permissions().mode() & 0o777, MODE);
        remove(&folder.path().join("a")).unwrap();
        assert!(!inner.exists());
    }
}
