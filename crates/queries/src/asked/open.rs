//! What the open jobs have asked for. A record of kind `q.asked` has it for each of them, so that a restart forgets none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobhall_core::query::{ASKED_MAX, AskedQueries, StoredValue};
use jobhall_core::{AttemptId, JobId, Key, RecordKind, Time};
use jobhall_engine::{Engine, NewRecord, NewRecordGroup};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex as AsyncMutex;

use crate::Error;
use crate::job::damaged;
use crate::sources::now;

/// The kind of the records.
const KIND: &str = "q.asked";
/// How long the record of a job that never ended is kept.
const KEPT_MS: u64 = 365 * 24 * 3_600 * 1_000;
/// How far the clocks of two nodes may differ.
const SKEW_MS: u64 = 60_000;
/// Maximum number of answers of one attempt that are remembered in memory.
const ANSWERS_MAX: usize = 10_000;

/// One query that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub query: String,
    /// Its identity, or the digest of stored data.
    pub meaning: String,
    /// The job that makes the value; none for stored data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
}

/// The content of a record: what the attempt with this claim has asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    claim: u32,
    entries: Vec<Entry>,
    /// What the values that were there had asked for, and what is beyond the bound.
    asked: AskedQueries,
}

/// What the attempt of a job has asked for.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    rev: u32,
    stored: Stored,
    /// All answers were right in this epoch, if it is the one of now; 0 if that is not known.
    since: u64,
    /// The jobs of the meanings, of which the record has the first.
    answers: HashMap<String, Option<JobId>>,
    /// A job whose failure was an answer.
    pub failed: Option<JobId>,
}

/// What an attempt has asked for, when it ends.
#[derive(Debug, Default)]
pub(crate) struct AskedBy {
    pub asked: AskedQueries,
    /// The jobs that make or have made its answers.
    pub jobs: Vec<JobId>,
    pub since: u64,
}

pub(crate) struct OpenAsks {
    engine: Engine,
    /// Attempts that were assigned earlier may have records that are not in memory.
    started_at: Time,
    jobs: Mutex<HashMap<JobId, Arc<AsyncMutex<Asks>>>>,
}

/// An answer that is noted.
pub(crate) struct Answer<'a> {
    pub query: String,
    pub meaning: String,
    pub job: Option<JobId>,
    /// The value, if it was there.
    pub value: Option<&'a StoredValue>,
    /// It is right for a time only, and no change tells when that ends.
    pub is_timed: bool,
    /// The epoch in which the query was planned.
    pub epoch: u64,
}

impl OpenAsks {
    pub fn new(engine: Engine) -> OpenAsks {
        OpenAsks { engine, started_at: now(), jobs: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Arc<AsyncMutex<Asks>>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the attempt has asked for, read once from its record.
    async fn of(&self, attempt: AttemptId) -> Result<Arc<AsyncMutex<Asks>>, Error> {
        let known = self.lock().get(&attempt.job).cloned();
        let asks = match known {
            Some(asks) => asks,
            None => {
                let read = Arc::new(AsyncMutex::new(self.read(attempt.job).await?));
                self.lock().entry(attempt.job).or_insert(read).clone()
            }
        };
        let mut held = asks.lock().await;
        if held.stored.claim != attempt.claim {
            // A later attempt begins anew; its record replaces that of the earlier one.
            let stored = Stored { claim: attempt.claim, ..Stored::default() };
            *held = Asks { rev: held.rev, stored, since: u64::MAX, ..Asks::default() };
        }
        drop(held);
        Ok(asks)
    }

    async fn read(&self, job: JobId) -> Result<Asks, Error> {
        let record = self.engine.records(vec![(kind()?, key(job)?)]).await?.pop().flatten();
        let Some(record) = record else { return Ok(Asks { since: u64::MAX, ..Asks::default() }) };
        let stored: Stored = serde_json::from_str(&record.value).map_err(damaged)?;
        let job = |entry: &Entry| entry.job.and_then(|job| JobId::new(job).ok());
        let answers = stored.entries.iter().map(|entry| (entry.meaning.clone(), job(entry))).collect();
        // When the queries were planned is not known any more.
        Ok(Asks { rev: record.rev, stored, since: 0, answers, failed: None })
    }

    /// Notes an answer, durably: it is not given before.
    pub async fn note(&self, attempt: AttemptId, answer: Answer<'_>) -> Result<(), Error> {
        let asks = self.of(attempt).await?;
        let mut asks = asks.lock().await;
        let mut stored = asks.stored.clone();
        let Answer { query, meaning, job, value, is_timed, epoch } = answer;
        let entry = Entry { query, meaning: meaning.clone(), job: job.map(JobId::get) };
        if let Some(more) = value.and_then(StoredValue::asked) {
            stored.asked = stored.asked.and(more);
        }
        if is_timed {
            stored.asked = AskedQueries::ANY;
        }
        if !stored.entries.contains(&entry) {
            if stored.entries.len() < ASKED_MAX {
                stored.entries.push(entry);
            } else {
                stored.asked = AskedQueries::ANY;
            }
        }
        if stored != asks.stored {
            let record = NewRecord {
                kind: kind()?,
                key: key(attempt.job)?,
                expected: asks.rev,
                group: NewRecordGroup::Keep,
                value: Some(serde_json::to_string(&stored).map_err(damaged)?),
            };
            if let Err(refused) = self.engine.write_records(vec![record]).await {
                // Whether it was written may not be known: the next one reads the record.
                self.lock().remove(&attempt.job);
                return Err(refused.into());
            }
            (asks.rev, asks.stored) = (asks.rev + 1, stored);
        }
        asks.since = asks.since.min(if is_timed { 0 } else { epoch });
        if asks.answers.len() < ANSWERS_MAX {
            asks.answers.insert(meaning, job);
        }
        Ok(())
    }

    /// The job whose value the attempt may read by what it asked for; the inner none is stored data.
    pub async fn answer(&self, attempt: AttemptId, meaning: &str) -> Result<Option<Option<JobId>>, Error> {
        let asks = self.of(attempt).await?;
        let asks = asks.lock().await;
        Ok(asks.answers.get(meaning).copied())
    }

    /// Notes that the failure of a job was an answer.
    pub async fn note_failed(&self, attempt: AttemptId, job: JobId) -> Result<(), Error> {
        self.of(attempt).await?.lock().await.failed = Some(job);
        Ok(())
    }

    /// The last job whose failure was an answer.
    pub async fn failed(&self, attempt: AttemptId) -> Option<JobId> {
        let known = self.lock().get(&attempt.job).cloned()?;
        let asks = known.lock().await;
        asks.failed.filter(|_| asks.stored.claim == attempt.claim)
    }

    /// What an attempt that was assigned at this time has asked for; none if nothing.
    pub async fn asked_by(&self, attempt: AttemptId, assigned_at: Time) -> Result<Option<AskedBy>, Error> {
        let known = self.lock().contains_key(&attempt.job);
        // Another node may have assigned it, by its clock.
        if !known && assigned_at.since(self.started_at) > SKEW_MS {
            return Ok(None);
        }
        let asks = self.of(attempt).await?;
        let asks = asks.lock().await;
        let Asks { stored, since, answers, .. } = &*asks;
        if stored.entries.is_empty() {
            return Ok(None);
        }
        let asked = stored.entries.iter().fold(stored.asked.clone(), |asked, entry| {
            asked.with(entry.query.clone(), entry.meaning.clone())
        });
        let jobs = answers.values().filter_map(|job| *job).collect();
        Ok(Some(AskedBy { asked, jobs, since: *since }))
    }

    /// A job has ended: its record is removed. One that stays is removed a year later.
    pub async fn end(&self, job: JobId) {
        let Some(asks) = self.lock().remove(&job) else { return };
        let rev = asks.lock().await.rev;
        if rev == 0 {
            return;
        }
        let removed = match (kind(), key(job)) {
            (Ok(kind), Ok(key)) => {
                let record = NewRecord { kind, key, expected: rev, group: NewRecordGroup::Keep, value: None };
                self.engine.write_records(vec![record]).await.map_err(Error::from)
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        if let Err(error) = removed {
            tracing::debug!("the record of what job {job} asked for is not removed: {error}");
        }
    }

    /// Whether something is known of this job.
    pub fn has(&self, job: JobId) -> bool {
        self.lock().contains_key(&job)
    }

    /// Removes the records of jobs that were left behind.
    pub async fn prune(&self, now: Time) {
        let Ok(kind) = kind() else { return };
        if let Err(error) = self.engine.prune_records(vec![(kind, now.minus_ms(KEPT_MS))]).await {
            tracing::warn!("old records of what jobs asked for are not removed: {error}");
        }
    }
}

fn kind() -> Result<RecordKind, Error> {
    RecordKind::new(KIND).map_err(damaged)
}

fn key(job: JobId) -> Result<Key, Error> {
    Key::new(&job.to_string()).map_err(damaged)
}
