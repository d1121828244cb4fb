//! Disk usage of the store, and free space.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jobhall_protocol::Disk;

/// With less free space the server is not ready: the next commits may fail because the disk is full.
const LEAST_FREE: u64 = 32 << 20;

/// The directory of the blobs in that of the store.
const BLOBS: &str = "blobs";

/// The directory of the store.
#[derive(Clone, Debug)]
pub(crate) struct DiskUsage(Arc<Path>);

impl DiskUsage {
    pub(crate) fn new(data: PathBuf) -> DiskUsage {
        DiskUsage(data.into())
    }

    /// Reads the disk usage on the blocking pool, because it may be slow.
    pub(crate) async fn look(&self) -> io::Result<Disk> {
        let place = self.clone();
        let looked = tokio::task::spawn_blocking(move || place.measure()).await;
        looked.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    fn measure(&self) -> io::Result<Disk> {
        let disk = rustix::fs::statvfs(&*self.0)?;
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        Ok(Disk { store_bytes: self.store_bytes()?, free_bytes, blob_bytes: None })
    }

    /// Reads also the size of the blobs, which are many files.
    pub(crate) async fn look_at_all(&self) -> io::Result<Disk> {
        let place = self.clone();
        let looked = tokio::task::spawn_blocking(move || {
            Ok(Disk { blob_bytes: place.blob_bytes()?, ..place.measure()? })
        });
        looked.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// The size of all files below the directory of the blobs; none if they are elsewhere.
    fn blob_bytes(&self) -> io::Result<Option<u64>> {
        let blobs = self.0.join(BLOBS);
        if !blobs.is_dir() {
            return Ok(None);
        }
        let (mut bytes, mut directories) = (0, vec![blobs]);
        while let Some(directory) = directories.pop() {
            let entries = match std::fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                match entry.metadata() {
                    Ok(found) if found.is_file() => bytes += found.len(),
                    Ok(found) if found.is_dir() => directories.push(entry.path()),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Some(bytes))
    }

    /// The files of the store are in the directory itself; other data is in subdirectories.
    fn store_bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for file in std::fs::read_dir(&self.0)? {
            match file?.metadata() {
                Ok(found) if found.is_file() => bytes += found.len(),
                Ok(_) => {}
                // A file that was removed in the meantime uses no space.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }
}

/// Whether enough space is free.
pub(crate) fn has_room(disk: &Disk) -> bool {
    disk.free_bytes >= LEAST_FREE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_store_is_the_files_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("jobs.db"), [0; 5_000]).unwrap();
        std::fs::write(dir.path().join("jobs.db-wal"), [0; 700]).unwrap();
        std::fs::create_dir(dir.path().join("blobs")).unwrap();
        std::fs::write(dir.path().join("blobs/one"), [0; 9_000]).unwrap();
        let disk = DiskUsage::new(dir.path().to_owned()).look().await.unwrap();
        assert_eq!((disk.store_bytes, disk.blob_bytes), (5_700, None));
        std::fs::create_dir(dir.path().join("blobs/00")).unwrap();
        std::fs::write(dir.path().join("blobs/00/two"), [0; 300]).unwrap();
        let all = DiskUsage::new(dir.path().to_owned()).look_at_all().await.unwrap();
        assert_eq!((all.store_bytes, all.blob_bytes), (5_700, Some(9_300)));
        assert!(disk.free_bytes > 0);
        assert!(DiskUsage::new(dir.path().join("none")).look().await.is_err());
    }

    #[test]
    fn a_disk_that_is_nearly_full_has_no_room() {
        let disk = |free_bytes| Disk { store_bytes: 0, free_bytes, blob_bytes: None };
        assert!(has_room(&disk(LEAST_FREE)));
        assert!(!has_room(&disk(LEAST_FREE - 1)));
    }
}
