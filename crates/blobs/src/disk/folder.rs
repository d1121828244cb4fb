//! A directory held open. Files in it are opened by a single name, never by a path, and symbolic links are refused
//! at every level, so nothing planted in the blob directory can lead out of it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::BlobError;
use crate::file_store::Found;

const PRIVATE_FOLDER: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    /// Relative to the directory of blobs, for messages.
    name: String,
}

impl Folder {
    /// The directory of blobs itself; its parent must exist.
    pub(super) fn root(path: &Path) -> Result<Folder, BlobError> {
        let name = path.display().to_string();
        match fs::mkdirat(CWD, path, PRIVATE_FOLDER) {
            Ok(()) => sync_parent(path)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(BlobError::io("make", name, error)),
        }
        let fd =
            fs::openat(CWD, path, folder_flags(), Mode::empty()).map_err(|e| refusal("open", &name, e))?;
        Folder { fd, name: "blobs".to_owned() }.tightened()
    }

    /// A directory in this one that only its owner may enter, created if missing.
    pub(super) fn private(&self, name: &str) -> Result<Folder, BlobError> {
        self.make(name)?.tightened()
    }

    fn tightened(self) -> Result<Folder, BlobError> {
        fs::fchmod(&self.fd, PRIVATE_FOLDER).map_err(|e| BlobError::io("protect", self.name.clone(), e))?;
        Ok(self)
    }

    /// A directory in this one, if it exists.
    pub(super) fn inner(&self, name: &str) -> Result<Option<Folder>, BlobError> {
        match fs::openat(&self.fd, name, folder_flags(), Mode::empty()) {
            Ok(fd) => Ok(Some(Folder { fd, name: self.path(name) })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(refusal("open", &self.path(name), error)),
        }
    }

    /// A directory in this one, created if missing; its entry is durable before it is used.
    pub(super) fn make(&self, name: &str) -> Result<Folder, BlobError> {
        if let Some(there) = self.inner(name)? {
            return Ok(there);
        }
        match fs::mkdirat(&self.fd, name, PRIVATE_FOLDER) {
            Ok(()) | Err(Errno::EXIST) => self.sync()?,
            Err(error) => return Err(BlobError::io("make", self.path(name), error)),
        }
        self.inner(name)?.ok_or_else(|| BlobError::Missing { what: self.path(name) })
    }

    /// A file to read and its length, if it exists.
    pub(super) fn read(&self, name: &str) -> Result<Option<(File, u64)>, BlobError> {
        self.open(name, OFlags::RDONLY)
    }

    /// A file to read and write, created if missing.
    pub(super) fn create(&self, name: &str) -> Result<File, BlobError> {
        let opened = self.open(name, OFlags::RDWR | OFlags::CREATE)?;
        opened.map(|(file, _)| file).ok_or_else(|| BlobError::Missing { what: self.path(name) })
    }

    /// A new file; none if the name exists.
    pub(super) fn create_new(&self, name: &str) -> Result<Option<File>, BlobError> {
        match fs::openat(
            &self.fd,
            name,
            file_flags(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL),
            PRIVATE_FILE,
        ) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(Errno::EXIST) => Ok(None),
            Err(error) => Err(BlobError::io("create", self.path(name), error)),
        }
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<Option<(File, u64)>, BlobError> {
        let file = match fs::openat(&self.fd, name, file_flags(flags), PRIVATE_FILE) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(refusal("open", &self.path(name), error)),
        };
        let about = file.metadata().map_err(|e| BlobError::io("look at", self.path(name), e))?;
        if about.is_file() {
            Ok(Some((file, about.len())))
        } else {
            Err(BlobError::Odd { what: self.path(name), why: "it is not a plain file" })
        }
    }

    #[allow(clippy::useless_conversion)] // the fields of the system have other types on other systems
    pub(super) fn look(&self, name: &str) -> Result<Option<Found>, BlobError> {
        let about = match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(about) => about,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(BlobError::io("look at", self.path(name), error)),
        };
        // A time before 1970 counts as 1970, which is old.
        let seconds = u64::try_from(about.st_mtime).unwrap_or(0);
        let millis = u64::try_from(about.st_mtime_nsec).unwrap_or(0) / 1_000_000;
        Ok(Some(Found {
            regular: FileType::from_raw_mode(about.st_mode) == FileType::RegularFile,
            bytes: u64::try_from(about.st_size).unwrap_or(0),
            modified_ms: seconds.saturating_mul(1_000).saturating_add(millis),
        }))
    }

    /// Whether a directory in this one has an entry of this name. This is a hint that needs one system call, a fifth
    /// of the cost of opening both: a link in place of the directory is followed here, and refused when the file is
    /// opened.
    pub(super) fn hints_at(&self, inner: &str, name: &str) -> Result<bool, BlobError> {
        let path = format!("{inner}/{name}");
        match fs::statat(&self.fd, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(refusal("look at", &self.path(&path), error)),
        }
    }

    pub(super) fn rename(&self, name: &str, to: &Folder, new_name: &str) -> Result<(), BlobError> {
        fs::renameat(&self.fd, name, &to.fd, new_name)
            .map_err(|e| BlobError::io("rename", self.path(name), e))
    }

    /// Removes a file; returns whether it existed.
    pub(super) fn remove(&self, name: &str) -> Result<bool, BlobError> {
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(BlobError::io("remove", self.path(name), error)),
        }
    }

    /// The names in the directory. A name that is not UTF-8 has replacement characters, which valid names do not
    /// have.
    pub(super) fn names(&self) -> Result<Vec<String>, BlobError> {
        let trouble = |error| BlobError::io("list", self.name.clone(), error);
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd).map_err(trouble)? {
            let name = entry.map_err(trouble)?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Makes its entries durable.
    pub(super) fn sync(&self) -> Result<(), BlobError> {
        fs::fsync(&self.fd).map_err(|e| BlobError::io("sync", self.name.clone(), e))
    }

    /// Makes the whole file system of the directory durable: contents and entries.
    pub(super) fn sync_all(&self) -> Result<(), BlobError> {
        fs::syncfs(&self.fd).map_err(|e| BlobError::io("sync", self.name.clone(), e))
    }

    /// The path of a file, for messages.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }
}

/// Does not follow links; a pipe does not block the open.
fn file_flags(flags: OFlags) -> OFlags {
    flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn sync_parent(path: &Path) -> Result<(), BlobError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(|e| BlobError::io("sync", parent.display().to_string(), e))
}

fn refusal(doing: &'static str, what: &str, error: Errno) -> BlobError {
    match error {
        Errno::LOOP | Errno::MLINK => BlobError::Odd { what: what.to_owned(), why: "it is a symbolic link" },
        Errno::NOTDIR => {
            BlobError::Odd { what: what.to_owned(), why: "it is a link or a file, not a directory" }
        }
        Errno::ISDIR | Errno::NXIO => BlobError::Odd { what: what.to_owned(), why: "it is not a plain file" },
        _ => BlobError::io(doing, what.to_owned(), error),
    }
}
