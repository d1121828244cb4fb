//! Sources: stored data that queries begin with. A source is a record of kind `q.source` under the key of the data; its
//! bytes are an object of the blob store, named by their digest.
//!
//! The digest is part of the identity of what is made from the data. So other bytes under a key are another value, and
//! the same bytes again find the values that were made from them before.
//!
//! A key that begins with `blake3/` is the digest of its data, so such a source is never changed. It is removed when no
//! query has used it for seven days.

mod index;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use jobhall_core::query::{SourceDigest, SourceKey};
use jobhall_core::{Key, RecordKind, Time};
use jobhall_engine::{Engine, NewRecord, NewRecordGroup, Rejected};
use jobhall_store::RecordFilter;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

use crate::asked::fresh::Fresh;
use crate::job::damaged;
use crate::{Error, Queries};
use index::Entry;
pub(crate) use index::Index;
pub use index::{SOURCES_BYTES_MAX, SOURCES_MAX};

/// The kind of the records.
const KIND: &str = "q.source";
/// The keys of sources that are named by the digest of their data begin with this.
pub const BY_DIGEST: &str = "blake3/";
/// Records read at once.
const PAGE: usize = 1_000;
/// Records removed in one commit.
const REMOVED: usize = 500;
/// How often a change is decided again because the record has changed.
const TRIES: usize = 3;
/// The use of a source that is named by its digest is stored at most this often, in milliseconds.
const USED_MS: u64 = 24 * 60 * 60 * 1_000;
/// A source that is named by its digest is removed when it was not used for this time, in milliseconds.
const UNUSED_MS: u64 = 7 * USED_MS;

/// Stored data under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSource {
    pub key: SourceKey,
    pub digest: SourceDigest,
    pub size: u64,
    pub media_type: String,
    /// When it was put; for one that is named by its digest, when it was last used, to a day.
    pub at: Time,
}

impl StoredSource {
    /// Whether its key is the digest of its data.
    #[must_use]
    pub fn is_by_digest(&self) -> bool {
        self.key.as_str().starts_with(BY_DIGEST)
    }
}

/// What a put has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutSource {
    pub source: StoredSource,
    /// Whether there was no source of this key.
    pub is_new: bool,
    /// Whether the key had other data, or none.
    pub is_changed: bool,
}

/// The content of a record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    digest: SourceDigest,
    size: u64,
    media_type: String,
}

pub(crate) struct Sources {
    engine: Engine,
    /// None until it was read.
    index: RwLock<Option<Index>>,
    /// One reader or writer of records at a time.
    turn: Mutex<()>,
    fresh: Arc<Fresh>,
}

impl Sources {
    pub fn new(engine: Engine, fresh: Arc<Fresh>) -> Sources {
        Sources { engine, index: RwLock::new(None), turn: Mutex::new(()), fresh }
    }

    /// Passes the index to a function. The records are read first if they were not.
    pub async fn with<T>(&self, read: impl FnOnce(&Index) -> T) -> Result<T, Error> {
        if !self.is_read() {
            let turn = self.turn.lock().await;
            if !self.is_read() {
                self.read(&turn).await?;
            }
        }
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.as_ref().map(read).ok_or_else(|| damaged("the sources were not read"))
    }

    /// The digest of a source, without a read of records. None also if the use of the source is to be stored.
    pub fn in_memory(&self, key: &SourceKey) -> Option<SourceDigest> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let source = &index.as_ref()?.entry(key)?.source;
        let is_due = source.is_by_digest() && now().since(source.at) >= USED_MS;
        (!is_due).then_some(source.digest)
    }

    /// Whether it is known that there is no data under a key.
    pub fn is_absent(&self, key: &SourceKey) -> bool {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.as_ref().is_some_and(|index| index.entry(key).is_none())
    }

    fn is_read(&self) -> bool {
        self.index.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Changes the index after a commit.
    fn change(&self, change: impl FnOnce(&mut Index)) {
        if let Some(index) = self.index.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
            change(index);
        }
    }

    async fn read(&self, _turn: &MutexGuard<'_, ()>) -> Result<(), Error> {
        let (mut index, mut after) = (Index::default(), None);
        loop {
            let page = self.engine.record_page(RecordFilter::of(kind()?), after, PAGE).await?;
            for record in page.records {
                let wrong = |error: String| damaged(format!("the source {}: {error}", record.key));
                let stored: Stored =
                    serde_json::from_str(&record.value).map_err(|error| wrong(error.to_string()))?;
                let key = SourceKey::new(record.key.as_str()).map_err(|why| wrong(why.to_owned()))?;
                let Stored { digest, size, media_type } = stored;
                let source = StoredSource { key, digest, size, media_type, at: record.at };
                index.insert(Entry { source, rev: record.rev });
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = Some(index);
        self.fresh.rise();
        Ok(())
    }

    /// Writes these records, and the index after them. If a record has changed or the result of the commit is unknown,
    /// all of them are read again.
    async fn write(&self, turn: &MutexGuard<'_, ()>, changes: Vec<Change>) -> Result<(), Error> {
        let records = changes.iter().map(Change::record).collect::<Result<_, Error>>()?;
        match self.engine.write_records(records).await {
            Ok(()) => {
                self.change(|index| changes.into_iter().for_each(|change| change.apply(index)));
                Ok(())
            }
            Err(refused) => {
                if let Err(error) = self.read(turn).await {
                    *self.index.write().unwrap_or_else(PoisonError::into_inner) = None;
                    return Err(error);
                }
                Err(refused.into())
            }
        }
    }

    async fn put(&self, source: StoredSource) -> Result<(PutSource, Option<StoredSource>), Error> {
        let hex = source.digest.to_string();
        if source.key.as_str().strip_prefix(BY_DIGEST).is_some_and(|named| named != hex) {
            let why = format!(
                "a key that begins with {BY_DIGEST} is the digest of its data, here {BY_DIGEST}{hex}"
            );
            return Err(Error::Refused(why));
        }
        self.with(|_| ()).await?;
        let turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let known = self.with(|index| index.entry(&source.key).cloned()).await?;
            let before = known.as_ref().map(|entry| entry.source.clone());
            let is_changed = before.as_ref().is_none_or(|before| before.digest != source.digest);
            let answer = PutSource { source: source.clone(), is_new: before.is_none(), is_changed };
            self.with(|index| index.check(&source)).await?.map_err(Error::Refused)?;
            let rev = known.map_or(0, |entry| entry.rev);
            match self.write(&turn, vec![Change::Set(Entry { source: source.clone(), rev })]).await {
                Ok(()) => return Ok((answer, before)),
                Err(Error::Rejected(Rejected::RecordChanged(_))) => {}
                Err(refused) => return Err(refused),
            }
        }
        Err(Rejected::Contended.into())
    }

    async fn remove(&self, keys: &[SourceKey]) -> Result<Vec<StoredSource>, Error> {
        self.with(|_| ()).await?;
        let turn = self.turn.lock().await;
        for _ in 0..TRIES {
            let known: Vec<Entry> =
                self.with(|index| keys.iter().filter_map(|key| index.entry(key).cloned()).collect()).await?;
            if known.is_empty() {
                return Ok(Vec::new());
            }
            match self.write(&turn, known.iter().cloned().map(Change::Remove).collect()).await {
                Ok(()) => return Ok(known.into_iter().map(|entry| entry.source).collect()),
                Err(Error::Rejected(Rejected::RecordChanged(_))) => {}
                Err(refused) => return Err(refused),
            }
        }
        Err(Rejected::Contended.into())
    }

    /// Stores that these sources are used, at most once a day for each. Only those that are named by their digest are
    /// removed for lack of use.
    pub async fn used(&self, keys: &[SourceKey], now: Time) -> Result<(), Error> {
        let due = |index: &Index| {
            let known = keys.iter().filter_map(|key| index.entry(key));
            let due =
                known.filter(|known| known.source.is_by_digest() && now.since(known.source.at) >= USED_MS);
            due.cloned().collect::<Vec<_>>()
        };
        if self.with(due).await?.is_empty() {
            return Ok(());
        }
        let turn = self.turn.lock().await;
        let mut due = self.with(due).await?;
        due.dedup_by(|left, right| left.source.key == right.source.key);
        if due.is_empty() {
            return Ok(());
        }
        due.iter_mut().for_each(|entry| entry.source.at = now);
        self.write(&turn, due.into_iter().map(Change::Set).collect()).await
    }
}

/// One change of the index, which is decided on the rev of its entry.
enum Change {
    Set(Entry),
    Remove(Entry),
}

impl Change {
    fn record(&self) -> Result<NewRecord, Error> {
        let (Change::Set(entry) | Change::Remove(entry)) = self;
        let StoredSource { digest, size, media_type, .. } = &entry.source;
        let stored = Stored { digest: *digest, size: *size, media_type: media_type.clone() };
        let value = matches!(self, Change::Set(_)).then(|| serde_json::to_string(&stored));
        Ok(NewRecord {
            kind: kind()?,
            key: Key::new(entry.source.key.as_str()).map_err(damaged)?,
            expected: entry.rev,
            group: NewRecordGroup::Keep,
            value: value.transpose().map_err(damaged)?,
        })
    }

    fn apply(self, index: &mut Index) {
        match self {
            Change::Set(entry) => index.insert(Entry { rev: entry.rev + 1, ..entry }),
            Change::Remove(entry) => index.remove(&entry.source.key),
        }
    }
}

fn kind() -> Result<RecordKind, Error> {
    RecordKind::new(KIND).map_err(damaged)
}

/// The time of the wall clock.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).ok().and_then(|ms| Time::from_ms(ms).ok()).unwrap_or(Time::EPOCH)
}

impl Queries {
    /// The source of this key.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn source(&self, key: &SourceKey) -> Result<Option<StoredSource>, Error> {
        self.0.sources.with(|index| index.entry(key).map(|entry| entry.source.clone())).await
    }

    /// The keys that were probably meant by an unknown one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn nearest_sources(&self, key: &SourceKey) -> Result<Vec<String>, Error> {
        self.0.sources.with(|index| index.nearest(key)).await
    }

    /// The sources whose keys begin with this text, in the order of keys, after another text.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn sources(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredSource>, Error> {
        self.0.sources.with(|index| index.page(prefix, after, limit)).await
    }

    /// Puts data under a key. Its bytes are an object that was stored a moment ago.
    ///
    /// # Errors
    /// The key is the digest of other data, there are too many sources, or the store cannot commit.
    pub async fn put_source(&self, source: StoredSource) -> Result<PutSource, Error> {
        let (put, before) = self.0.sources.put(source).await?;
        // New data under its digest changes no meaning.
        if put.is_changed && !put.source.is_by_digest() {
            self.0.fresh.rise();
        }
        self.release(before.filter(|_| put.is_changed)).await;
        Ok(put)
    }

    /// Removes a source and returns it; none if there is no such source.
    ///
    /// # Errors
    /// The store cannot commit.
    pub async fn remove_source(&self, key: &SourceKey) -> Result<Option<StoredSource>, Error> {
        let removed = self.0.sources.remove(std::slice::from_ref(key)).await?.pop();
        self.0.fresh.rise();
        self.release(removed.clone()).await;
        Ok(removed)
    }

    /// Stores that a source is used.
    ///
    /// # Errors
    /// The store cannot commit.
    pub async fn use_source(&self, key: &SourceKey) -> Result<(), Error> {
        self.0.sources.used(std::slice::from_ref(key), now()).await
    }

    /// Removes the sources that are named by their digest and were not used for seven days; returns how many.
    ///
    /// # Errors
    /// The store cannot commit.
    pub async fn remove_unused_sources(&self, now: Time) -> Result<usize, Error> {
        let mut all = 0;
        loop {
            // Use is known to a day.
            let before = now.minus_ms(UNUSED_MS + USED_MS);
            let unused = self.0.sources.with(|index| index.unused(before, REMOVED)).await?;
            let removed = self.0.sources.remove(&unused).await?.len();
            all += removed;
            if unused.is_empty() || removed == 0 {
                return Ok(all);
            }
        }
    }

    /// Whether a source has this object. True if that cannot be known.
    pub async fn names_object(&self, digest: SourceDigest) -> bool {
        self.0.sources.with(|index| index.has_object(&digest)).await.unwrap_or(true)
    }

    /// Keeps the object that a source had for as long as a new object, because a step may be about to read it.
    async fn release(&self, before: Option<StoredSource>) {
        let Some(before) = before else { return };
        if let Err(error) = self.0.objects.touch(before.digest, now()).await {
            tracing::warn!(key = %before.key, "failed to keep the data of a source that was replaced: {error}");
        }
    }
}
