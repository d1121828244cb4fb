//! Many files with two syncs of the file system.
//!
//! Contents are durable before any of them gets its name, so a crash leaves no name of a partial file.

use super::Disk;
use super::temps::{Temp, TempEntry};
use crate::BlobError;
use crate::file_store::{self, FileStore, Name, Temp as _, Whole};

pub(super) struct Batch<'a> {
    disk: &'a Disk,
    files: &'a [Whole<'a>],
    /// For each file its content under a temporary name; none if the file seemed to exist.
    temps: Vec<Option<TempEntry<'a>>>,
    now_ms: u64,
}

impl<'a> Batch<'a> {
    /// Writes the contents of the missing files and makes them durable.
    pub(super) fn prepare(
        disk: &'a Disk,
        files: &'a [Whole<'a>],
        now_ms: u64,
    ) -> Result<Batch<'a>, BlobError> {
        let temps = files.iter().map(|file| prepared(disk, file, now_ms));
        let temps: Vec<Option<TempEntry<'a>>> = temps.collect::<Result<_, _>>()?;
        if temps.iter().any(Option::is_some) {
            disk.temps.folder.sync_all()?;
        }
        Ok(Batch { disk, files, temps, now_ms })
    }

    /// Touches the file or gives it its name; returns whether it existed.
    fn place(&mut self, at: usize) -> Result<bool, BlobError> {
        let (disk, now_ms, file) = (self.disk, self.now_ms, &self.files[at]);
        let temp = &mut self.temps[at];
        disk.within_made(file.name.shelf, |folder| {
            if super::touch(folder, &file.name.file, Some(file.bytes.len() as u64), now_ms)? {
                return Ok(true);
            }
            match temp {
                Some(temp) => temp.rename(folder, &file.name.file)?,
                // It was removed since it was looked at.
                None => {
                    let mut late = written(disk, file)?;
                    late.settle(now_ms)?;
                    late.closed(now_ms)?.rename(folder, &file.name.file)?;
                }
            }
            Ok(false)
        })
    }

    fn place_all(&mut self, named: &mut Vec<&'a Name>) -> Result<Vec<bool>, BlobError> {
        let mut existed = Vec::with_capacity(self.files.len());
        for at in 0..self.files.len() {
            let there = self.place(at)?;
            if !there {
                named.push(&self.files[at].name);
            }
            existed.push(there);
        }
        self.disk.temps.folder.sync_all()?;
        Ok(existed)
    }
}

impl file_store::Batch for Batch<'_> {
    fn publish(&mut self) -> Result<Vec<bool>, BlobError> {
        let mut named = Vec::new();
        self.place_all(&mut named).inspect_err(|_| {
            // Their entries may not be durable, and a later sync may wrongly report that they are: start again.
            for name in named {
                let _ = self.disk.remove(name, 0);
            }
        })
    }
}

fn prepared<'a>(disk: &'a Disk, file: &Whole<'_>, now_ms: u64) -> Result<Option<TempEntry<'a>>, BlobError> {
    let found = disk.look(&file.name)?;
    if found.is_some_and(|found| found.bytes == file.bytes.len() as u64) {
        return Ok(None);
    }
    written(disk, file)?.closed(now_ms).map(Some)
}

fn written<'a>(disk: &'a Disk, file: &Whole<'_>) -> Result<Temp<'a>, BlobError> {
    let mut temp = disk.temps.create(disk)?;
    temp.write(file.bytes)?;
    Ok(temp)
}
