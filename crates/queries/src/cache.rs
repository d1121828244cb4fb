//! What is in memory of the values that are stored.
//!
//! The store is the truth: a value is the result of a succeeded job, found by type and key. What is here is a hint, filled
//! when a value is read, when it has been made, and by a walk over the stored jobs.
//!
//! ```text
//! query ── identity ──▶ index (which job) ──▶ hot (the bytes of the same job) ──▶ answer, without store and kernel
//!                          └── no, or not hot ──▶ plan, store
//! ```
//!
//! An answer from memory needs the entry of the index, and a removed job has none: a removal drops the entry before it is
//! answered, and a value that was read before the removal is not entered after it.

pub(crate) mod counts;
pub(crate) mod evict;
pub(crate) mod follow;
mod gone;
mod hot;
mod index;
pub(crate) mod pins;
pub(crate) mod removal;
pub(crate) mod upkeep;
pub(crate) mod values;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use jobhall_core::query::{CommandName, Identity, NodeParams, StoredValue};
use jobhall_core::{IdMap, Job, JobId, State, Time};
use jobhall_engine::Engine;
use jobhall_store::RemovedJob;
use tokio::sync::Notify;

use crate::QUERIES;
use crate::ask::Warmth;
use crate::asked::fresh::Fresh;

use counts::Counts;
use gone::{Gone, Memory};
use hot::{Hot, HotValue};
use index::{Index, Value};
use pins::Pins;

/// How many removed jobs are remembered for reads that began before their removal.
const REMOVED: usize = 8_192;
/// How many jobs are expected to end at most; the values of others are found by the next walk.
const EXPECTED: usize = 1_000_000;

/// How much is stored, and how much of it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheBounds {
    /// Bytes of all values; those used longest ago are removed above it.
    pub bytes: u64,
    /// Number of values.
    pub values: u64,
    /// Bytes of the values in memory.
    pub hot_bytes: usize,
}

impl Default for CacheBounds {
    fn default() -> CacheBounds {
        CacheBounds { bytes: 10 << 30, values: 1_000_000, hot_bytes: 64 << 20 }
    }
}

/// A value from memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warm {
    pub job: JobId,
    pub bytes: Bytes,
    pub media_type: Bytes,
    /// The entity tag with its quotes.
    pub tag: Bytes,
    pub ended_at: Time,
}

/// A removal that was asked for here: the identity, if the job has one, and why.
type Removal = (Option<Identity>, Gone);

pub(crate) struct Cache {
    pub bounds: CacheBounds,
    pub counts: Counts,
    pub pins: Pins,
    index: Index,
    hot: Hot,
    /// How many jobs were removed since the start.
    removals: AtomicU64,
    /// The last of them, the newest last.
    removed: Mutex<VecDeque<JobId>>,
    removing: Mutex<IdMap<JobId, Removal>>,
    gone: Memory,
    /// Open jobs of queries.
    expected: Mutex<HashSet<JobId>>,
    /// There is an expected job.
    expecting: Notify,
    /// There is more than the bounds allow.
    over: Notify,
    /// One eviction at a time.
    evicting: tokio::sync::Mutex<()>,
    fresh: Arc<Fresh>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The present in microseconds.
fn now_us() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
}

/// The present.
pub(crate) fn now() -> Time {
    i64::try_from(now_us() / 1_000).ok().and_then(|ms| Time::from_ms(ms).ok()).unwrap_or(Time::EPOCH)
}

fn us(time: Time) -> u64 {
    u64::try_from(time.as_ms()).unwrap_or(0).saturating_mul(1_000)
}

/// The command whose value a job makes.
pub(crate) fn command_of(job: &Job) -> Option<CommandName> {
    CommandName::new(job.spec.job_type.as_str().strip_prefix(QUERIES.0)?).ok()
}

/// The identity of the value that a job makes; none if it is for one evaluation only.
pub(crate) fn identity_of_job(job: &Job) -> Option<Identity> {
    job.spec.key.as_ref()?.as_str().parse().ok()
}

/// When a job succeeded, and its value if it can be read.
pub(crate) fn value_of(job: &Job) -> Option<(Time, Option<StoredValue>)> {
    match &job.status.state {
        State::Succeeded(success) => Some((success.at, StoredValue::parse(success.value.as_str()))),
        _ => None,
    }
}

/// When the value of a job expires; none if it does not.
pub(crate) fn expires_at(job: &Job) -> Option<Time> {
    let made = job.status.state.ended_at()?;
    // Most values do not, and their params are not read.
    let params = Some(job.spec.params.as_str()).filter(|params| params.contains("expire"))?;
    serde_json::from_str::<NodeParams>(params).ok()?.expires_at(made)
}

impl Cache {
    pub fn new(bounds: CacheBounds, engine: &Engine, fresh: Arc<Fresh>) -> Arc<Cache> {
        let cache = Arc::new(Cache {
            bounds,
            counts: Counts::default(),
            pins: Pins::default(),
            index: Index::default(),
            hot: Hot::new(bounds.hot_bytes),
            removals: AtomicU64::new(0),
            removed: Mutex::default(),
            removing: Mutex::default(),
            gone: Memory::default(),
            expected: Mutex::default(),
            expecting: Notify::new(),
            over: Notify::new(),
            evicting: tokio::sync::Mutex::default(),
            fresh,
        });
        let weak = Arc::downgrade(&cache);
        engine.on_removed(move |removed| {
            if let Some(cache) = weak.upgrade() {
                cache.forget(removed);
            }
        });
        cache
    }

    pub fn values(&self) -> u64 {
        self.index.values()
    }

    pub fn bytes(&self) -> u64 {
        self.index.bytes()
    }

    pub fn hot_bytes(&self) -> u64 {
        self.hot.bytes()
    }

    /// Whether there is more than the bounds allow.
    pub fn is_over(&self) -> bool {
        self.values() > self.bounds.values || self.bytes() > self.bounds.bytes
    }

    /// Where a read begins: what it returns may be entered unless it was removed after this.
    pub fn seen(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// Whether a job that was read after `seen` is not known to be removed.
    fn holds(&self, seen: u64, job: JobId) -> bool {
        if self.seen() == seen {
            return true;
        }
        let removed = lock(&self.removed);
        let since = usize::try_from(self.seen() - seen).unwrap_or(usize::MAX);
        since <= removed.len() && removed.iter().rev().take(since).all(|gone| *gone != job)
    }

    /// The value of this identity, if it is in memory.
    pub fn warm(&self, identity: &Identity) -> Option<Warm> {
        let used = now_us();
        let value = self.index.hit(identity, used).filter(|value| is_fresh(value, used))?;
        let HotValue { job, bytes, media_type, tag, asked } = self.hot.get(identity)?;
        let is_right = !asked || self.fresh.is_right(job);
        (job == value.job && is_right).then_some(Warm {
            job,
            bytes,
            media_type,
            tag,
            ended_at: value.ended_at,
        })
    }

    /// Whether a value of this identity is known.
    pub fn contains(&self, identity: &Identity) -> bool {
        self.index.get(identity).is_some_and(|value| is_fresh(&value, now_us()))
    }

    /// The job whose value is known for this identity, with the digest of the value.
    pub fn known(&self, identity: &Identity) -> Option<(JobId, [u8; 32])> {
        self.index.get(identity).map(|value| (value.job, value.digest))
    }

    /// Enters a value that was read after `seen`; `hot` if it is likely to be asked for.
    pub fn put(&self, seen: u64, job: &Job, value: &StoredValue, hot: bool) {
        let (Some(identity), Some(ended_at)) = (identity_of_job(job), job.status.state.ended_at()) else {
            return;
        };
        let bytes = value.bytes().map(Bytes::from);
        let digest = bytes.as_ref().map(|bytes| blake3::hash(bytes));
        let entry = Value {
            identity,
            job: job.id,
            size: value.size,
            digest: digest.map_or([0; 32], |digest| *digest.as_bytes()),
            ended_at,
            expires_at: expires_at(job),
        };
        let used = if hot { now_us() } else { us(ended_at) };
        let entered = self.index.put(entry, used, || self.holds(seen, job.id));
        if let (true, true, Some(bytes), Some(digest)) = (entered, hot, bytes, digest) {
            let tag = format!("\"{}\"", digest.to_hex()).into();
            let media_type = value.media_type.clone().into();
            let asked = value.asked().is_some();
            self.hot.put(identity, HotValue { job: job.id, bytes, media_type, tag, asked });
        }
        if entered && self.is_over() {
            self.over.notify_one();
        }
    }

    /// Enters what a read has found for an identity.
    pub fn found(&self, seen: u64, identity: &Identity, warmth: &Warmth) {
        match warmth {
            Warmth::Hit(job, value) => self.put(seen, job, value, true),
            Warmth::Missing(job) => {
                if let Some((known, _)) = self.known(identity)
                    && job.is_none_or(|job| known <= job)
                {
                    self.drop_entry(identity, known);
                }
            }
            Warmth::Expired(..) | Warmth::NotNeeded(_) => {}
        }
    }

    fn drop_entry(&self, identity: &Identity, job: JobId) {
        if self.index.remove(identity, job) {
            self.hot.remove(identity);
        }
    }

    /// Expects these jobs to end.
    pub fn expect(&self, jobs: impl Iterator<Item = JobId>) {
        let mut expected = lock(&self.expected);
        let room = EXPECTED.saturating_sub(expected.len());
        expected.extend(jobs.take(room));
        if !expected.is_empty() {
            self.expecting.notify_one();
        }
    }

    /// Of the jobs that were expected before, only these are still open.
    fn expect_only(&self, before: &HashSet<JobId>, open: &HashSet<JobId>) {
        lock(&self.expected).retain(|job| !before.contains(job) || open.contains(job));
    }

    /// Jobs have been removed; none if it is not known which.
    fn forget(&self, removed: Option<&[RemovedJob]>) {
        let Some(removed) = removed else {
            self.removals.fetch_add(REMOVED as u64 + 1, Ordering::AcqRel);
            self.index.clear();
            return self.hot.clear();
        };
        let jobs: Vec<JobId> = removed.iter().filter(|job| is_query(job)).map(|job| job.id).collect();
        if jobs.is_empty() {
            return;
        }
        {
            let mut last = lock(&self.removed);
            last.extend(&jobs);
            let surplus = last.len().saturating_sub(REMOVED);
            last.drain(..surplus);
            self.removals.fetch_add(jobs.len() as u64, Ordering::AcqRel);
        }
        let mut unknown = HashSet::new();
        for job in jobs {
            let asked = lock(&self.removing).remove(&job);
            match asked {
                Some((Some(identity), why)) => {
                    self.drop_entry(&identity, job);
                    self.gone.remember(identity, why);
                }
                Some((None, _)) => {}
                None => {
                    unknown.insert(job);
                }
            }
        }
        if !unknown.is_empty() {
            for value in self.index.remove_jobs(&unknown) {
                self.hot.remove(&value.identity);
                self.gone.remember(value.identity, Gone::Dropped);
            }
        }
    }
}

fn is_fresh(value: &Value, now_us: u64) -> bool {
    value.expires_at.is_none_or(|at| now_us < us(at))
}

fn is_query(job: &RemovedJob) -> bool {
    job.job_type.as_str().starts_with(QUERIES.0)
}

#[cfg(test)]
mod tests {
    use jobhall_core::{QueueName, TypeName};
    use jobhall_engine::{Config, SystemClock};
    use jobhall_store::Memory;

    use super::*;

    fn id(number: u64) -> JobId {
        JobId::new(number).unwrap()
    }

    fn removed(number: u64, job_type: &str) -> RemovedJob {
        let queue = QueueName::new("queries").unwrap();
        RemovedJob { id: id(number), job_type: TypeName::new(job_type).unwrap(), queue }
    }

    #[tokio::test]
    async fn what_was_removed_after_it_was_read_is_not_entered() {
        let store = Arc::new(Memory::new());
        let engine = Engine::start(store, Config::default(), SystemClock::default()).await.unwrap();
        let cache = Cache::new(CacheBounds::default(), &engine, Arc::default());
        let seen = cache.seen();
        cache.forget(Some(&[removed(1, "q.a"), removed(2, "other")]));
        let holds = |seen| [1, 2, 3].map(|job| cache.holds(seen, id(job)));
        assert_eq!(holds(seen), [false, true, true]);
        assert_eq!(holds(cache.seen()), [true; 3], "it was read after the removal");
        // More removals than are remembered, and one of which the jobs are not known: nothing read before is entered.
        let many: Vec<_> = (10..10 + REMOVED as u64 + 1).map(|job| removed(job, "q.a")).collect();
        let seen = cache.seen();
        cache.forget(Some(&many));
        assert_eq!(holds(seen), [false; 3]);
        let seen = cache.seen();
        cache.forget(None);
        assert_eq!(holds(seen), [false; 3]);
        engine.stop().await;
    }
}
