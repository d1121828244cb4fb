//! Promises: the id of the job that makes a value. One reader of the feed serves all who wait, and a job is read once for
//! all of them.

pub(crate) mod outdated;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jobhall_core::query::{NodeParams, SourceDigest, StoredValue};
use jobhall_core::{Dependency, Failure, Job, JobId, State, StateName};
use jobhall_engine::{Engine, Rejected, Shown, Watched};
use jobhall_store::{FeedRow, Store};
use tokio::sync::{OnceCell, watch};

use crate::asked::complete::cause;
use crate::asked::open::OpenAsks;
use crate::cache::Cache;
use crate::job::damaged;
use crate::registry::Registry;
use crate::seen::Contents;
use crate::{CHECK_CHANGED, Error, QUERIES, Queries};

/// Maximum number of jobs in a chain of failed dependencies that is followed.
pub(crate) const CHAIN: usize = 256;
/// Time until the feed is read again after the store could not be read.
const AGAIN: Duration = Duration::from_secs(1);

/// A promise whose job has completed.
#[derive(Clone, Debug)]
pub struct Ended {
    pub job: Job,
    pub params: NodeParams,
    pub how: EndedHow,
}

/// How a promise ended.
#[derive(Clone, Debug)]
pub enum EndedHow {
    /// With a value.
    Value(Value),
    /// Without one.
    Failure {
        /// The job that failed first, with the failure of its step: this one, or one that it depends on.
        first: Box<Job>,
        step: NodeParams,
        failure: Failure,
    },
}

/// A value.
#[derive(Clone, Debug)]
pub struct Value {
    pub media_type: String,
    /// Its size in bytes.
    pub size: u64,
    pub content: Content,
}

/// Where the bytes of a value are.
#[derive(Clone, Debug)]
pub enum Content {
    /// In the row of its job.
    Inline(Bytes),
    /// In the blob store, as an artifact of the attempt that made it.
    Object(SourceDigest),
}

impl Ended {
    pub(crate) fn value(job: Job, value: &StoredValue) -> Result<Ended, Error> {
        let missing = || damaged(format!("the value of job {}", job.id));
        let content = match value.digest() {
            Some(digest) => Content::Object(digest),
            None => Content::Inline(value.bytes().ok_or_else(missing)?.into()),
        };
        let how = EndedHow::Value(Value { media_type: value.media_type.clone(), size: value.size, content });
        Ok(Ended { params: params(&job)?, job, how })
    }
}

pub(crate) fn params(job: &Job) -> Result<NodeParams, Error> {
    serde_json::from_str(job.spec.params.as_str()).map_err(damaged)
}

type Told = Option<Result<Arc<Ended>, Error>>;
type Waiting = HashMap<JobId, watch::Sender<Told>>;

pub(crate) struct Promises {
    pub(crate) shared: Arc<Shared>,
    reading: OnceCell<()>,
}

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    store: Arc<dyn Store>,
    pub(crate) registry: Arc<Registry>,
    cache: Arc<Cache>,
    pub(crate) asks: Arc<OpenAsks>,
    waiting: Mutex<Waiting>,
    pub(crate) contents: Contents,
}

impl Promises {
    pub fn new(
        engine: Engine,
        store: Arc<dyn Store>,
        registry: Arc<Registry>,
        cache: Arc<Cache>,
        asks: Arc<OpenAsks>,
    ) -> Promises {
        let contents = Contents::default();
        let shared = Shared { engine, store, registry, cache, asks, waiting: Mutex::default(), contents };
        Promises { shared: Arc::new(shared), reading: OnceCell::new() }
    }

    /// Reads the feed from now on.
    pub async fn follow(&self) -> Result<(), Error> {
        self.reading.get_or_try_init(|| self.shared.clone().start()).await.map(|_| ())
    }

    async fn wait(&self, id: JobId) -> Result<Arc<Ended>, Error> {
        // The feed is read before the job is: what ends in between is heard of.
        self.follow().await?;
        let mut told = self.shared.receiver(id);
        match told.wait_for(Option::is_some).await {
            Ok(told) => told.clone().unwrap_or(Err(Error::NoSuchPromise(id.get()))),
            Err(_) => Err(Rejected::Stopped("queries are no longer read".to_owned()).into()),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(self: Arc<Self>) -> Result<(), Error> {
        let watch = self.engine.watch(self.store.feed_end().await?);
        tokio::spawn(async move { self.follow(watch).await });
        Ok(())
    }

    /// The first who waits for a job looks at it; the others share what is found.
    fn receiver(self: &Arc<Self>, id: JobId) -> watch::Receiver<Told> {
        let mut waiting = self.lock();
        if let Some(sender) = waiting.get(&id) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(None);
        waiting.insert(id, sender);
        let shared = self.clone();
        tokio::spawn(async move { shared.look(id).await });
        receiver
    }

    async fn follow(self: Arc<Self>, mut watch: jobhall_engine::Watch) {
        loop {
            // The engine that is held here keeps the feed open.
            let next = tokio::select! {
                biased;
                next = watch.next() => next,
                _ = self.engine.stopped() => Ok(None),
            };
            match next {
                Ok(Some(Watched::Row(row))) => {
                    self.clone().note_seen(&row);
                    let ended = row.entries.iter().filter(|entry| entry.state.is_terminal());
                    let waited: Vec<JobId> = {
                        let waiting = self.lock();
                        ended.map(|entry| entry.id).filter(|id| waiting.contains_key(id)).collect()
                    };
                    for id in waited {
                        self.look(id).await;
                    }
                }
                Ok(Some(Watched::Missed | Watched::Reset(_))) => self.look_at_all().await,
                Ok(Some(Watched::Live(..) | Watched::Progress(..) | Watched::Group(..))) => {}
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!("failed to read the feed for those who wait for queries: {error}");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
        // The callers that still wait learn that nothing more comes.
        self.lock().clear();
    }

    /// Remembers the contents of jobs that have ended with a value.
    fn note_seen(self: Arc<Self>, row: &FeedRow) {
        for entry in row.entries.iter().filter(|entry| entry.state.is_terminal()) {
            if self.asks.has(entry.id) {
                let (asks, id) = (self.asks.clone(), entry.id);
                tokio::spawn(async move { asks.end(id).await });
            }
            let content = self.contents.take(entry.id).filter(|_| entry.state == StateName::Succeeded);
            if let Some(content) = content {
                let (shared, id, at) = (self.clone(), entry.id, row.at);
                tokio::spawn(async move { shared.write_seen(id, content, at).await });
            }
        }
    }

    pub(crate) async fn look_at_all(&self) {
        let ids: Vec<JobId> = self.lock().keys().copied().collect();
        for id in ids {
            self.look(id).await;
        }
    }

    /// Looks at a job, and tells all who wait for it if it has ended. One that waits for a version that is no longer
    /// current is cancelled, of which the feed tells.
    async fn look(&self, id: JobId) {
        let told = match self.ended(id).await {
            Ok(None) => match self.cancel_outdated(id).await {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Ok(Some(ended)) => Ok(Arc::new(ended)),
            Err(error) => Err(error),
        };
        if let Some(sender) = self.lock().remove(&id) {
            sender.send_replace(Some(told));
        }
    }

    pub(crate) async fn job(&self, id: JobId) -> Result<Job, Error> {
        self.shown(id).await.map(|shown| shown.job)
    }

    pub(crate) async fn shown(&self, id: JobId) -> Result<Shown, Error> {
        match self.engine.show(id).await {
            Ok(shown) if is_query(&shown.job) => Ok(shown),
            Ok(_) | Err(Rejected::NoSuchJob(_)) => Err(Error::NoSuchPromise(id.get())),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn ended(&self, id: JobId) -> Result<Option<Ended>, Error> {
        let seen = self.cache.seen();
        let job = self.job(id).await?;
        match &job.status.state {
            State::Succeeded(success) => {
                let value = StoredValue::parse(success.value.as_str());
                let value = value.ok_or_else(|| damaged(format!("the value of job {id} cannot be read")))?;
                self.cache.put(seen, &job, &value, true);
                Ended::value(job, &value).map(Some)
            }
            State::Failed(_) | State::Crashed(_) | State::Cancelled(_) => {
                let first = self.first(job.clone()).await?;
                let failure = failure(&first).cloned().unwrap_or_else(|| Failure::new("unknown", ""));
                let step = params(&first)?;
                let failure = self.with_queries(failure).await?;
                let how = EndedHow::Failure { first: Box::new(first), step, failure };
                Ok(Some(Ended { params: params(&job)?, job, how }))
            }
            _ => Ok(None),
        }
    }

    /// The job that failed first, of those that this one depends on.
    async fn first(&self, mut job: Job) -> Result<Job, Error> {
        for _ in 0..CHAIN {
            let because = |failure| Dependency::cause(failure).or_else(|| cause(failure));
            let Some(cause) = failure(&job).and_then(because) else { break };
            match self.engine.show(cause).await {
                Ok(shown) if is_query(&shown.job) && failure(&shown.job).is_some() => job = shown.job,
                Ok(_) | Err(Rejected::NoSuchJob(_)) => break,
                Err(refused) => return Err(refused.into()),
            }
        }
        Ok(job)
    }
}

fn is_query(job: &Job) -> bool {
    job.spec.job_type.as_str().starts_with(QUERIES.0)
}

fn failure(job: &Job) -> Option<&Failure> {
    match &job.status.state {
        State::Failed(end) | State::Crashed(end) | State::Cancelled(end) => Some(&end.failure),
        _ => None,
    }
}

/// The job of a promise, pending or completed.
#[derive(Clone, Debug)]
pub struct Pending {
    pub job: Job,
    pub params: NodeParams,
    /// The value, if it is there and can be read.
    pub value: Option<StoredValue>,
}

impl Queries {
    /// The job of a promise as it is now.
    ///
    /// # Errors
    /// As [`Queries::wait`].
    pub async fn promised(&self, id: JobId) -> Result<Pending, Error> {
        let job = self.0.promises.shared.job(id).await?;
        let value = match &job.status.state {
            State::Succeeded(success) => StoredValue::parse(success.value.as_str()),
            _ => None,
        };
        Ok(Pending { params: params(&job)?, job, value })
    }

    /// Waits for the end of a promise. The same promise always has the same answer, for as long as its job is stored.
    ///
    /// # Errors
    /// No job of a query has this id, or it cannot be read.
    pub async fn wait(&self, id: JobId) -> Result<Arc<Ended>, Error> {
        let ended = self.0.promises.wait(id).await?;
        if let EndedHow::Failure { step, failure, .. } = &ended.how
            && failure.reason == CHECK_CHANGED
        {
            self.0.checks.forget(step);
        }
        Ok(ended)
    }

    /// The end of a promise; none while its job is pending.
    ///
    /// # Errors
    /// As [`Queries::wait`].
    pub async fn ended(&self, id: JobId) -> Result<Option<Ended>, Error> {
        self.0.promises.shared.ended(id).await
    }
}
