//! The walk over all stored jobs of queries, newest first: after the start it fills the index, and every hour it removes
//! what answers nobody any more.
//!
//! | job | removed |
//! |---|---|
//! | failed, crashed or cancelled | a day after its end |
//! | a value for one evaluation, an older value of a key, a value that cannot be read | an hour after its end |
//! | the newest value of a key | never here, only by the bounds of the cache |

use std::collections::HashSet;
use std::time::{Duration, Instant};

use jobhall_core::query::{Identity, NodeParams};
use jobhall_core::{Job, JobId, Time};
use jobhall_store::JobFilter;

use super::gone::Gone;
use super::{identity_of_job, lock, value_of};
use crate::registry::Known;
use crate::{Error, Queries, job};

/// Jobs of a page.
const PAGE: usize = 100;
/// Maximum pause between two pages.
const LONGEST: Duration = Duration::from_secs(1);
/// How long a failure is stored.
const FAILURE_MS: u64 = 24 * 3_600_000;
/// How long a value is stored that answers nobody but its promise.
const UNSHARED_MS: u64 = 3_600_000;

/// What a walk has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Jobs that were looked at.
    pub jobs: u64,
    pub removed: u64,
}

enum Fate {
    Kept,
    RemovedAfter(Time),
}

impl Queries {
    /// Looks at all jobs of queries, in bounded steps that use half of a thread at most.
    ///
    /// # Errors
    /// The store cannot be read, or the kernel refuses.
    pub async fn upkeep(&self, now: Time) -> Result<Upkeep, Error> {
        self.pins().await?;
        let known = self.commands().await?;
        let expected = lock(&self.0.cache.expected).clone();
        let mut open = HashSet::new();
        let filter = JobFilter { queue: Some(job::queue()?), ..JobFilter::default() };
        let (mut done, mut before) = (Upkeep::default(), None);
        loop {
            let began = Instant::now();
            let seen = self.0.cache.seen();
            let page = self.0.store.list(filter.clone(), before, PAGE).await?;
            done.jobs += page.jobs.len() as u64;
            let pending = page.jobs.iter().filter(|job| !job.status.state.is_terminal());
            let pending: Vec<JobId> = pending.map(|job| job.id).collect();
            self.0.cache.expect(pending.iter().copied());
            open.extend(pending);
            let over: Vec<_> =
                page.jobs.iter().filter_map(|job| self.is_over(seen, job, &known, now)).collect();
            if !over.is_empty() {
                let removed = over.len();
                let spared = self.remove(over, Gone::Superseded).await?;
                done.removed += (removed - spared.len()) as u64;
            }
            self.evict(now).await?;
            before = page.next;
            if before.is_none() {
                self.0.cache.expect_only(&expected, &open);
                return Ok(done);
            }
            tokio::time::sleep(began.elapsed().min(LONGEST)).await;
        }
    }

    /// Whether a job is to be removed now. The newest value of a key enters the index.
    fn is_over(&self, seen: u64, job: &Job, known: &Known, now: Time) -> Option<(JobId, Option<Identity>)> {
        match self.fate(seen, job, known)? {
            Fate::RemovedAfter(at) if at <= now => Some((job.id, identity_of_job(job))),
            Fate::RemovedAfter(_) | Fate::Kept => None,
        }
    }

    fn fate(&self, seen: u64, job: &Job, known: &Known) -> Option<Fate> {
        let cache = &self.0.cache;
        let ended_at = job.status.state.ended_at()?;
        let unshared = Fate::RemovedAfter(ended_at.plus_ms(UNSHARED_MS));
        Some(match (value_of(job), identity_of_job(job)) {
            (None, _) => Fate::RemovedAfter(ended_at.plus_ms(FAILURE_MS)),
            (Some((_, Some(value))), Some(identity)) if is_shared(job, known) => {
                if cache.known(&identity).is_some_and(|(newest, _)| newest > job.id) {
                    return Some(unshared);
                }
                cache.put(seen, job, &value, false);
                Fate::Kept
            }
            _ => unshared,
        })
    }
}

/// Whether later requests may use the value. What is not known to be otherwise is shared.
fn is_shared(job: &Job, known: &Known) -> bool {
    let params = serde_json::from_str::<NodeParams>(job.spec.params.as_str()).ok();
    let last = params.and_then(|mut params| params.steps.pop());
    let declared =
        last.and_then(|step| known.commands.get(&step.command).filter(|one| one.version == step.version));
    declared.is_none_or(|declared| declared.declaration.modes.cacheable)
}
