//! The files that a job leaves: its result and a directory of artifacts.
//!
//! The job created both, so neither is trusted. Files are opened relative to the open directory, one name at a
//! time. Links are not followed, pipes and devices are not read, and a hard link to another user's file is ignored.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use jobhall_protocol::ARTIFACTS;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

/// Maximum number of names read in total.
const LOOKED_AT: usize = 4 * ARTIFACTS;
/// Maximum depth of directories.
const DEPTH: usize = 32;

/// The content of the directory for artifacts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Regular files by their relative paths, sorted.
    pub(crate) files: Vec<PathBuf>,
    /// Entries that cannot be stored, and why.
    pub(crate) odd: Vec<(PathBuf, String)>,
}

/// Scans the directory, within limits.
pub(crate) fn look(output: &Path) -> Found {
    let mut found = Found::default();
    let mut looked_at = 0;
    match open_folder(CWD, output.as_os_str()) {
        Ok(root) => walk(&root, Path::new(""), 1, &mut looked_at, &mut found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => found.odd.push((PathBuf::new(), error.to_string())),
    }
    if looked_at > LOOKED_AT {
        found.odd.push((PathBuf::new(), format!("more than {LOOKED_AT} names; the rest was not read")));
    }
    found.files.sort();
    let kept = found.files.len().min(ARTIFACTS);
    for more in found.files.split_off(kept) {
        found.odd.push((more, format!("an attempt has {ARTIFACTS} artifacts at most")));
    }
    found
}

fn walk(folder: &OwnedFd, place: &Path, depth: usize, looked_at: &mut usize, found: &mut Found) {
    let mut odd = |path: PathBuf, why: String| found.odd.push((path, why));
    let names = match names(folder, LOOKED_AT.saturating_sub(*looked_at) + 1) {
        Ok(names) => names,
        Err(error) => return odd(place.to_owned(), error.to_string()),
    };
    for name in names {
        *looked_at += 1;
        if *looked_at > LOOKED_AT {
            return;
        }
        let path = place.join(&name);
        let kind = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|about| FileType::from_raw_mode(about.st_mode));
        match kind {
            Ok(FileType::RegularFile) => found.files.push(path),
            Ok(FileType::Directory) if depth >= DEPTH => {
                found.odd.push((path, format!("it is nested deeper than {DEPTH} directories")));
            }
            Ok(FileType::Directory) => match open_folder(folder, &name) {
                Ok(inner) => walk(&inner, &path, depth + 1, looked_at, found),
                Err(error) => found.odd.push((path, error.to_string())),
            },
            Ok(FileType::Symlink) => found.odd.push((path, "it is a symbolic link".to_owned())),
            Ok(_) => found.odd.push((path, "it is not a plain file".to_owned())),
            Err(error) => found.odd.push((path, error.to_string())),
        }
    }
}

/// The names in a directory, up to a limit.
pub(crate) fn names(folder: &OwnedFd, most: usize) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && names.len() < most {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Opens a regular file in a directory by its relative path; returns it with its size.
pub(crate) fn open(directory: &Path, path: &Path) -> io::Result<(File, u64)> {
    let mut folder = open_folder(CWD, directory.as_os_str())?;
    let owner = rustix::fs::fstat(&folder)?.st_uid;
    let mut names: Vec<&OsStr> = path.components().filter_map(name_of).collect();
    let last = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
    for name in names {
        folder = open_folder(&folder, name)?;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(&folder, last, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    if about.nlink() > 1 && about.uid() != owner {
        return Err(io::Error::other("it is a link to a file of another user"));
    }
    Ok((file, about.len()))
}

fn name_of(component: Component<'_>) -> Option<&OsStr> {
    match component {
        Component::Normal(name) => Some(name),
        _ => None,
    }
}

pub(crate) fn open_folder(from: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(from, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;
    use crate::workspace::Workspaces;

    #[test]
    fn only_plain_files_are_found_whatever_a_job_plants() {
        let outputs = Workspaces::default().take("1-1", None).unwrap();
        let output = outputs.output();
        fs::create_dir_all(output.join("a/b")).unwrap();
        for name in ["z", "a/b/c", "a/b c"] {
            fs::write(output.join(name), name).unwrap();
        }
        symlink("/etc/passwd", output.join("link")).unwrap();
        symlink("/etc", output.join("folder-link")).unwrap();
        symlink("z", output.join("a/inner-link")).unwrap();
        assert!(Command::new("mkfifo").arg(output.join("pipe")).status().unwrap().success());
        let socket = std::os::unix::net::UnixListener::bind(output.join("socket")).unwrap();
        let found = look(&output);
        drop(socket);
        assert_eq!(found.files, ["a/b/c", "a/b c", "z"].map(PathBuf::from));
        let mut odd: Vec<_> = found.odd.iter().map(|(path, _)| path.to_str().unwrap()).collect();
        odd.sort_unstable();
        assert_eq!(odd, ["a/inner-link", "folder-link", "link", "pipe", "socket"]);
        let (file, size) = open(&output, Path::new("a/b/c")).unwrap();
        assert_eq!((io::read_to_string(file).unwrap().as_str(), size), ("a/b/c", 5));
        for refused in ["link", "folder-link/passwd", "pipe", "a", "a/inner-link", "none", ""] {
            assert!(open(&output, Path::new(refused)).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_directory_that_is_gone_or_a_link_is_nothing() {
        let outputs = Workspaces::default().take("1-1", None).unwrap();
        fs::remove_dir(outputs.output()).unwrap();
        assert_eq!(look(&outputs.output()), Found::default());
        symlink("/etc", outputs.output()).unwrap();
        let found = look(&outputs.output());
        assert_eq!((found.files.len(), found.odd.len()), (0, 1));
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let outputs = Workspaces::default().take("1-1", None).unwrap();
        let deep = (0..DEPTH).fold(outputs.output(), |path, _| path.join("d"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("lost"), "").unwrap();
        for n in 0..ARTIFACTS + 3 {
            fs::write(outputs.output().join(format!("f{n:05}")), "").unwrap();
        }
        let found = look(&outputs.output());
        assert_eq!(found.files.len(), ARTIFACTS);
        assert_eq!(found.odd.len(), 3 + 1, "{:?}", found.odd);
        assert!(found.odd.iter().any(|(_, why)| why.contains("32")), "{:?}", found.odd);
    }
}
