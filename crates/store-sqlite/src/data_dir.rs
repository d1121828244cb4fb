//! Checks of the file before SQLite opens it: a suitable file system, no symbolic link, private permissions, an
//! exclusive lock.

pub(crate) mod file_system;
pub(crate) mod moved;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jobhall_store::StoreError;

use crate::options::Options;

/// A data file that only this process may use while this value exists.
#[derive(Debug)]
pub(crate) struct DataDir {
    pub(crate) path: PathBuf,
    /// Never read: the lock is released when the file is closed.
    _lock: File,
}

/// `<path><suffix>`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

impl DataDir {
    /// Checks the path, locks it, and creates an empty file if it does not exist.
    pub(crate) fn take(path: &Path, options: &Options) -> Result<DataDir, StoreError> {
        for suffix in ["", ".lock", "-wal", "-shm", ".moved", ".moved.new"] {
            refuse_symlink(&beside(path, suffix))?;
        }
        refuse_file_system(path, options)?;
        let lock = lock(&beside(path, ".lock"))?;
        create(path).map_err(|error| failed("create", path, &error))?;
        Ok(DataDir { path: path.to_owned(), _lock: lock })
    }
}

pub(crate) fn failed(verb: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::new(format!("failed to {verb} {}: {error}", path.display()))
}

/// A link could lead the server, which may run as root, to another user's file.
fn refuse_symlink(path: &Path) -> Result<(), StoreError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            Err(StoreError::new(format!("{} is a symbolic link, which is refused", path.display())))
        }
        Ok(found) if !found.is_file() => Err(StoreError::new(format!("{} is not a file", path.display()))),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("look at", path, &error)),
    }
}

fn refuse_file_system(path: &Path, options: &Options) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let magic = (options.file_system)(folder).map_err(|error| failed("look at", folder, &error))?;
    match file_system::refused(magic) {
        Some(name) => Err(StoreError::new(format!(
            "{} is on {name}, where SQLite cannot guarantee durability: use a local disk, or PostgreSQL",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// The end of the error if another process has the store open.
pub const LOCKED: &str = "another server has this store open";

fn lock(path: &Path) -> Result<File, StoreError> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = opened.map_err(|error| failed("open", path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(StoreError::new(format!("{} is locked: {LOCKED}", path.display())))
        }
        Err(TryLockError::Error(error)) => Err(failed("lock", path, &error)),
    }
}

/// Only the owner may read the file; SQLite creates the files beside it with the same mode.
fn create(path: &Path) -> io::Result<()> {
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
