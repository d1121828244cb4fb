//! Whether a value still is what its query means. The static part of the meaning is in the identity. What was asked for
//! while the value was made is compared once after each change of a command or a source; the changes are counted by the
//! epoch.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobhall_core::query::{AskedQueries, Input, Plan, Query, StoredValue, TEXT_BYTES_MAX};
use jobhall_core::{JobId, State};

use crate::facts::Answers;
use crate::{Ended, Error, Queries};

/// How many values are remembered with the epoch in which they were right. Others are compared again.
const REMEMBERED: usize = 100_000;

/// What is known in memory about values that depend on more than their identity.
pub(crate) struct Fresh {
    epoch: AtomicU64,
    right: Mutex<Right>,
    /// How many texts were planned to compare them.
    compared: AtomicU64,
}

#[derive(Default)]
struct Right {
    epochs: HashMap<JobId, u64>,
    /// The oldest first.
    order: VecDeque<JobId>,
}

impl Default for Fresh {
    fn default() -> Fresh {
        Fresh { epoch: AtomicU64::new(1), right: Mutex::default(), compared: AtomicU64::new(0) }
    }
}

impl Fresh {
    fn lock(&self) -> MutexGuard<'_, Right> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many changes there were. Read before something is planned: a later change raises it.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// A command, a source or a recipe has changed, in memory too.
    pub fn rise(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// The value of this job was right in this epoch.
    pub fn note(&self, job: JobId, epoch: u64) {
        let mut right = self.lock();
        if right.epochs.insert(job, epoch).is_none() {
            right.order.push_back(job);
        }
        while right.order.len() > REMEMBERED {
            if let Some(oldest) = right.order.pop_front() {
                right.epochs.remove(&oldest);
            }
        }
    }

    /// The last epoch in which the value of this job is known to be right; 0 if none is known.
    pub fn right_in(&self, job: JobId) -> u64 {
        self.lock().epochs.get(&job).copied().unwrap_or(0)
    }

    /// Whether the value of this job is known to be right now.
    pub fn is_right(&self, job: JobId) -> bool {
        self.right_in(job) == self.epoch()
    }
}

/// What a planned query means: the identity of its last node, or the digest of stored data.
pub(crate) fn meaning(plan: &Plan) -> String {
    match &plan.value {
        Input::Node(at) => plan.nodes.get(*at).map(|node| node.identity.to_string()).unwrap_or_default(),
        Input::Source(_, digest) => digest.to_string(),
    }
}

impl Queries {
    /// Whether the value of a job is what its query means now.
    pub(crate) async fn is_fresh(&self, job: JobId, value: &StoredValue) -> Result<bool, Error> {
        let Some(asked) = value.asked() else { return Ok(true) };
        let (fresh, epoch) = (&self.0.fresh, self.0.fresh.epoch());
        if fresh.right_in(job) == epoch {
            return Ok(true);
        }
        let AskedQueries::Queries(queries) = asked else { return Ok(false) };
        for (text, before) in queries {
            fresh.compared.fetch_add(1, Ordering::Relaxed);
            if self.meaning_now(text).await?.as_ref() != Some(before) {
                return Ok(false);
            }
        }
        fresh.note(job, epoch);
        Ok(true)
    }

    /// What a text means now; none if it is wrong by now.
    async fn meaning_now(&self, text: &str) -> Result<Option<String>, Error> {
        let Ok(query) = Query::parse(text, TEXT_BYTES_MAX) else { return Ok(None) };
        match self.plan_only(&query, Answers::Last).await {
            Ok(plan) => Ok(Some(meaning(&plan))),
            Err(Error::Query(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a value that was made is not what its query means by now.
    ///
    /// # Errors
    /// What it asked for cannot be planned.
    pub async fn is_stale(&self, ended: &Ended) -> Result<bool, Error> {
        let State::Succeeded(success) = &ended.job.status.state else { return Ok(false) };
        match StoredValue::parse(success.value.as_str()) {
            Some(value) => Ok(!self.is_fresh(ended.job.id, &value).await?),
            None => Ok(false),
        }
    }

    /// How many texts were planned because something had changed since a value was made that had asked for them.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.0.fresh.compared.load(Ordering::Relaxed)
    }
}
