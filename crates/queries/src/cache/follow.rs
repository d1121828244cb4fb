//! What runs besides the requests while this node leads: new values are entered as their jobs end, the bounds are kept,
//! and there is an hourly walk.

use std::future::Future;
use std::time::Duration;

use jobhall_core::JobId;
use jobhall_engine::{Watch, Watched};

use super::{identity_of_job, lock, now, value_of};
use crate::{Error, Queries};

/// Time between two walks.
const EVERY: Duration = Duration::from_secs(3_600);
/// Time until something is tried again after the store could not be read, or after values were spared.
const AGAIN: Duration = Duration::from_secs(10);
/// Jobs that are read at once.
const PAGE: usize = 100;

impl Queries {
    /// Keeps the cache until `stop` is ready.
    pub async fn keep_cache(&self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.walk_hourly() => {}
            () = self.keep_bounds() => {}
            () = self.follow() => {}
        }
    }

    async fn walk_hourly(&self) {
        loop {
            let pause = match self.upkeep(now()).await {
                Ok(done) => {
                    tracing::debug!(jobs = done.jobs, removed = done.removed, "looked at all values");
                    EVERY
                }
                Err(error) => {
                    tracing::warn!("failed to look at all values; it will be tried again: {error}");
                    AGAIN
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn keep_bounds(&self) {
        let cache = &self.0.cache;
        loop {
            if !cache.is_over() {
                cache.over.notified().await;
            }
            match self.evict(now()).await {
                Ok(removed) if removed.values > 0 => {
                    tracing::debug!(values = removed.values, bytes = removed.bytes, "values evicted");
                }
                Ok(_) => {}
                Err(error) => tracing::warn!("failed to evict values: {error}"),
            }
            if cache.is_over() {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Enters the values of expected jobs when they end. The feed is read from the first expected job on.
    async fn follow(&self) {
        loop {
            self.0.cache.expecting.notified().await;
            match self.0.store.feed_end().await {
                Ok(end) => return self.read_feed(self.0.engine.watch(end)).await,
                Err(error) => {
                    tracing::warn!("failed to read the feed for the cache: {error}");
                    tokio::time::sleep(AGAIN).await;
                    self.0.cache.expecting.notify_one();
                }
            }
        }
    }

    async fn read_feed(&self, mut watch: Watch) {
        self.look_at_expected().await;
        loop {
            match watch.next().await {
                Ok(Some(Watched::Row(row))) => {
                    let ended = row.entries.iter().filter(|entry| entry.state.is_terminal());
                    let ended = self.expected(ended.map(|entry| entry.id));
                    self.look_at(ended).await;
                }
                Ok(Some(Watched::Missed | Watched::Reset(_))) => self.look_at_expected().await,
                Ok(Some(Watched::Live(..) | Watched::Progress(..) | Watched::Group(..))) => {}
                // The engine has stopped; the caller waits for its own stop.
                Ok(None) => return std::future::pending().await,
                Err(error) => {
                    tracing::warn!("failed to read the feed for the cache: {error}");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    fn expected(&self, jobs: impl Iterator<Item = JobId>) -> Vec<JobId> {
        let expected = lock(&self.0.cache.expected);
        jobs.filter(|job| expected.contains(job)).collect()
    }

    async fn look_at_expected(&self) {
        let expected = lock(&self.0.cache.expected).iter().copied().collect();
        self.look_at(expected).await;
    }

    async fn look_at(&self, jobs: Vec<JobId>) {
        for jobs in jobs.chunks(PAGE) {
            if let Err(error) = self.enter(jobs).await {
                tracing::warn!("failed to read new values for the cache; the next walk finds them: {error}");
            }
        }
    }

    /// Enters those of these jobs that have ended.
    async fn enter(&self, jobs: &[JobId]) -> Result<(), Error> {
        let cache = &self.0.cache;
        let (seen, found) = (cache.seen(), self.0.store.jobs(jobs.to_vec()).await?);
        for (id, job) in jobs.iter().zip(found) {
            let ended = job.as_ref().is_none_or(|job| job.status.state.is_terminal());
            if !ended || !lock(&cache.expected).remove(id) {
                continue;
            }
            let Some(job) = job else { continue };
            cache.counts.ended(&job);
            if let (Some((_, Some(value))), Some(_)) = (value_of(&job), identity_of_job(&job)) {
                cache.put(seen, &job, &value, true);
            }
        }
        Ok(())
    }
}
