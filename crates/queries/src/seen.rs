//! Early cut-off: a step that was run before with the same command, version, arguments and input *bytes* is not run again,
//! even if its inputs were computed again. Records of kind `q.seen` map this content to the job that has the value.
//!
//! A record is written after the success of its job, and not in its commit: of two jobs with one content the second would
//! be refused its outcome, while a record that is lost costs no more than one computation.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobhall_core::query::{Identity, NodeParams, StoredValue, content_identity};
use jobhall_core::{Job, JobId, Key, RecordKind, State, Time};
use jobhall_engine::{NewRecord, NewRecordGroup, Rejected};
use serde::{Deserialize, Serialize};

use crate::identity::Blake3;
use crate::job::damaged;
use crate::promise::{Content, params as params_of};
use crate::{Ended, EndedHow, Error, Queries};

/// The kind of the records.
const KIND: &str = "q.seen";
/// Maximum number of jobs whose content is remembered until they end.
const OPEN_MAX: usize = 10_000;
/// How long a record is kept.
const KEPT_MS: u64 = 30 * 24 * 3_600 * 1_000;
/// The least time between two removals of old records.
const PRUNED_MS: i64 = 3_600 * 1_000;

/// The content of a record.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// A job with the value.
    job: u64,
}

/// The content of an open job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenContent {
    identity: Identity,
    /// The rev of its record; 0 if there is none.
    rev: u32,
}

/// The contents of the jobs that are open.
#[derive(Default)]
pub(crate) struct Contents {
    open: Mutex<Open>,
    pruned_at: AtomicI64,
}

#[derive(Default)]
struct Open {
    contents: HashMap<JobId, OpenContent>,
    /// The oldest first.
    order: VecDeque<JobId>,
}

impl Contents {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, job: JobId, content: OpenContent) {
        let mut open = self.lock();
        if open.contents.insert(job, content).is_none() {
            open.order.push_back(job);
        }
        while open.order.len() > OPEN_MAX {
            if let Some(oldest) = open.order.pop_front() {
                open.contents.remove(&oldest);
            }
        }
    }

    /// The content of a job that has ended.
    pub(crate) fn take(&self, job: JobId) -> Option<OpenContent> {
        self.lock().contents.remove(&job)
    }
}

impl Queries {
    /// The result of another job with the content of this one, whose inputs have all been made; none if this one has to
    /// run.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn seen(&self, job: &Job, params: &NodeParams) -> Result<Option<String>, Error> {
        if job.spec.key.is_none() || params.inputs.is_empty() || params.anew {
            return Ok(None);
        }
        let Some(identity) = self.content(job, params).await? else { return Ok(None) };
        let record = self.0.engine.records(vec![(kind()?, key(identity)?)]).await?.pop().flatten();
        let rev = record.as_ref().map_or(0, |record| record.rev);
        // Its success is heard of in the feed.
        self.0.promises.follow().await?;
        self.0.promises.shared.contents.note(job.id, OpenContent { identity, rev });
        let named = record.and_then(|record| serde_json::from_str::<Stored>(&record.value).ok());
        match named.and_then(|named| JobId::new(named.job).ok()) {
            Some(named) => self.result_of(named, params).await,
            None => Ok(None),
        }
    }

    async fn content(&self, job: &Job, params: &NodeParams) -> Result<Option<Identity>, Error> {
        let mut digests = Vec::with_capacity(params.inputs.len());
        for input in job.spec.after.iter().take(params.inputs.len()) {
            match self.ended(*input).await? {
                Some(Ended { how: EndedHow::Value(value), .. }) => digests.push(match value.content {
                    Content::Inline(bytes) => *blake3::hash(&bytes).as_bytes(),
                    Content::Object(digest) => digest.0,
                }),
                _ => return Ok(None),
            }
        }
        let (known, needs) = (self.commands().await?, job.spec.needs.as_str());
        Ok(content_identity(Blake3::default(), params, needs, &digests, &known.commands))
    }

    /// The result of a job, if it is there and was made by the same command.
    async fn result_of(&self, job: JobId, params: &NodeParams) -> Result<Option<String>, Error> {
        let last = |params: &NodeParams| {
            params.steps.last().map(|step| (step.command.clone(), step.version.clone()))
        };
        let job = match self.0.promises.shared.job(job).await {
            Ok(job) => job,
            Err(Error::NoSuchPromise(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        match &job.status.state {
            State::Succeeded(success) if last(&params_of(&job)?) == last(params) => {
                // A large value is an artifact of the attempt that made it, and no other one's.
                let value = StoredValue::parse(success.value.as_str());
                let inline = value.filter(|value| value.digest().is_none());
                Ok(inline.map(|_| success.value.as_str().to_owned()))
            }
            _ => Ok(None),
        }
    }
}

impl crate::promise::Shared {
    /// A job has succeeded: its content names it from now on.
    pub(crate) async fn write_seen(&self, id: JobId, content: OpenContent, now: Time) {
        if let Err(error) = self.write_content(id, content).await {
            tracing::warn!("the content of job {id} is not stored, so it may be computed again: {error}");
        }
        let (now, last) = (now.as_ms(), self.contents.pruned_at.load(Ordering::Relaxed));
        if now - last > PRUNED_MS {
            self.contents.pruned_at.store(now, Ordering::Relaxed);
            let now = Time::from_ms(now).unwrap_or_default();
            self.prune_contents(now).await;
            self.asks.prune(now).await;
        }
    }

    async fn write_content(&self, job: JobId, content: OpenContent) -> Result<(), Error> {
        let record = NewRecord {
            kind: kind()?,
            key: key(content.identity)?,
            expected: content.rev,
            group: NewRecordGroup::Keep,
            value: Some(serde_json::to_string(&Stored { job: job.get() }).map_err(damaged)?),
        };
        match self.engine.write_records(vec![record]).await {
            // Another job with this content has ended meanwhile, and has the same value.
            Ok(()) | Err(Rejected::RecordChanged(_)) => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn prune_contents(&self, now: Time) {
        let Ok(kind) = kind() else { return };
        if let Err(error) = self.engine.prune_records(vec![(kind, now.minus_ms(KEPT_MS))]).await {
            tracing::warn!("old contents of steps are not removed: {error}");
        }
    }
}

fn kind() -> Result<RecordKind, Error> {
    RecordKind::new(KIND).map_err(damaged)
}

fn key(identity: Identity) -> Result<Key, Error> {
    Key::new(&identity.to_string()).map_err(damaged)
}
