//! Content-addressed objects, each stored once.
//!
//! ```text
//!   put: tmp/1-7 ── write, hash ──▶ exists already? ── yes ──▶ touch it
//!                                        └─ no ──▶ sync, rename to objects/ab/cdef…, sync objects/ab
//! ```
//!
//! Puts touch or rename, and the collector removes, under the lock of the object's directory. After a put has
//! returned, its object therefore exists and was touched recently. Where other nodes share the objects, a removal
//! also names the touch time it was decided on, and a put that finds its name taken checks again.

mod checked;
mod many;

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard};

use thiserror::Error;

use self::checked::Checked;
pub use self::many::{MANY_BYTES, MANY_OBJECTS, PutManyError};
use crate::file_store::{FileStore, Found, Name, Section, Shelf, Temp};
use crate::object_reader::SoundObject;
use crate::{BlobError, Digest, ObjectReader, guard};

const COPY_BYTES: usize = 64 << 10;

/// A durably stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    pub digest: Digest,
    pub bytes: u64,
    /// Whether the same content existed before.
    pub reused: bool,
}

/// Why content was not stored.
#[derive(Debug, Error)]
pub enum PutError {
    /// The content exceeds the limit.
    #[error("store an object: it has more than {limit} bytes, the limit")]
    TooLarge { limit: u64 },
    /// The reader of the content failed.
    #[error("store an object: its source failed: {0}")]
    Source(io::Error),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Why content was not read into memory.
#[derive(Debug, Error)]
pub enum ReadAllError {
    /// The content exceeds the limit.
    #[error("read object {digest}: it has {bytes} bytes, the limit is {limit}")]
    TooLarge { digest: Digest, bytes: u64, limit: u64 },
    /// The object is missing or damaged, or the file system failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Results, artifacts and sources.
#[derive(Debug)]
pub struct Objects {
    file_store: Arc<dyn FileStore>,
    shards: Vec<Mutex<()>>,
    checked: Checked,
}

impl Objects {
    pub(crate) fn new(file_store: Arc<dyn FileStore>) -> Objects {
        let shards = (0..=u8::MAX).map(|_| Mutex::new(())).collect();
        Objects { file_store, shards, checked: Checked::default() }
    }

    /// Stores the content of the reader. When this returns the object is durable, and the collector does not remove
    /// it before `now_ms` is its minimum age ago: commit a reference to it before.
    ///
    /// # Errors
    /// [`PutError::TooLarge`] as soon as more than `limit` bytes were read; nothing is stored.
    pub fn put(&self, reader: &mut dyn Read, limit: u64, now_ms: u64) -> Result<Stored, PutError> {
        let mut temp = self.file_store.temp()?;
        let (digest, bytes) = copy(reader, temp.as_mut(), limit)?;
        if self.reuse(&digest, bytes, now_ms)? {
            return Ok(Stored { digest, bytes, reused: true });
        }
        temp.settle(now_ms)?;
        let reused = self.publish(temp.as_mut(), &digest, bytes, now_ms)?;
        Ok(Stored { digest, bytes, reused })
    }

    /// A reader that verifies the content.
    ///
    /// # Errors
    /// [`BlobError::Missing`] if the object does not exist.
    pub fn open(&self, digest: &Digest) -> Result<ObjectReader, BlobError> {
        let opened = self.file_store.open(&name(digest))?;
        let opened = opened.ok_or_else(|| BlobError::Missing { what: format!("object {digest}") })?;
        Ok(ObjectReader::new(opened, *digest))
    }

    /// An object that was completely verified, so that any part of it can be returned.
    ///
    /// # Errors
    /// [`BlobError::Damaged`] if its content was changed, [`BlobError::Missing`] if it does not exist.
    pub fn open_sound(&self, digest: &Digest) -> Result<SoundObject, BlobError> {
        SoundObject::check(self.open(digest)?)
            .map_err(|error| BlobError::io("read", format!("object {digest}"), error))
    }

    /// The same, but an object that was verified in the last ten minutes is not read again unless its file has changed.
    ///
    /// # Errors
    /// [`BlobError::Damaged`] if its content was changed, [`BlobError::Missing`] if it does not exist.
    pub fn open_recent(&self, digest: &Digest) -> Result<SoundObject, BlobError> {
        let Some(found) = self.look(digest)? else { return self.open_sound(digest) };
        if self.checked.knows(digest, &found) {
            return Ok(SoundObject::verified(self.open(digest)?));
        }
        let sound = self.open_sound(digest)?;
        self.checked.remember(*digest, &found);
        Ok(sound)
    }

    /// The whole content, verified.
    ///
    /// # Errors
    /// [`ReadAllError::TooLarge`] before anything is read, [`BlobError::Damaged`] if the content was changed.
    pub fn read_all(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, ReadAllError> {
        let reader = self.open(digest)?;
        let bytes = reader.len();
        if bytes > limit {
            return Err(ReadAllError::TooLarge { digest: *digest, bytes, limit });
        }
        let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
        // One more byte is requested, so that the reader reaches the end and verifies the hash.
        let read = reader.take(bytes.saturating_add(1)).read_to_end(&mut content);
        read.map_err(|error| BlobError::io("read", format!("object {digest}"), error))?;
        Ok(content)
    }

    /// Whether the object exists; it may be damaged.
    ///
    /// # Errors
    /// The file system failed.
    pub fn exists(&self, digest: &Digest) -> Result<bool, BlobError> {
        Ok(self.len(digest)?.is_some())
    }

    /// The size of its file, if it exists.
    ///
    /// # Errors
    /// The file system failed.
    pub fn len(&self, digest: &Digest) -> Result<Option<u64>, BlobError> {
        Ok(self.look(digest)?.map(|found| found.bytes))
    }

    /// Sets the time of an object, so that a reference to it can be committed without storing it again; returns
    /// whether it exists. Required before a new reference to an object that may have lost its last one.
    ///
    /// # Errors
    /// The file system failed.
    pub fn touch(&self, digest: &Digest, now_ms: u64) -> Result<bool, BlobError> {
        let _shard = self.lock(digest);
        self.file_store.touch(&name(digest), None, now_ms)
    }

    /// Moves an object aside if it is damaged, so that the same content can be stored again; returns whether it was
    /// moved.
    ///
    /// # Errors
    /// The file system failed.
    pub fn quarantine(&self, digest: &Digest) -> Result<bool, BlobError> {
        let _shard = self.lock(digest);
        match self.verify(digest) {
            Ok(()) | Err(BlobError::Missing { .. }) => return Ok(false),
            Err(BlobError::Damaged { .. }) => {}
            Err(other) => return Err(other),
        }
        self.file_store.rename(&name(digest), &Shelf::whole(Section::Quarantine).file(digest.hex()))?;
        Ok(true)
    }

    /// Reads and verifies an object.
    ///
    /// # Errors
    /// [`BlobError::Damaged`] if its content was changed.
    pub fn verify(&self, digest: &Digest) -> Result<(), BlobError> {
        self.open_sound(digest).map(drop)
    }

    /// Prevents other threads from touching, storing or removing this object.
    pub(crate) fn lock(&self, digest: &Digest) -> MutexGuard<'_, ()> {
        guard(&self.shards[usize::from(digest.shard())])
    }

    /// The metadata of an object that is a regular file.
    pub(crate) fn look(&self, digest: &Digest) -> Result<Option<Found>, BlobError> {
        match self.file_store.look(&name(digest))? {
            Some(found) if !found.regular => {
                Err(BlobError::Odd { what: name(digest).to_string(), why: "it is not a plain file" })
            }
            found => Ok(found),
        }
    }

    /// Removes an object that was last touched at this time; returns whether it did.
    pub(crate) fn remove(&self, digest: &Digest, modified_ms: u64) -> Result<bool, BlobError> {
        self.file_store.remove(&name(digest), modified_ms)
    }

    /// Touches the object if it exists with the right size.
    fn reuse(&self, digest: &Digest, bytes: u64, now_ms: u64) -> Result<bool, BlobError> {
        let _shard = self.lock(digest);
        self.file_store.touch(&name(digest), Some(bytes), now_ms)
    }

    /// Gives a settled file its final name; returns whether it existed already.
    fn publish(
        &self,
        temp: &mut dyn Temp,
        digest: &Digest,
        bytes: u64,
        now_ms: u64,
    ) -> Result<bool, BlobError> {
        let _shard = self.lock(digest);
        let name = name(digest);
        if self.file_store.touch(&name, Some(bytes), now_ms)? {
            return Ok(true);
        }
        match temp.name(&name) {
            // Another node stored the same content at the same time.
            Err(error @ BlobError::Overtaken { .. }) => {
                if self.file_store.touch(&name, Some(bytes), now_ms)? { Ok(true) } else { Err(error) }
            }
            named => named.map(|()| false),
        }
    }
}

/// The file of an object.
fn name(digest: &Digest) -> Name {
    Shelf::of(Section::Objects, digest.shard()).file(digest.file_name())
}

fn copy(reader: &mut dyn Read, temp: &mut dyn Temp, limit: u64) -> Result<(Digest, u64), PutError> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; COPY_BYTES];
    let mut bytes: u64 = 0;
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => return Ok((Digest::from_hasher(&hasher), bytes)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(PutError::Source(error)),
        };
        bytes = bytes.saturating_add(count as u64);
        if bytes > limit {
            return Err(PutError::TooLarge { limit });
        }
        hasher.update(&buffer[..count]);
        temp.write(&buffer[..count])?;
    }
}
