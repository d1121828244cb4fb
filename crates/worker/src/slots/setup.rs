//! How the processes of a slot are set up, once for each slot: what a job can reach, and its limits.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jobhall_protocol::ProcessLimits;
use serde::{Deserialize, Serialize};

/// Passed to the processes of a slot as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Whether setuid programs, such as `sudo`, have no effect in a slot. A worker that is not root can kill every
    /// process of a command only if this is set.
    pub no_new_privileges: bool,
    /// A cgroup v2 directory in which this worker may create a group for each slot; see
    /// [`crate::supervisor::own_group`].
    pub control_group: Option<PathBuf>,
    /// What jobs cannot read. If it is none, slots share the file system of the worker.
    pub hidden: Option<Hidden>,
    /// Limits of each process of a job.
    pub limits: ProcessLimits,
    /// Whom jobs run as, if not as the worker. The worker must be root.
    pub user: Option<JobUser>,
}

/// A user of this machine, as whom jobs run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobUser {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// All groups of the user.
    pub groups: Vec<u32>,
    pub home: PathBuf,
}

/// Directories and files that jobs cannot read, none of them below another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hidden(Vec<HiddenPath>);

/// A path without symbolic links.
///
/// A job may be able to rename the directories above it. Then the path would name something else, and what is to be
/// hidden could be read elsewhere. So the directory that was there at first is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HiddenPath {
    pub(crate) path: PathBuf,
    /// The directory at the path or, if a file is there, the directory that it is in. None if nothing could be
    /// found there.
    pub(crate) directory: Option<Identity>,
    pub(crate) is_directory: bool,
}

/// Device and inode of a file.
pub(crate) type Identity = (u64, u64);

/// Which files were at the hidden paths when a slot covered them. A file that was replaced since is not covered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Covered(Vec<Option<Identity>>);

impl Hidden {
    /// What is at these paths now.
    ///
    /// # Errors
    /// One of the paths cannot be resolved.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> io::Result<Self> {
        let mut hidden = paths.into_iter().map(HiddenPath::new).collect::<io::Result<Vec<_>>>()?;
        hidden.sort_by(|a, b| a.path.cmp(&b.path));
        let mut kept: Vec<HiddenPath> = Vec::new();
        for one in hidden {
            if !kept.iter().any(|above| one.path.starts_with(&above.path)) {
                kept.push(one);
            }
        }
        Ok(Self(kept))
    }

    /// The hidden directory that this path is in, if any.
    #[must_use]
    pub fn above(&self, path: &Path) -> Option<&Path> {
        self.0.iter().map(|one| one.path.as_path()).find(|hidden| path.starts_with(hidden))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &HiddenPath> {
        self.0.iter()
    }

    pub(crate) fn covered(&self) -> Covered {
        let identity = |one: &HiddenPath| std::fs::metadata(&one.path).ok().map(|about| identity(&about));
        Covered(self.0.iter().map(identity).collect())
    }
}

impl HiddenPath {
    fn new(path: PathBuf) -> io::Result<Self> {
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                return Ok(Self { path: std::path::absolute(path)?, directory: None, is_directory: false });
            }
            Err(error) => return Err(error),
        };
        let is_directory = path.is_dir();
        let directory = if is_directory { path.as_path() } else { path.parent().unwrap_or(&path) };
        let directory = Some(identity(&std::fs::metadata(directory)?));
        Ok(Self { path, directory, is_directory })
    }
}

pub(crate) fn identity(about: &std::fs::Metadata) -> Identity {
    (about.dev(), about.ino())
}
