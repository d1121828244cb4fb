//! Stores many objects at once, for the price of a few syncs.
//!
//! A put of one object syncs twice: its content, then its directory entry. Many small objects therefore cost little
//! else than syncs. A batch writes all contents, syncs the file system once, gives all objects their names, and syncs
//! once more. In a database it is one insert.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::MutexGuard;

use thiserror::Error;

use super::{Objects, Stored, name};
use crate::file_store::Whole;
use crate::{BlobError, Digest, guard};

/// Maximum number of objects of one call.
pub const MANY_OBJECTS: usize = 4_096;
/// Maximum total size of the objects of one call.
pub const MANY_BYTES: u64 = 64 << 20;

/// Why several objects were not stored.
#[derive(Debug, Error)]
pub enum PutManyError {
    #[error("store objects: there are {count} of them, the limit is {MANY_OBJECTS}")]
    TooMany { count: usize },
    #[error("store objects: they have {bytes} bytes together, the limit is {MANY_BYTES}")]
    TooLarge { bytes: u64 },
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl Objects {
    /// Stores several objects; the answers are in the order of the contents. As after [`put`](Objects::put), all are
    /// durable when this returns, and are not collected before `now_ms` is their minimum age ago. Content that occurs
    /// twice is stored once and counts as reused the second time.
    ///
    /// # Errors
    /// [`PutManyError::TooMany`] and [`PutManyError::TooLarge`] before anything is stored. After another error some
    /// objects may be stored, each of them completely.
    pub fn put_many(&self, contents: &[&[u8]], now_ms: u64) -> Result<Vec<Stored>, PutManyError> {
        check_bounds(contents)?;
        let digests: Vec<Digest> = contents.iter().map(|content| Digest::of(content)).collect();
        let distinct: BTreeMap<Digest, &[u8]> =
            digests.iter().copied().zip(contents.iter().copied()).collect();
        let mut existed = self.put_distinct(&distinct, now_ms)?;
        let stored = digests.into_iter().zip(contents).map(|(digest, content)| {
            // The first answer for a digest is that of the store.
            let reused = existed.insert(digest, true).unwrap_or(true);
            Stored { digest, bytes: content.len() as u64, reused }
        });
        Ok(stored.collect())
    }

    /// Returns for each object whether it existed.
    fn put_distinct(
        &self,
        distinct: &BTreeMap<Digest, &[u8]>,
        now_ms: u64,
    ) -> Result<BTreeMap<Digest, bool>, BlobError> {
        if distinct.is_empty() {
            return Ok(BTreeMap::new());
        }
        let files: Vec<Whole<'_>> =
            distinct.iter().map(|(digest, &bytes)| Whole { name: name(digest), bytes }).collect();
        // The contents are written and synced before the locks are taken, so that other puts do not wait for them.
        let mut batch = self.file_store.batch(&files, now_ms)?;
        let _shards = self.lock_all(distinct.keys());
        Ok(distinct.keys().copied().zip(batch.publish()?).collect())
    }

    /// Locks the directories of these objects, in the order of their numbers, so that two calls do not block each
    /// other.
    fn lock_all<'a>(&self, digests: impl Iterator<Item = &'a Digest>) -> Vec<MutexGuard<'_, ()>> {
        let shards: BTreeSet<u8> = digests.map(Digest::shard).collect();
        shards.into_iter().map(|shard| guard(&self.shards[usize::from(shard)])).collect()
    }
}

fn check_bounds(contents: &[&[u8]]) -> Result<(), PutManyError> {
    if contents.len() > MANY_OBJECTS {
        return Err(PutManyError::TooMany { count: contents.len() });
    }
    let bytes = contents.iter().fold(0, |sum: u64, content| sum.saturating_add(content.len() as u64));
    if bytes > MANY_BYTES { Err(PutManyError::TooLarge { bytes }) } else { Ok(()) }
}
