//! Files in a directory that one process has open.

mod batch;
mod folder;
mod temps;

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::BlobError;
use crate::file_store::{Batch, Content, FileStore, Found, Name, Opened, Section, Shelf, Temp, Whole, Write};
use folder::Folder;
use temps::Temps;

/// The open directory of blobs. Only one process has it open at a time: the state of live logs and of incoming
/// objects is kept in memory.
#[derive(Debug)]
pub(crate) struct Disk {
    objects: Folder,
    artifacts: Folder,
    logs: Folder,
    quarantine: Folder,
    temps: Temps,
    _lock: File,
}

impl Disk {
    pub(crate) fn open(path: &Path) -> Result<Disk, BlobError> {
        let root = Folder::root(path)?;
        let lock = locked_file(&root)?;
        let [objects, artifacts, logs, tmp, quarantine] =
            Section::ALL.map(|section| root.private(section.as_str()));
        Ok(Disk {
            objects: objects?,
            artifacts: artifacts?,
            logs: logs?,
            temps: Temps::new(tmp?),
            quarantine: quarantine?,
            _lock: lock,
        })
    }

    fn section(&self, section: Section) -> &Folder {
        match section {
            Section::Objects => &self.objects,
            Section::Artifacts => &self.artifacts,
            Section::Logs => &self.logs,
            Section::Temps => &self.temps.folder,
            Section::Quarantine => &self.quarantine,
        }
    }

    /// Calls a function with the directory of a shelf, if it exists.
    fn within<T>(
        &self,
        shelf: Shelf,
        work: impl FnOnce(&Folder) -> Result<T, BlobError>,
    ) -> Result<Option<T>, BlobError> {
        let section = self.section(shelf.section);
        match shelf.shard {
            None => work(section).map(Some),
            Some(shard) => section.inner(&shard_name(shard))?.map(|folder| work(&folder)).transpose(),
        }
    }

    /// Calls a function with the directory of a shelf, which is created if it is missing.
    fn within_made<T>(
        &self,
        shelf: Shelf,
        work: impl FnOnce(&Folder) -> Result<T, BlobError>,
    ) -> Result<T, BlobError> {
        let section = self.section(shelf.section);
        match shelf.shard {
            None => work(section),
            Some(shard) => work(&section.make(&shard_name(shard))?),
        }
    }
}

impl FileStore for Disk {
    fn look(&self, name: &Name) -> Result<Option<Found>, BlobError> {
        Ok(self.within(name.shelf, |folder| folder.look(&name.file))?.flatten())
    }

    fn may_have(&self, name: &Name) -> Result<bool, BlobError> {
        let section = self.section(name.shelf.section);
        match name.shelf.shard {
            Some(shard) => section.hints_at(&shard_name(shard), &name.file),
            None => Ok(section.look(&name.file)?.is_some()),
        }
    }

    fn open(&self, name: &Name) -> Result<Option<Opened>, BlobError> {
        let file = self.within(name.shelf, |folder| folder.read(&name.file))?.flatten();
        Ok(file.map(|(file, bytes)| Opened { content: Box::new(file), bytes }))
    }

    fn write(&self, writes: &[Write<'_>]) -> Result<(), BlobError> {
        let Some(first) = writes.first() else { return Ok(()) };
        self.within_made(first.name.shelf, |folder| {
            let files: Result<Vec<File>, BlobError> =
                writes.iter().map(|write| folder.create(&write.name.file)).collect();
            let both = files?;
            let both = both.iter().zip(writes);
            both.clone().try_for_each(|(file, write)| cut(file, write))?;
            both.clone().try_for_each(|(file, write)| put(file, write))
        })
    }

    fn sync(&self, files: &[&Name], names: bool) -> Result<(), BlobError> {
        let Some(first) = files.first() else { return Ok(()) };
        self.within_made(first.shelf, |folder| {
            for name in files {
                let synced = folder.create(&name.file)?.sync_data();
                synced.map_err(|e| BlobError::io("sync", folder.path(&name.file), e))?;
            }
            if names { folder.sync() } else { Ok(()) }
        })
    }

    /// The file may have been named just before a crash, so its directory entry is synced too.
    fn touch(&self, name: &Name, bytes: Option<u64>, now_ms: u64) -> Result<bool, BlobError> {
        let touched = self.within(name.shelf, |folder| {
            let there = touch(folder, &name.file, bytes, now_ms)?;
            if there { folder.sync().map(|()| true) } else { Ok(false) }
        })?;
        Ok(touched.unwrap_or(false))
    }

    /// No other thread uses the file: the caller ensures this within the process, and no other process has it open.
    fn remove(&self, name: &Name, _modified_ms: u64) -> Result<bool, BlobError> {
        Ok(self.within(name.shelf, |folder| folder.remove(&name.file))?.unwrap_or(false))
    }

    fn rename(&self, name: &Name, to: &Name) -> Result<(), BlobError> {
        let renamed = self.within(name.shelf, |folder| {
            self.within_made(to.shelf, |other| {
                folder.rename(&name.file, other, &to.file)?;
                other.sync()
            })?;
            folder.sync()
        })?;
        renamed.ok_or_else(|| BlobError::Missing { what: name.to_string() })
    }

    fn names(&self, shelf: Shelf) -> Result<Vec<String>, BlobError> {
        Ok(self.within(shelf, Folder::names)?.unwrap_or_default())
    }

    fn temp(&self) -> Result<Box<dyn Temp + '_>, BlobError> {
        Ok(Box::new(self.temps.create(self)?))
    }

    fn batch<'a>(&'a self, files: &'a [Whole<'a>], now_ms: u64) -> Result<Box<dyn Batch + 'a>, BlobError> {
        Ok(Box::new(batch::Batch::prepare(self, files, now_ms)?))
    }

    fn is_live(&self, temp: &str) -> bool {
        self.temps.is_live(temp)
    }
}

impl Content for File {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, out, offset)
    }
}

/// Sets the time of a file, never to an earlier one, if it has this size (or any size); returns whether it exists. Its
/// directory entry may not be durable.
fn touch(folder: &Folder, file: &str, bytes: Option<u64>, now_ms: u64) -> Result<bool, BlobError> {
    let path = || folder.path(file);
    let found = match folder.look(file)? {
        Some(found) if !found.regular => {
            return Err(BlobError::Odd { what: path(), why: "it is not a plain file" });
        }
        Some(found) if bytes.is_none_or(|bytes| bytes == found.bytes) => found,
        _ => return Ok(false),
    };
    let Some((opened, _)) = folder.read(file)? else { return Ok(false) };
    if found.modified_ms < now_ms {
        set_modified(&opened, &path(), now_ms)?;
    }
    Ok(true)
}

fn cut(file: &File, write: &Write<'_>) -> Result<(), BlobError> {
    if write.was == write.at {
        return Ok(());
    }
    file.set_len(write.at).map_err(|e| BlobError::io("cut", write.name.to_string(), e))
}

fn put(file: &File, write: &Write<'_>) -> Result<(), BlobError> {
    let path = || write.name.to_string();
    file.write_all_at(write.bytes, write.at).map_err(|e| BlobError::io("write", path(), e))?;
    write.modified_ms.map_or(Ok(()), |now_ms| set_modified(file, &path(), now_ms))
}

fn set_modified(file: &File, path: &str, now_ms: u64) -> Result<(), BlobError> {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(now_ms)).unwrap_or(UNIX_EPOCH);
    file.set_modified(time).map_err(|e| BlobError::io("touch", path.to_owned(), e))
}

fn shard_name(shard: u8) -> String {
    format!("{shard:02x}")
}

fn locked_file(root: &Folder) -> Result<File, BlobError> {
    let file = root.create("lock")?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BlobError::InUse { what: root.path("lock") }),
        Err(TryLockError::Error(error)) => Err(BlobError::io("lock", root.path("lock"), error)),
    }
}
