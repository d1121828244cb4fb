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

/// Maximum size of one artifact.
pub const ARTIFACT_BYTES: u64 = 1 << 30;
/// Maximum number of artifacts of one attempt.
pub const ARTIFACTS: usize = 10_000;
/// Maximum total size of the artifacts of one attempt.
pub const KEPT_BYTES: u64 = 10 << 30;
/// Maximum total size of their names.
pub const NAMES_BYTES: usize = 2 << 20;
/// Maximum number of puts of one attempt, including replaced ones.
pub const RECORDS: u32 = 40_000;
/// Number of cached manifests besides those in use.
const REMEMBERED: usize = 64;

/// A named object of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    pub name: ArtifactName,
    pub digest: Digest,
    pub size: u64,
    pub media_type: MediaType,
    /// When it was stored.
    pub at_ms: u64,
}

/// Why an artifact was not stored.
#[derive(Debug, Error)]
pub enum KeepError {
    /// The attempt has too many artifacts.
    #[error("keep an artifact: the attempt has {limit} artifacts, the limit")]
    TooMany { limit: usize },
    /// The attempt has made too many puts.
    #[error("keep an artifact: the attempt has put {limit} times, the limit")]
    TooOften { limit: u32 },
    /// The artifacts are too large in total.
    #[error("keep an artifact: those of the attempt would have more than {limit} bytes together, the limit")]
    TooLarge { limit: u64 },
    /// The names are too long in total.
    #[error(
        "keep an artifact: the names of the attempt's artifacts would have more than {limit} bytes, the limit"
    )]
    Names { limit: usize },
    /// The object does not exist, or the file system failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Manifests of attempts. A manifest that was never written reads as empty.
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

    /// Whether the attempt may have artifacts, that is, whether it has a manifest. Most have none, and this checks
    /// only a name: nothing is opened, read or waited for, so it may be called where [`find`](Artifacts::find) may
    /// not. A database cannot be queried without waiting, so there the answer is always true.
    ///
    /// # Errors
    /// The file system failed.
    pub fn has_any(&self, attempt: AttemptKey) -> Result<bool, BlobError> {
        Manifest::new(attempt, self.file_store.clone()).may_be_there()
    }

    /// The artifacts after a name in the order of names, up to a limit.
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

    /// Lists an existing, recently touched object durably.
    pub(crate) fn add(&self, attempt: AttemptKey, artifact: &Artifact) -> Result<(), KeepError> {
        self.manifest(attempt).add(artifact)
    }

    /// Calls `tell` for every object that the attempt refers to.
    pub(crate) fn each(&self, attempt: AttemptKey, tell: &mut dyn FnMut(&Digest)) -> Result<(), BlobError> {
        // A walk over all manifests must not evict those in use from the cache.
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
        // It cannot be opened meanwhile: opening requires the lock held here.
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

/// Handles are created only under the registry's lock, so a handle without a second owner keeps that property while
/// the lock is held.
fn is_in_use(manifest: &Arc<Manifest>) -> bool {
    Arc::strong_count(manifest) > 1 || manifest.is_broken()
}
