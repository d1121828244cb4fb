//! The cache of completed jobs: those used last, within a number of jobs and a budget of bytes.

use std::num::NonZeroUsize;

use jobhall_core::{Failure, Job, JobId, PastAttempt, State};
use lru::LruCache;

use crate::jobs::ids::IdHash;
use crate::jobs::specs;

/// Maximum number of bytes; the job used last is kept even if it has more.
const BYTES: usize = 32 << 20;
/// Approximate bytes of an ended attempt without its failure and its progress, and of an indicator of progress.
const FIXED: usize = 200;

/// A completed job with its ended attempts.
type Whole = (Job, Vec<PastAttempt>);

#[derive(Debug)]
pub(crate) struct Completed {
    kept: LruCache<JobId, Whole, IdHash>,
    bytes: usize,
}

impl Completed {
    /// A cache of this many jobs, at least one.
    pub fn new(most: usize) -> Completed {
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Completed { kept: LruCache::with_hasher(most, IdHash::default()), bytes: 0 }
    }

    pub fn put(&mut self, id: JobId, whole: Whole) {
        self.bytes += weight(&whole);
        // It replaces the job's previous state, or the job that was used least recently.
        if let Some((_, dropped)) = self.kept.push(id, whole) {
            self.bytes -= weight(&dropped);
        }
        while self.bytes > BYTES && self.kept.len() > 1 {
            let Some((_, dropped)) = self.kept.pop_lru() else { return };
            self.bytes -= weight(&dropped);
        }
    }

    /// A job that is cached; it counts as used.
    pub fn get(&mut self, id: JobId) -> Option<&Whole> {
        self.kept.get(&id)
    }

    pub fn peek(&self, id: JobId) -> Option<&Whole> {
        self.kept.peek(&id)
    }

    pub fn remove(&mut self, id: JobId) {
        if let Some(dropped) = self.kept.pop(&id) {
            self.bytes -= weight(&dropped);
        }
    }
}

/// Approximate bytes in memory.
fn weight((job, past): &Whole) -> usize {
    let end = match &job.status.state {
        State::Succeeded(success) => success.value.as_str().len(),
        State::Failed(end) | State::Crashed(end) | State::Cancelled(end) => text(&end.failure),
        _ => 0,
    };
    let past: usize =
        past.iter().map(|attempt| FIXED * (1 + attempt.progress.len()) + text(&attempt.failure)).sum();
    specs::weight(&job.spec) + end + past
}

fn text(failure: &Failure) -> usize {
    let data = failure.data.as_ref().map_or(0, |data| data.as_str().len());
    failure.reason.len() + failure.explanation.len() + data
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jobhall_core::{JobSpec, JobStatus, Json, LeaseId, Outcome};

    use super::*;
    use crate::fixtures::{id, spec, time, worker};

    /// A job whose params have this many bytes.
    fn whole(n: u64, bytes: usize) -> Whole {
        let params = Json::params(&format!(r#"{{"v":"{}"}}"#, "x".repeat(bytes - 8))).unwrap();
        let spec = JobSpec { params, ..spec() };
        let status = JobStatus::queued(time(0), time(0));
        (Job { id: id(n), spec: Arc::new(spec), status }, Vec::new())
    }

    /// An ended attempt whose failure has this many bytes of data.
    fn attempt(bytes: usize) -> PastAttempt {
        let data = Some(Json::value(&format!("\"{}\"", "x".repeat(bytes))).unwrap());
        PastAttempt {
            claim: 1,
            lease: LeaseId(1),
            worker: worker("w"),
            assigned_at: time(0),
            accepted_at: None,
            started_at: None,
            ended_at: time(1),
            outcome: Outcome::Failed,
            failure: Failure { data, ..Failure::new("r", "") },
            progress: Box::default(),
        }
    }

    fn put(cache: &mut Completed, n: u64, bytes: usize) {
        cache.put(id(n), whole(n, bytes));
        let counted: usize = cache.kept.iter().map(|(_, whole)| weight(whole)).sum();
        assert_eq!(cache.bytes, counted);
    }

    fn kept(cache: &Completed, among: std::ops::Range<u64>) -> Vec<u64> {
        among.filter(|n| cache.peek(id(*n)).is_some()).collect()
    }

    #[test]
    fn the_completed_job_that_was_used_least_recently_is_dropped() {
        let mut cache = Completed::new(2);
        [1, 2].into_iter().for_each(|n| put(&mut cache, n, 20));
        assert!(cache.peek(id(2)).is_some(), "this is not a use");
        assert!(cache.get(id(1)).is_some(), "this is one");
        put(&mut cache, 3, 20);
        assert_eq!(kept(&cache, 1..4), [1, 3]);
        cache.remove(id(1));
        assert_eq!(kept(&cache, 1..4), [3]);
    }

    #[test]
    fn audit_m4_the_cache_is_bounded_in_bytes() {
        let mut cache = Completed::new(1_000);
        (1..=200).for_each(|n| put(&mut cache, n, 256 << 10));
        assert!(cache.bytes <= BYTES && kept(&cache, 1..201).len() > 100, "{}", cache.bytes);
        assert!(cache.peek(id(200)).is_some() && cache.peek(id(1)).is_none());
        put(&mut cache, 200, 20);
        put(&mut cache, 201, 20);
        assert!(cache.peek(id(200)).is_some(), "a job that is put again counts once");
    }

    #[test]
    fn the_last_job_is_kept_whatever_its_size() {
        let mut cache = Completed::new(0);
        put(&mut cache, 1, 20);
        let (job, _) = whole(2, 20);
        cache.put(id(2), (job, vec![attempt(200_000); 200]));
        assert!(cache.bytes > BYTES && kept(&cache, 1..3) == [2]);
        put(&mut cache, 3, 20);
        assert_eq!(kept(&cache, 1..4), [3]);
    }
}
