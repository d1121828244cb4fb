//! Files on their way in. They live in the same file system as the objects, so that a rename finishes them.

use std::collections::HashSet;
use std::fs::File;
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::folder::Folder;
use crate::{BlobError, guard};

/// How many taken names in a row mean that something is wrong.
const TRIES: u64 = 100_000;

#[derive(Debug)]
pub(crate) struct Temps {
    pub(crate) folder: Folder,
    next: AtomicU64,
    /// Those being written now: a slow upload is not a leftover, however old its file looks.
    live: Mutex<HashSet<String>>,
}

/// A file that goes with this, unless it was renamed away.
#[derive(Debug)]
pub(crate) struct Temp<'a> {
    pub(crate) file: File,
    pub(crate) name: String,
    temps: &'a Temps,
    renamed: bool,
}

impl Temps {
    pub(crate) fn new(folder: Folder) -> Temps {
        Temps { folder, next: AtomicU64::new(0), live: Mutex::default() }
    }

    pub(crate) fn create(&self) -> Result<Temp<'_>, BlobError> {
        for _ in 0..TRIES {
            let name = format!("{}-{}", process::id(), self.next.fetch_add(1, Ordering::Relaxed));
            let mut live = guard(&self.live);
            if let Some(file) = self.folder.create_new(&name)? {
                live.insert(name.clone());
                return Ok(Temp { file, name, temps: self, renamed: false });
            }
        }
        Err(BlobError::Odd { what: self.folder.path(""), why: "every name that was tried is taken" })
    }

    pub(crate) fn is_live(&self, name: &str) -> bool {
        guard(&self.live).contains(name)
    }
}

impl Temp<'_> {
    pub(crate) fn path(&self) -> String {
        self.temps.folder.path(&self.name)
    }

    pub(crate) fn rename_to(&mut self, to: &Folder, name: &str) -> Result<(), BlobError> {
        self.temps.folder.rename(&self.name, to, name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // One that stays is a leftover, which the next collection removes.
            let _ = self.temps.folder.remove(&self.name);
        }
        guard(&self.temps.live).remove(&self.name);
    }
}
