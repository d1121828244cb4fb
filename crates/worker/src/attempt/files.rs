//! The files of commands: their content, and what identifies it without reading it.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jobhall_protocol::CommandFile;

/// Maximum size of all files of a command, in bytes.
const FILES_BYTES_MAX: u64 = 256 << 20;
/// A file that was changed more recently than this may be changed again without another time: file systems round.
const SETTLED: Duration = Duration::from_secs(2);
/// Digits of a digest.
const DIGITS: usize = 32;

/// What changes with the content of a file, once the file is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        fs::metadata(path).ok().map(|data| Stamp::from(&data))
    }
}

impl From<&Metadata> for Stamp {
    fn from(data: &Metadata) -> Stamp {
        Stamp {
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        }
    }
}

/// The digests of files that were read, so that a large file is not read again because another one has changed.
#[derive(Debug, Default)]
pub(crate) struct Digests(HashMap<PathBuf, (Stamp, Content)>);

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    size: u64,
    digest: String,
    /// Empty if the file was too new.
    stat: String,
}

impl Digests {
    /// The content of a file; `left` is how much all files of its command may still have.
    pub(crate) fn read(&mut self, path: &Path, left: &mut u64) -> io::Result<CommandFile> {
        let file = File::open(path)?;
        let data = file.metadata()?;
        let stamp = Stamp::from(&data);
        let known = self.0.get(path).filter(|(known, content)| *known == stamp && !content.stat.is_empty());
        let content = match known {
            Some((_, content)) => content.clone(),
            None => content(file, &data, *left)?,
        };
        *left = left.checked_sub(content.size).ok_or_else(too_large)?;
        let Content { digest, stat, .. } = content.clone();
        self.0.insert(path.to_owned(), (stamp, content));
        Ok(CommandFile { path: path.to_string_lossy().into_owned(), place: place(path), stat, digest })
    }

    /// How much the files of a command may have.
    pub(crate) fn limit() -> u64 {
        FILES_BYTES_MAX
    }

    /// Forgets the files that are not among these.
    pub(crate) fn keep_only(&mut self, is_used: impl Fn(&Path) -> bool) {
        self.0.retain(|path, _| is_used(path));
    }
}

fn too_large() -> io::Error {
    io::Error::other(format!("the files of a command have more than {FILES_BYTES_MAX} bytes"))
}

fn content(file: File, data: &Metadata, left: u64) -> io::Result<Content> {
    let (mut file, mut hasher) = (file.take(left + 1), blake3::Hasher::new());
    let mut bytes = vec![0; 64 << 10];
    let mut size = 0u64;
    loop {
        let count = file.read(&mut bytes)?;
        if count == 0 {
            break;
        }
        hasher.update(&bytes[..count]);
        size += count as u64;
    }
    if size > left {
        return Err(too_large());
    }
    let stat = if is_settled(data) && size == data.size() { stat(data) } else { String::new() };
    Ok(Content { size, digest: hasher.finalize().to_hex().chars().take(DIGITS).collect(), stat })
}

fn is_settled(data: &Metadata) -> bool {
    let age = data.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > SETTLED)
}

fn stat(data: &Metadata) -> String {
    format!("{}-{}.{:09}-{}", data.size(), data.mtime(), data.mtime_nsec(), data.ino())
}

/// Device and inode of the directory of a file; empty if there is none.
fn place(path: &Path) -> String {
    let directory = path.parent().and_then(|directory| fs::metadata(directory).ok());
    directory.map_or_else(String::new, |data| format!("{}-{}", data.dev(), data.ino()))
}

/// The first of these files that is not as it was declared. A path that is in another directory here says nothing.
#[must_use]
pub fn differing(files: &[CommandFile]) -> Option<&CommandFile> {
    files.iter().find(|file| {
        let path = Path::new(&file.path);
        if place(path) != file.place {
            return false;
        }
        let same = fs::metadata(path).is_ok_and(|data| !file.stat.is_empty() && stat(&data) == file.stat);
        let equal = || {
            let now = Digests::default().read(path, &mut Digests::limit());
            now.is_ok_and(|now| now.digest == file.digest)
        };
        !same && !equal()
    })
}

/// A name of this machine until it is started again; none if it has none.
#[must_use]
pub fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"jobhall.machine");
    hasher.update(boot.trim().as_bytes());
    Some(hasher.finalize().to_hex().chars().take(DIGITS).collect())
}
