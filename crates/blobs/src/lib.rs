//! Logs, artifacts and results, on the file system or in PostgreSQL.
//!
//! Three kinds of data are stored here, and each is written differently. An *object* is complete when it arrives:
//! it is named by the BLAKE3 hash of its content, stored once, and checked every time it is read. A *log* grows
//! while it is being read: it is named after its attempt, so that a stale worker can write only to its own log. A
//! *manifest* lists the objects that an attempt keeps as its artifacts, with their names.
//!
//! ```text
//!   <data>/blobs/           0700, every file 0600, no symbolic link is followed below it
//!     objects/ab/cdef…      content, named by its hash; written in tmp/, synced, renamed, directory synced
//!     artifacts/11/17-1     the manifest of an attempt
//!     logs/11/17-1          the exact bytes that an attempt wrote
//!     logs/11/17-1.idx      time, stream and check sum of each chunk
//!     logs/11/17-1.notes    the notes of its worker, with an index of their own
//!     tmp/                  objects that are still being written
//!     quarantine/           objects whose content no longer matches their name
//!     lock                  held while a process has this open
//! ```
//!
//! A hall of several nodes keeps the same files in tables of its database ([`Blobs::in_database`]), in chunks of up
//! to 256 KiB, because a directory would not move to the next leader. All rules are implemented once, on top of an
//! interface for named files (`file_store.rs`).
//!
//! No file is named by a user: the user's name of an artifact is an [`ArtifactName`], which is stored in a manifest
//! beside the [`Digest`]. All calls block; async callers use their blocking pool, and a callback ([`Logs::tail`])
//! notifies them of new log bytes. The caller provides the clock: times are arguments, in milliseconds since 1970.
#![forbid(unsafe_code)]

mod artifact_name;
mod artifacts;
mod attempt_key;
mod database;
mod digest;
mod disk;
mod error;
mod file_store;
mod logs;
mod media_type;
mod object_reader;
mod objects;
mod references;
mod sweep;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use artifact_name::{ArtifactName, ArtifactNameError, NAME_BYTES, SEGMENT_BYTES};
pub use artifacts::{
    ARTIFACT_BYTES, ARTIFACTS, Artifact, Artifacts, KEPT_BYTES, KeepError, NAMES_BYTES,
    RECORDS as ARTIFACT_RECORDS,
};
pub use attempt_key::{AttemptKey, AttemptKeyError, Channel, LogKey};
pub use database::Database;
pub use digest::{Digest, DigestError};
pub use error::BlobError;
pub use logs::{
    AppendError, Appended, ByteRange, CHUNK_BYTES, Chunk, Entries, Entry, LINE_BYTES, Line, Lines, LogInfo,
    Logs, NOTE_BYTES, NOTES_BYTES, PIECE_BYTES, Piece, RECORDS, RangeError, ReadError, Step, Stream, Tail,
    WATCHERS, Wake, check_note,
};
pub use media_type::{MEDIA_TYPE_BYTES, MediaType, MediaTypeError};
pub use object_reader::{ObjectReader, SoundObject};
pub use objects::{MANY_BYTES, MANY_OBJECTS, Objects, PutError, PutManyError, ReadAllError, Stored};
pub use sweep::{Collected, MIN_AGE_MS, Sweep, Verdicts};

use database::Tables;
use disk::Disk;
use file_store::FileStore;

/// The open blobs of a hall. The state of live logs and of incoming objects is kept in memory.
#[derive(Debug)]
pub struct Blobs {
    file_store: Arc<dyn FileStore>,
    objects: Objects,
    artifacts: Artifacts,
    logs: Logs,
}

impl Blobs {
    /// Opens the directory; creates it and its subdirectories if they are missing. One process has it open at a time.
    ///
    /// # Errors
    /// [`BlobError::InUse`] when another process has it open, [`BlobError::Odd`] when a part of it is a symbolic
    /// link or not a directory.
    pub fn open(path: &Path) -> Result<Blobs, BlobError> {
        Ok(Blobs::at(Arc::new(Disk::open(path)?)))
    }

    /// Opens the blobs in a database, creating missing tables. Every node opens them again when it begins to
    /// lead. Like all calls here, this blocks: do not call it on the threads of an async runtime.
    ///
    /// # Errors
    /// The database cannot be reached, or refuses to create the tables.
    pub fn in_database(database: Database) -> Result<Blobs, BlobError> {
        Ok(Blobs::at(Arc::new(Tables::open(database)?)))
    }

    fn at(file_store: Arc<dyn FileStore>) -> Blobs {
        Blobs {
            objects: Objects::new(file_store.clone()),
            artifacts: Artifacts::new(file_store.clone()),
            logs: Logs::new(file_store.clone()),
            file_store,
        }
    }

    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    #[must_use]
    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// Stores an object as an artifact of an attempt durably. An artifact of the same name is replaced. The object is
    /// touched first, so that no collection removes it before it sees the reference.
    ///
    /// # Errors
    /// [`BlobError::Missing`] when the object does not exist, or the limit that was exceeded.
    pub fn keep(&self, attempt: AttemptKey, artifact: &Artifact) -> Result<(), KeepError> {
        if !self.objects.touch(&artifact.digest, artifact.at_ms)? {
            return Err(BlobError::Missing { what: format!("object {}", artifact.digest) }.into());
        }
        self.artifacts.add(attempt, artifact)
    }

    #[must_use]
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// Removes at once everything that [`Sweep`] would remove in slices.
    ///
    /// # Errors
    /// The first file that could not be read or removed ends the collection; removed files stay removed.
    pub fn collect(
        &self,
        verdicts: Verdicts<'_>,
        now_ms: u64,
        min_age_ms: u64,
    ) -> Result<Collected, BlobError> {
        let mut sweep = Sweep::new(now_ms, min_age_ms);
        let mut all = Collected::default();
        while !sweep.is_over() {
            all += sweep.step(self, verdicts, usize::MAX)?;
        }
        Ok(all)
    }
}

/// Locks a mutex even if a thread panicked while it held it: a panic leaves no guarded value half-changed.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
