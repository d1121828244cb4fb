//! Artifacts of attempts: one manifest per attempt maps names to objects.
//!
//! The manifest is named after its attempt, like the log. A stale worker can therefore write only to its own
//! manifest, and retention removes log and manifest by the same rule. The manifest is stored beside the objects and
//! not in the job store: a put writes no row there, and a job store needs no table for artifacts.
//!
//! A manifest is an append-only file of records, synced after each record, so ten thousand artifacts cost ten
//! thousand small writes and no rewrites. If two records have the same name, the last one counts. An invalid record
//! at the end was never acknowledged and is ignored. An invalid record anywhere else is damage, and reading it
//! fails.

mod manifest;
mod record;
mod state;

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use thiserror::Error;

use crate::file_store::FileStore;
use crate::{ArtifactName, AttemptKey, BlobError, Digest, MediaType, guard};

use manifest::Manifest;

/// The most bytes of one artifact.
pub const ARTIFACT_BYTES: u64 = 1 << 30;
/// The most artifacts of one attempt.
pub const ARTIFACTS: usize = 10_000;
/// The most bytes of all artifacts of one attempt.
pub const KEPT_BYTES: u64 = 10 << 30;
/// The most bytes of all their names.
pub const NAMES_BYTES: usize = 2 << 20;
/// The most puts of one attempt, those counted that were replaced later.
pub const RECORDS: u32 = 40_000;
/// How many manifests are remembered, besides those in use.
const REMEMBERED: usize = 64;

/// A named object of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// What its user calls it.
    pub name: ArtifactName,
    /// Its content.
    pub digest: Digest,
    /// How many bytes that has.
    pub size: u64,
    /// What kind of bytes.
    pub media_type: MediaType,
    /// When it was kept.
    pub at_ms: u64,
}

/// Why an artifact was not kept.
#[derive(Debug, Error)]
pub enum KeepError {
    /// The attempt has enough.
    #[error("keep an artifact: the attempt has {limit} artifacts, the limit")]
    TooMany {
        /// How many it may have.
        limit: usize,
    },
    /// It was put too often.
    #[error("keep an artifact: the attempt has put {limit} times, the limit")]
    TooOften {
        /// How often it may.
        limit: u32,
    },
    /// All together are too large.
    #[error("keep an artifact: those of the attempt would have more than {limit} bytes together, the limit")]
    TooLarge {
        /// How many bytes they may have.
        limit: u64,
    },
    /// The names are too long.
    #[error(
        "keep an artifact: the names of the attempt's artifacts would have more than {limit} bytes, the limit"
    )]
    Names {
        /// How many bytes they may have.
        limit: usize,
    },
    /// The object is not there, or the file system failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Manifests of attempts. One that was never written to reads as empty.
#[derive(Debug)]
pub struct Artifacts {
    file_store: Arc<dyn FileStore>,
    known: Mutex<HashMap<AttemptKey, Arc<Manifest>>>,
}

impl Artifacts {
    pub(crate) fn new(file_store: Arc<dyn FileStore>) -> Artifacts {
        Artifacts { file_store, known: Mutex::default() }
    }

    /// The artifact of this name.
    ///
    /// # Errors
    /// The manifest is damaged, or the file system failed.
    pub fn find(&self, attempt: AttemptKey, name: &ArtifactName) -> Result<Option<Artifact>, BlobError> {
        self.manifest(attempt).read(|state| state.kept.get(name).cloned())
    }

    /// Whether the attempt may have artifacts: whether it has a manifest at all. Most have none, and this is one look
    /// at a name: nothing is opened, read or waited for, so it may be asked where [`find`](Artifacts::find) may not. A
    /// database cannot be looked at without waiting, so in one every attempt may have some.
    ///
    /// # Errors
    /// The file system failed.
    pub fn has_any(&self, attempt: AttemptKey) -> Result<bool, BlobError> {
        Manifest::new(attempt, self.file_store.clone()).may_be_there()
    }

    /// The artifacts behind a name in the order of names, at most so many.
    ///
    /// # Errors
    /// As [`find`](Artifacts::find).
    pub fn list(
        &self,
        attempt: AttemptKey,
        behind: Option<&ArtifactName>,
        most: usize,
    ) -> Result<Vec<Artifact>, BlobError> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let range = (from, Bound::Unbounded);
        self.manifest(attempt).read(|state| {
            state.kept.range::<ArtifactName, _>(range).map(|(_, kept)| kept).take(most).cloned().collect()
        })
    }

    /// Lists an object that is there, young, durably.
    pub(crate) fn add(&self, attempt: AttemptKey, artifact: &Artifact) -> Result<(), KeepError> {
        self.manifest(attempt).add(artifact)
    }

    /// Tells every object that the attempt refers to.
    pub(crate) fn each(&self, attempt: AttemptKey, tell: &mut dyn FnMut(&Digest)) -> Result<(), BlobError> {
        // A walk over everything must not push out what is in use.
        let known = guard(&self.known).get(&attempt).cloned();
        let manifest = known.unwrap_or_else(|| Arc::new(Manifest::new(attempt, self.file_store.clone())));
        manifest.read(|state| state.kept.values().for_each(|kept| tell(&kept.digest)))
    }

    /// Removes a manifest that is not in use, if it is old; returns its size in bytes.
    pub(crate) fn remove(
        &self,
        attempt: AttemptKey,
        is_old: impl Fn(u64) -> bool,
    ) -> Result<Option<u64>, BlobError> {
        let mut known = guard(&self.known);
        if known.get(&attempt).is_some_and(is_in_use) {
            return Ok(None);
        }
        known.remove(&attempt);
        // It cannot be opened meanwhile: opening takes the lock held here.
        Manifest::new(attempt, self.file_store.clone()).remove(is_old)
    }

    fn manifest(&self, attempt: AttemptKey) -> Arc<Manifest> {
        let mut known = guard(&self.known);
        if let Some(manifest) = known.get(&attempt) {
            return manifest.clone();
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, manifest| is_in_use(manifest));
        }
        let manifest = Arc::new(Manifest::new(attempt, self.file_store.clone()));
        known.insert(attempt, manifest.clone());
        manifest
    }
}

/// Handles are given out under the registry's lock only, so one without a second holder stays so while that is held.
fn is_in_use(manifest: &Arc<Manifest>) -> bool {
    Arc::strong_count(manifest) > 1 || manifest.is_broken()
}
