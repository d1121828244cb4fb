//! Records of running servers. A server writes one beside its token and one in a directory of its user, and holds a
//! lock on both while it runs. The commands of the same user find the server by them, and send the local token only
//! to the address in the record beside it.
//!
//! The lock tells a running server from a record that was left behind: the system releases it when the process ends,
//! however it ends, and no other process has it under a reused pid.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// The record beside the token.
const IN_DATA: &str = "server.json";
/// Maximum size of a record.
const RECORD_BYTES: u64 = 16 << 10;
/// A command locks a record while it checks it; a server that writes the record tries this often.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// What a running server says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The URL at which this machine reaches it.
    pub url: String,
    /// Its data directory.
    pub data: PathBuf,
    pub pid: u32,
    /// The name of its machine: a home directory may be shared by several.
    pub host: String,
    /// Its TLS certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Whether it ends with the command that started it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_embedded: bool,
}

impl Record {
    pub fn new(url: &str, data: &Path, certificate: Option<&Path>) -> Record {
        Record {
            url: url.to_owned(),
            data: std::path::absolute(data).unwrap_or_else(|_| data.to_owned()),
            pid: std::process::id(),
            host: jobhall_worker::host_name(),
            certificate: certificate.map(Path::to_owned),
            is_embedded: false,
        }
    }
}

/// The records of this process, removed on drop.
pub struct Registration(Vec<(PathBuf, File)>);

impl Registration {
    /// Writes the record into the data directory and into the first usable one of these directories. A server without
    /// a record works, but commands must name it.
    pub fn write(record: &Record, directories: &[PathBuf]) -> Registration {
        let name = format!("server-{}.json", record.pid);
        let of_user = directories.iter().find_map(|directory| match own(directory) {
            Ok(()) => Some(directory.join(&name)),
            Err(error) => {
                tracing::debug!("{} is not used: {error}", directory.display());
                None
            }
        });
        let paths = [Some(record.data.join(IN_DATA)), of_user].into_iter().flatten();
        let written = paths.filter_map(|path| match write(&path, record) {
            Ok(file) => Some((path, file)),
            Err(error) => {
                tracing::warn!(
                    "commands need --server to find this server: failed to write {}: {error}",
                    path.display()
                );
                None
            }
        });
        Registration(written.collect())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        for (path, file) in &self.0 {
            // Before the lock is released, so that no other server's record is removed.
            if is_at(file, path) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Creates a directory that only this user can write to, if it is missing, and checks it.
fn own(directory: &Path) -> io::Result<()> {
    // A directory that is created in the home of another user would be in that user's way.
    let existing = directory.ancestors().find_map(|path| fs::metadata(path).ok());
    if existing.is_none_or(|found| found.uid() != euid()) {
        return Err(io::Error::other("it belongs to another user"));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    if is_own(directory) { Ok(()) } else { Err(io::Error::other("another user can write to it")) }
}

/// Whether a directory belongs to this user, and no one else can write to it.
fn is_own(directory: &Path) -> bool {
    let found = fs::symlink_metadata(directory);
    found.is_ok_and(|found| found.is_dir() && found.uid() == euid() && found.mode() & 0o022 == 0)
}

fn euid() -> u32 {
    geteuid().as_raw()
}

/// Writes a record and locks it. The lock is held until the file is closed.
fn write(path: &Path, record: &Record) -> io::Result<File> {
    for _ in 0..TRIES {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)?;
        match file.try_lock() {
            // A command may have removed the file before it was locked.
            Ok(()) if is_at(&file, path) => {
                file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
                file.set_len(0)?;
                serde_json::to_writer(&file, record)?;
                file.write_all(b"\n")?;
                return Ok(file);
            }
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other("another server has locked it"))
}

/// Whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    file.metadata().and_then(|a| Ok(same(a, fs::symlink_metadata(path)?))).unwrap_or(false)
}

/// The server that runs on this data directory. Only a record of this user counts; for root, any user's.
pub fn in_data(data: &Path) -> Option<Record> {
    read(&data.join(IN_DATA), |owner| owner == euid() || euid() == 0)
}

/// The running servers of this user, by their records in these directories.
pub fn servers(directories: &[PathBuf]) -> Vec<Record> {
    let mut found: Vec<Record> = Vec::new();
    for directory in directories.iter().filter(|directory| is_own(directory)) {
        let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
        let is_record = |name: &str| name.starts_with("server-") && name.ends_with(".json");
        let paths = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_record));
        found.extend(paths.filter_map(|entry| read(&entry.path(), |owner| owner == euid())));
    }
    found.sort_by(|a, b| (&a.url, a.pid).cmp(&(&b.url, b.pid)));
    found.dedup();
    found
}

/// Reads a record of a running server. One that was left behind is removed.
fn read(path: &Path, trusted: impl Fn(u32) -> bool) -> Option<Record> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || !trusted(found.uid()) {
        return None;
    }
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            (&file).take(RECORD_BYTES).read_to_string(&mut text).ok()?;
            // Incomplete while the server writes it; it does not answer yet either.
            let record: Record = serde_json::from_str(&text).ok()?;
            (record.host == jobhall_worker::host_name()).then_some(record)
        }
        Ok(()) if is_at(&file, path) => {
            let _ = fs::remove_file(path);
            None
        }
        _ => None,
    }
}

/// The owner of the record in a data directory.
pub fn record_owner(data: &Path) -> Option<u32> {
    owner(&data.join(IN_DATA))
}

/// The owner of a file.
pub fn owner(path: &Path) -> Option<u32> {
    Some(fs::metadata(path).ok()?.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let (data, run) = (place.path().join("data"), place.path().join("run/jobhall"));
        fs::create_dir(&data).unwrap();
        (place, data, run)
    }

    #[test]
    fn a_record_is_there_while_its_server_runs_and_only_its_owner_can_read_it() {
        let (_place, data, run) = folder();
        let record = Record::new("http://127.0.0.1:1", &data, None);
        let registration = Registration::write(&record, std::slice::from_ref(&run));
        assert_eq!(in_data(&data), Some(record.clone()));
        assert_eq!(servers(std::slice::from_ref(&run)), [record]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&run), 0o700);
        let files: Vec<_> = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!((files.len(), mode(&files[0]), mode(&data.join(IN_DATA))), (1, 0o600, 0o600));
        drop(registration);
        assert_eq!((in_data(&data), servers(std::slice::from_ref(&run))), (None, Vec::new()));
        assert!(!data.join(IN_DATA).exists() && !files[0].exists());
    }

    #[test]
    fn a_record_without_a_lock_was_left_behind_whatever_process_has_its_pid() {
        let (_place, data, run) = folder();
        let record = Record::new("http://127.0.0.1:1", &data, None);
        DirBuilder::new().recursive(true).mode(0o700).create(&run).unwrap();
        let left = [data.join(IN_DATA), run.join("server-1.json")];
        for path in &left {
            fs::write(path, serde_json::to_string(&record).unwrap()).unwrap();
        }
        assert_eq!((in_data(&data), servers(std::slice::from_ref(&run))), (None, Vec::new()));
        assert!(left.iter().all(|path| !path.exists()), "removed");
        // A server that starts at the same moment gets its record.
        fs::write(&left[0], "{").unwrap();
        let _registration = Registration::write(&record, &[]);
        assert_eq!(in_data(&data), Some(record));
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_used() {
        let (_place, data, run) = folder();
        let record = Record::new("http://127.0.0.1:1", &data, None);
        let _registration = Registration::write(&record, std::slice::from_ref(&run));
        fs::set_permissions(&run, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(servers(std::slice::from_ref(&run)), Vec::new());
        assert!(own(&run).is_err());
        assert!(own(Path::new("/dev/null/jobhall")).is_err());
    }

    #[test]
    fn a_record_of_another_machine_does_not_count_and_stays() {
        let (_place, data, _) = folder();
        let record =
            Record { host: "elsewhere".to_owned(), ..Record::new("http://127.0.0.1:1", &data, None) };
        let _registration = Registration::write(&record, &[]);
        assert_eq!(in_data(&data), None);
        assert!(data.join(IN_DATA).exists());
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let (place, data, _) = folder();
        let elsewhere = place.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let record = Record::new("http://127.0.0.1:1", &elsewhere, None);
        let _registration = Registration::write(&record, &[]);
        std::os::unix::fs::symlink(elsewhere.join(IN_DATA), data.join(IN_DATA)).unwrap();
        assert_eq!(in_data(&data), None);
    }
}
