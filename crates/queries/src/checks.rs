//! Checks: a command whose data is elsewhere has a cheap program, whose output stands in the identity of its values. It is
//! run by a worker, as a job of the type of its command, and at most once in its `check_every` for all who ask.
//!
//! The last answer of each check is in memory only: after a restart each runs once more.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobhall_core::query::{Identity, NodeParams, Plan, PlannedCheck, SourceDigest};
use jobhall_core::{Failure, JobId, Time};
use jobhall_engine::{Rejected, Submit};
use lru::LruCache;

use crate::cache::now;
use crate::facts::Answers;
use crate::job::{self, Manner};
use crate::promise::{Content, Ended, EndedHow};
use crate::{Error, QUERIES, Queries};

/// Maximum number of checks whose answers are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of an answer is shown, in bytes.
const SHOWN_BYTES: usize = 200;

/// What a check has answered last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckAnswer {
    /// The first bytes of what it wrote.
    pub text: String,
    pub digest: SourceDigest,
    pub at: Time,
    pub took_ms: u64,
    pub job: JobId,
}

/// The last run of a check that had no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure {
    pub why: String,
    pub at: Time,
    pub job: JobId,
}

/// What is known of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckState {
    pub answer: Option<CheckAnswer>,
    /// Only if it is newer than the answer.
    pub failure: Option<CheckFailure>,
}

impl CheckState {
    fn at(&self) -> Option<Time> {
        let (answer, failure) = (self.answer.as_ref(), self.failure.as_ref());
        failure.map(|failure| failure.at).or(answer.map(|answer| answer.at))
    }

    /// Whether it was run so short a time ago that it is not run again.
    fn counts(&self, every_ms: u64, answers: Answers) -> bool {
        match (answers, self.at()) {
            (Answers::Last, _) => true,
            (Answers::Current(since), Some(at)) => at >= since || now().since(at) < every_ms,
            (Answers::Current(_), None) => false,
        }
    }
}

/// One check: what it has answered, and whose turn it is to run it.
#[derive(Default)]
struct Slot {
    state: Mutex<CheckState>,
    turn: tokio::sync::Mutex<()>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, CheckState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Checks(Mutex<LruCache<Identity, Arc<Slot>>>);

impl Default for Checks {
    fn default() -> Checks {
        Checks(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Checks {
    fn slot(&self, check: &Identity) -> Arc<Slot> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert(*check, Arc::default).clone()
    }

    /// What is known of a check.
    pub fn state(&self, check: &Identity) -> CheckState {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.peek(check).map(|slot| slot.lock().clone()).unwrap_or_default()
    }

    /// Forgets the answers that these steps were planned with: the next request runs the checks again.
    pub fn forget(&self, params: &NodeParams) {
        for check in params.steps.iter().filter_map(|step| step.check) {
            let slot = self.slot(&check.identity);
            let mut state = slot.lock();
            if state.answer.as_ref().is_some_and(|known| known.digest == check.answer) {
                *state = CheckState::default();
            }
        }
    }

    /// The answer of a check, if it counts. One that has failed since has none, unless the last one is enough.
    pub fn answer(&self, check: &Identity, every_ms: u64, answers: Answers) -> Option<SourceDigest> {
        let state = self.state(check);
        let is_last = answers == Answers::Last || state.failure.is_none();
        let answer = state.answer.as_ref().filter(|_| is_last && state.counts(every_ms, answers));
        answer.map(|answer| answer.digest)
    }
}

impl Queries {
    /// Runs the checks of a plan that have to be run, all at once. The job is that of a check that has failed.
    pub(crate) async fn run_checks(
        &self,
        plan: &Plan,
        since: Time,
        manner: &Manner,
    ) -> Result<Option<JobId>, Error> {
        let unanswered = plan.checks.iter().filter(|check| check.answer.is_none());
        let mut running = tokio::task::JoinSet::new();
        for check in unanswered {
            let (queries, check, manner) = (self.clone(), check.clone(), manner.clone());
            running.spawn(async move { queries.run_check(&check, since, &manner).await });
        }
        let mut failed = None;
        while let Some(ended) = running.join_next().await {
            let ended = ended.map_err(|error| Error::Damaged(format!("a check was not run: {error}")))?;
            failed = failed.or(ended?);
        }
        Ok(failed)
    }

    /// Runs a check, or waits for the one who does; the job if it has failed.
    async fn run_check(
        &self,
        check: &PlannedCheck,
        since: Time,
        manner: &Manner,
    ) -> Result<Option<JobId>, Error> {
        let slot = self.0.checks.slot(&check.identity);
        let _turn = slot.turn.lock().await;
        let every_ms = check.declared.declaration.check.as_ref().map_or(0, |check| check.every_ms);
        if slot.lock().counts(every_ms, Answers::Current(since)) {
            return Ok(slot.lock().failure.as_ref().map(|failure| failure.job));
        }
        let submit =
            Submit { jobs: vec![job::of_check(check, manner)?], by: Some(QUERIES), ..Submit::default() };
        let submitted = self.0.engine.submit(submit).await?;
        let Some(id) = submitted.last().map(|one| one.id) else {
            return Err(Error::Damaged("a check has no job".to_owned()));
        };
        let ended = match tokio::time::timeout(PATIENCE, self.wait(id)).await {
            Ok(ended) => ended?,
            Err(_) => {
                self.give_up(id, check).await?;
                self.wait(id).await?
            }
        };
        // A check of a version that is no longer current says nothing of the current one.
        if ended.is_outdated() {
            return Ok(None);
        }
        let failure = note(&mut slot.lock(), &ended);
        Ok(failure)
    }

    async fn give_up(&self, id: JobId, check: &PlannedCheck) -> Result<(), Error> {
        let name = &check.declared.declaration.name;
        let why = format!(
            "the check of {name} had no answer within {} s: no worker with {name}@{} has run it",
            PATIENCE.as_secs(),
            check.declared.version
        );
        match self.0.engine.cancel(id, Failure::new("check_timeout", &why)).await {
            Ok(_) | Err(Rejected::NoSuchJob(_) | Rejected::Event(_)) => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }
}

/// Enters how a check has ended; the job if it has failed.
fn note(state: &mut CheckState, ended: &Ended) -> Option<JobId> {
    let (job, at) = (ended.job.id, now());
    let why = match &ended.how {
        EndedHow::Value(value) => match &value.content {
            Content::Inline(bytes) => {
                let lease = ended.job.status.state.lease();
                let began = lease.and_then(|lease| lease.started_at.or(lease.accepted_at));
                let ended_at = ended.job.status.state.ended_at();
                state.failure = None;
                state.answer = Some(CheckAnswer {
                    text: shown(bytes),
                    digest: SourceDigest(*blake3::hash(bytes).as_bytes()),
                    at,
                    took_ms: began.zip(ended_at).map_or(0, |(began, ended)| ended.since(began)),
                    job,
                });
                return None;
            }
            Content::Object(_) => "its answer is too large".to_owned(),
        },
        EndedHow::Failure { failure, .. } => said(failure),
    };
    state.failure = Some(CheckFailure { why, at, job });
    Some(job)
}

/// A failure in one line.
pub(crate) fn said(failure: &Failure) -> String {
    let said = [failure.reason.as_str(), failure.explanation.as_str()];
    said.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end();
    text[..text.floor_char_boundary(SHOWN_BYTES)].to_owned()
}
