//! Signs of changes in directories. A directory is watched and not the file, so that an editor that renames another file
//! over it is noticed too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

/// Size of the buffer for events.
const EVENTS_BYTES: usize = 8 << 10;
/// Size of an event without its name: watch, mask, cookie and the length of the name, four bytes each.
const EVENT_BYTES: usize = 16;
/// What is noticed.
const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// The watched directories. Without inotify it gives no sign.
pub(super) struct Directories {
    events: Option<Receiver>,
    watches: BTreeMap<PathBuf, i32>,
    /// The names that count, by watch.
    names: HashMap<i32, BTreeSet<OsString>>,
    /// Whether there was a change since the directories were named.
    has_changed: bool,
}

impl Directories {
    pub fn new() -> Directories {
        let events =
            inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(std::io::Error::from);
        let events = events.and_then(Receiver::from_owned_fd_unchecked);
        let events = events.map_err(|error| tracing::warn!("files are looked at now and then only: {error}"));
        let (watches, names) = (BTreeMap::new(), HashMap::new());
        Directories { events: events.ok(), watches, names, has_changed: false }
    }

    /// Watches the directories of these paths, and of what they are links to; and no others. From here on, changes count
    /// that come after this call.
    pub fn watch(&mut self, paths: &[PathBuf]) {
        self.has_changed = false;
        let Some(events) = &self.events else { return };
        let mut wanted: BTreeMap<PathBuf, BTreeSet<OsString>> = BTreeMap::new();
        let targets = paths.iter().filter_map(|path| path.canonicalize().ok());
        for path in paths.iter().cloned().chain(targets) {
            if let (Some(directory), Some(name)) = (path.parent(), path.file_name()) {
                wanted.entry(directory.to_owned()).or_default().insert(name.to_owned());
            }
        }
        let mut before = std::mem::take(&mut self.watches);
        self.names.clear();
        for (directory, names) in wanted {
            before.remove(&directory);
            // One that is not there is noticed by the look at its files.
            if let Ok(watch) = inotify::add_watch(events, directory.as_path(), CHANGES) {
                self.names.entry(watch).or_default().extend(names);
                self.watches.insert(directory, watch);
            }
        }
        for watch in before.into_values().filter(|watch| !self.names.contains_key(watch)) {
            let _may_be_gone = inotify::remove_watch(events, watch);
        }
    }

    /// Waits for a change of one of the names since the directories were named.
    pub async fn changed(&mut self) {
        while !self.has_changed {
            let Some(events) = &self.events else { return std::future::pending().await };
            if events.readable().await.is_err() {
                return std::future::pending().await;
            }
            let mut buffer = [0; EVENTS_BYTES];
            while let Ok(read @ 1..) = events.try_read(&mut buffer) {
                self.has_changed |= counts(&buffer[..read], &self.names);
            }
        }
    }
}

/// Whether one of these events counts. The kernel writes whole events.
fn counts(mut events: &[u8], names: &HashMap<i32, BTreeSet<OsString>>) -> bool {
    let mut found = false;
    while let Some((head, rest)) = events.split_first_chunk::<EVENT_BYTES>() {
        let [a, b, c, d, .., e, f, g, h] = *head;
        let (watch, length) = (i32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        let (name, rest) = rest.split_at_checked(length as usize).unwrap_or((rest, &[]));
        // The name is filled up with zeros.
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        found |= match names.get(&watch) {
            // Without a name the directory itself was moved or removed.
            Some(names) => name.is_empty() || names.contains(OsStr::from_bytes(name)),
            // Events were lost.
            None => watch < 0,
        };
        events = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    async fn until_changed(directories: &mut Directories) {
        tokio::time::timeout(Duration::from_secs(30), directories.changed()).await.expect("a sign");
        directories.has_changed = false;
    }

    async fn is_quiet(directories: &mut Directories) -> bool {
        tokio::time::timeout(Duration::from_millis(1), directories.changed()).await.is_err()
    }

    fn settled(place: &Path) -> (Directories, PathBuf) {
        let script = place.join("clean.sh");
        fs::write(&script, "one").unwrap();
        let mut directories = Directories::new();
        directories.watch(std::slice::from_ref(&script));
        (directories, script)
    }

    #[tokio::test]
    async fn each_way_to_save_a_file_is_noticed_and_other_files_are_not() {
        let place = tempfile::tempdir().unwrap();
        let (mut directories, script) = settled(place.path());
        assert!(is_quiet(&mut directories).await);
        fs::write(place.path().join("other"), "x").unwrap();
        assert!(is_quiet(&mut directories).await, "another file");
        fs::write(&script, "two").unwrap();
        until_changed(&mut directories).await;
        let new = place.path().join(".clean.sh.new");
        fs::write(&new, "three").unwrap();
        fs::rename(&new, &script).unwrap();
        until_changed(&mut directories).await;
        fs::remove_file(&script).unwrap();
        until_changed(&mut directories).await;
        fs::write(&script, "four").unwrap();
        until_changed(&mut directories).await;
    }

    #[tokio::test]
    async fn a_link_is_followed_and_a_directory_that_is_replaced_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let (inner, link) = (place.path().join("inner"), place.path().join("link"));
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("target"), "one").unwrap();
        std::os::unix::fs::symlink(inner.join("target"), &link).unwrap();
        let mut directories = Directories::new();
        directories.watch(std::slice::from_ref(&link));
        fs::write(inner.join("target"), "two").unwrap();
        until_changed(&mut directories).await;
        fs::rename(&inner, place.path().join("moved")).unwrap();
        until_changed(&mut directories).await;
        directories.watch(&[]);
        fs::remove_file(&link).unwrap();
        assert!(is_quiet(&mut directories).await, "it is watched no longer");
    }
}
