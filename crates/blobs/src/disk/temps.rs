//! Files that are still being written. They are in the same file system as the objects, so that a rename completes
//! them.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::folder::Folder;
use super::{Disk, set_modified};
use crate::file_store::{self, Name};
use crate::{BlobError, guard};

/// Maximum number of existing names in a row.
const TRIES: u64 = 100_000;

#[derive(Debug)]
pub(super) struct Temps {
    pub(super) folder: Folder,
    next: AtomicU64,
    /// The files being written now.
    live: Mutex<HashSet<String>>,
}

/// A file being written.
#[derive(Debug)]
pub(super) struct Temp<'a> {
    file: File,
    entry: TempEntry<'a>,
}

/// The name of a temporary file. The file is removed on drop, unless it was renamed.
#[derive(Debug)]
pub(super) struct TempEntry<'a> {
    name: String,
    disk: &'a Disk,
    renamed: bool,
}

impl Temps {
    pub(super) fn new(folder: Folder) -> Temps {
        Temps { folder, next: AtomicU64::new(0), live: Mutex::default() }
    }

    pub(super) fn create<'a>(&self, disk: &'a Disk) -> Result<Temp<'a>, BlobError> {
        for _ in 0..TRIES {
            let name = format!("{}-{}", process::id(), self.next.fetch_add(1, Ordering::Relaxed));
            let mut live = guard(&self.live);
            if let Some(file) = self.folder.create_new(&name)? {
                live.insert(name.clone());
                return Ok(Temp { file, entry: TempEntry { name, disk, renamed: false } });
            }
        }
        Err(BlobError::Odd { what: self.folder.path(""), why: "every name that was tried is taken" })
    }

    pub(super) fn is_live(&self, name: &str) -> bool {
        guard(&self.live).contains(name)
    }
}

impl<'a> Temp<'a> {
    /// Sets the time of the file and closes it: thousands of open files would exhaust the limit of the process.
    pub(super) fn closed(self, now_ms: u64) -> Result<TempEntry<'a>, BlobError> {
        set_modified(&self.file, &self.entry.path(), now_ms)?;
        Ok(self.entry)
    }
}

impl TempEntry<'_> {
    fn path(&self) -> String {
        self.disk.temps.folder.path(&self.name)
    }

    /// Gives the file its name, replacing another. The name is not durable yet.
    pub(super) fn rename(&mut self, folder: &Folder, file: &str) -> Result<(), BlobError> {
        self.disk.temps.folder.rename(&self.name, folder, file)?;
        self.renamed = true;
        Ok(())
    }
}

impl file_store::Temp for Temp<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.file.write_all(bytes).map_err(|e| BlobError::io("write", self.entry.path(), e))
    }

    fn settle(&mut self, now_ms: u64) -> Result<(), BlobError> {
        set_modified(&self.file, &self.entry.path(), now_ms)?;
        self.file.sync_all().map_err(|e| BlobError::io("sync", self.entry.path(), e))
    }

    fn name(&mut self, name: &Name) -> Result<(), BlobError> {
        self.entry.disk.within_made(name.shelf, |folder| {
            self.entry.rename(folder, &name.file)?;
            if let Err(error) = folder.sync() {
                // The entry may not be durable, and a later sync may wrongly report that it is: start again.
                let _ = folder.remove(&name.file);
                return Err(error);
            }
            Ok(())
        })
    }
}

impl Drop for TempEntry<'_> {
    fn drop(&mut self) {
        let temps = &self.disk.temps;
        if !self.renamed {
            // A file that remains is a leftover, which the next collection removes.
            let _ = temps.folder.remove(&self.name);
        }
        guard(&temps.live).remove(&self.name);
    }
}
