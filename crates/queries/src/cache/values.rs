//! What is asked about the cache: a value in memory, the stored values, and figures.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use jobhall_core::query::{CommandName, Identity, Kept, NodeParams, Query, StoredValue, identify};
use jobhall_core::{Job, JobId, Key, StateName, Time, TypeName};
use jobhall_store::JobFilter;

use super::counts::{CommandCounts, Misses};
use super::{CacheBounds, Warm, identity_of_job, value_of};
use crate::ask::Warmth;
use crate::facts::{Answers, InMemory};
use crate::identity::Blake3;
use crate::{Error, Queries, job};

/// A stored value.
#[derive(Clone, Debug)]
pub struct Cached {
    pub job: Job,
    pub params: NodeParams,
    pub identity: Identity,
    pub made_at: Time,
    /// None if it cannot be read.
    pub value: Option<StoredValue>,
    pub pinned: bool,
}

/// A page of stored values, newest first.
#[derive(Clone, Debug, Default)]
pub struct CachedPage {
    pub values: Vec<Cached>,
    pub next: Option<JobId>,
}

/// Figures of the cache.
#[derive(Clone, Debug)]
pub struct CacheStats {
    pub values: u64,
    pub bytes: u64,
    pub hot_bytes: u64,
    pub pinned: usize,
    pub evictions: u64,
    pub bounds: CacheBounds,
    pub commands: BTreeMap<CommandName, CommandCounts>,
    pub misses: Misses,
}

/// The result of reading stored values again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub checked: u64,
    /// Values that cannot be read or have changed; they will be made again.
    pub damaged: Vec<(JobId, String)>,
    /// The request is continued below this job; none if everything was looked at.
    pub next: Option<JobId>,
}

/// Jobs of a page.
const PAGE: usize = 100;
/// Jobs that one request reads again.
const SCAN: usize = 2_000;

impl Queries {
    /// The value of a query, if it is in memory: nothing is read and nothing is waited for.
    #[must_use]
    pub fn warm(&self, query: &Query) -> Option<Warm> {
        let command = &query.steps.last()?.command;
        let warm = self.0.cache.warm(&self.identity_in_memory(query)?)?;
        // After a loss of the leadership another node may know better.
        self.0.store.may_lead().then(|| self.0.cache.counts.hit(command))?;
        Some(warm)
    }

    /// Whether the value of a query is known to be stored. Only memory is looked at: a value that was not read since the
    /// start may be missing here.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        let query = Query::parse(text, jobhall_core::query::TEXT_BYTES_MAX).ok();
        let identity = query.and_then(|query| self.identity_in_memory(&query));
        identity.is_some_and(|identity| self.0.cache.contains(&identity))
    }

    fn identity_in_memory(&self, query: &Query) -> Option<Identity> {
        let known = self.0.registry.in_memory()?;
        let (sources, recipes, checks) = (&self.0.sources, &self.0.recipes, &self.0.checks);
        let facts = InMemory { sources, recipes, checks, now: super::now() };
        identify(query, Blake3::default(), &job::queue().ok()?, &known.commands, &facts)
    }

    /// The type and the key under which the value of a query is stored.
    pub(crate) async fn type_and_key(&self, query: &Query) -> Result<(TypeName, Key), Error> {
        let plan = self.plan_only(query, Answers::Last).await?;
        if let Some(check) = plan.checks.iter().find(|check| check.answer.is_none()) {
            let name = &check.declared.declaration.name;
            let why =
                format!("the check of {name} has not been run since the start; ask for the query first");
            return Err(Error::Refused(why));
        }
        let last = plan.nodes.last().filter(|node| node.kept == Kept::Shared);
        let found = last.map(|node| Ok::<_, Error>((job::job_type(node)?, job::key(node)?))).transpose()?;
        match found {
            Some((job_type, Some(key))) => Ok((job_type, key)),
            _ => {
                Err(Error::Refused(format!("the value of {} is not stored for later requests", query.text())))
            }
        }
    }

    /// The identity under which the value of a query is stored.
    ///
    /// # Errors
    /// The query is wrong, or its value is not stored for later requests.
    pub async fn identity(&self, query: &Query) -> Result<Identity, Error> {
        let (_, key) = self.type_and_key(query).await?;
        key.as_str().parse().map_err(job::damaged)
    }

    /// The stored value of a query; none if it is not stored.
    ///
    /// # Errors
    /// The query is wrong, or the store cannot be read.
    pub async fn cached(&self, query: &Query) -> Result<Option<Cached>, Error> {
        self.pins().await?;
        let (job_type, key) = self.type_and_key(query).await?;
        let found = self.0.store.successes(vec![(job_type, key)]).await?;
        Ok(found.into_iter().flatten().next().and_then(|job| self.as_cached(job)))
    }

    /// Stored values, newest first, below this job: of all commands or of one. A page may be short although there are more.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn cached_page(
        &self,
        command: Option<&CommandName>,
        before: Option<JobId>,
        limit: usize,
    ) -> Result<CachedPage, Error> {
        self.pins().await?;
        let page = self.0.store.list(successes(command)?, before, limit).await?;
        let values = page.jobs.into_iter().filter_map(|job| self.as_cached(job)).collect();
        Ok(CachedPage { values, next: page.next })
    }

    fn as_cached(&self, job: Job) -> Option<Cached> {
        let (identity, (made_at, value)) = (identity_of_job(&job)?, value_of(&job)?);
        let params = serde_json::from_str(job.spec.params.as_str()).ok()?;
        let pinned = self.0.cache.pins.contains(&identity);
        Some(Cached { job, params, identity, made_at, value, pinned })
    }

    /// Figures of the cache.
    ///
    /// # Errors
    /// The pins cannot be read.
    pub async fn cache_stats(&self) -> Result<CacheStats, Error> {
        let pinned = self.pinned().await?;
        let cache = &self.0.cache;
        Ok(CacheStats {
            values: cache.values(),
            bytes: cache.bytes(),
            hot_bytes: cache.hot_bytes(),
            pinned,
            evictions: cache.counts.evictions.load(Ordering::Relaxed),
            bounds: cache.bounds,
            commands: cache.counts.by_command(),
            misses: cache.counts.misses(),
        })
    }

    /// The number of values, their bytes, and how many were evicted.
    #[must_use]
    pub fn cache_figures(&self) -> (u64, u64, u64) {
        let cache = &self.0.cache;
        (cache.values(), cache.bytes(), cache.counts.evictions.load(Ordering::Relaxed))
    }

    /// Reads stored values again, newest first, below this job. What is damaged is forgotten, so that it is made again.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn verify(&self, mut before: Option<JobId>) -> Result<Verified, Error> {
        let (filter, mut verified, mut scanned) = (successes(None)?, Verified::default(), 0);
        loop {
            let seen = self.0.cache.seen();
            let page = self.0.store.list(filter.clone(), before, PAGE).await?;
            for job in &page.jobs {
                self.verify_one(seen, job, &mut verified);
            }
            scanned += PAGE;
            before = page.next;
            if before.is_none() || scanned >= SCAN {
                return Ok(Verified { next: before, ..verified });
            }
        }
    }

    fn verify_one(&self, seen: u64, job: &Job, verified: &mut Verified) {
        let (Some(identity), Some((_, value))) = (identity_of_job(job), value_of(job)) else { return };
        verified.checked += 1;
        let cache = &self.0.cache;
        let digest =
            value.as_ref().and_then(StoredValue::bytes).map(|bytes| *blake3::hash(&bytes).as_bytes());
        let known = cache.known(&identity).filter(|(known, digest)| *known == job.id && *digest != [0; 32]);
        let changed = digest.is_some() && known.is_some_and(|(_, known)| Some(known) != digest);
        if value.is_none() || changed {
            cache.found(seen, &identity, &Warmth::Missing(Some(job.id)));
            let why = if changed { "the value has changed" } else { "the value cannot be read" };
            verified.damaged.push((job.id, why.to_owned()));
        }
    }
}

fn successes(command: Option<&CommandName>) -> Result<JobFilter, Error> {
    let job_type = command.map(|name| TypeName::new(&format!("{}{name}", crate::QUERIES.0)));
    Ok(JobFilter {
        queue: Some(job::queue()?),
        states: vec![StateName::Succeeded],
        job_type: job_type.transpose().map_err(job::damaged)?,
        ..JobFilter::default()
    })
}
