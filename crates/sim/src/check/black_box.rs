//! Checks a real hall from outside by the same rules: the messages that clients and workers sent and received, and
//! the final content of the store.
//!
//! In a run of the simulator the checkers see every commit. Of a real hall they see the final rows and the feed,
//! which has one row per commit. That is enough to check acknowledged requests (I1), ends (I2), claims and what
//! ended them (I3), keys at every commit (I4), cancels (I5), the store (I6) and termination (I7). Rules about
//! single moments in the kernel (order, matching workers, renewals) are not checked here.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{
    AttemptId, Job, JobId, Json, Key, LeaseId, Outcome, PastAttempt, Report, State, StateName, Submitted,
    Time, TypeName,
};
use jobhall_kernel::{Answer, Config, Rejected, Request};
use jobhall_store::{Block, FeedEntry, FeedPage};

use super::ends::{By, End};
use super::shelf::Shelf;
use super::{Checker, Invariant, Moment, Named, Said, Violation};

#[derive(Clone, Debug)]
pub struct Name {
    pub scope: String,
    pub key: String,
    /// A digest of the request.
    pub body: u128,
    pub answer: Vec<Submitted>,
}

/// The final content of the store.
#[derive(Clone, Debug)]
pub struct Stored {
    pub jobs: BTreeMap<JobId, Job>,
    /// The ended attempts of each job, oldest first, without the last attempt of a completed job.
    pub attempts: BTreeMap<JobId, Vec<PastAttempt>>,
    /// The jobs that a restart would load as open.
    pub open: Vec<JobId>,
    pub blocks: Vec<Block>,
    /// The changes of every commit, from the first one.
    pub feed: FeedPage,
    pub names: Vec<Name>,
}

impl Shelf for Stored {
    fn row(&self, id: JobId) -> Option<Job> {
        self.jobs.get(&id).cloned()
    }

    fn rows(&self) -> Vec<Job> {
        self.jobs.values().cloned().collect()
    }

    fn attempts(&self, id: JobId) -> Vec<PastAttempt> {
        self.attempts.get(&id).cloned().unwrap_or_default()
    }

    fn open_jobs(&self) -> Vec<Job> {
        self.open.iter().filter_map(|id| self.row(*id)).collect()
    }

    fn blocks(&self) -> Vec<Block> {
        self.blocks.clone()
    }

    fn feed(&self) -> FeedPage {
        self.feed.clone()
    }
}

/// One stored claim.
struct Claim {
    number: u32,
    assigned_at: Time,
    ended_at: Option<Time>,
    /// The lease, the worker, and how the claim ended.
    end: End,
}

pub struct BlackBox {
    checker: Checker,
    stored: Stored,
    heard: Vec<(Request, Result<Answer, Rejected>)>,
    /// When a cancel was reported to have ended a job.
    cancelled: BTreeMap<JobId, u64>,
    given: Vec<(AttemptId, LeaseId, Json, u64)>,
}

impl BlackBox {
    /// A checker for this final store.
    pub fn new(stored: Stored) -> BlackBox {
        let checker = Checker::new(Config::default(), false, Moment { mono: 0, wall: Time::EPOCH });
        BlackBox { checker, stored, heard: Vec::new(), cancelled: BTreeMap::new(), given: Vec::new() }
    }

    /// A client or worker sent this request, whether or not it arrived.
    pub fn sent(&mut self, request: &Request) {
        self.checker.sent(request);
    }

    /// The sender of this request received the answer at this time of the observer's clock.
    pub fn heard(&mut self, request: Request, answer: Result<Answer, Rejected>, at: u64) {
        if let (Request::Cancel { id, .. }, Ok(Answer::State(StateName::Cancelled))) = (&request, &answer) {
            let known = self.cancelled.entry(*id).or_insert(at);
            *known = at.min(*known);
        }
        self.heard.push((request, answer));
    }

    /// A worker that polled at this time was assigned a job.
    pub fn assigned(&mut self, attempt: AttemptId, lease: LeaseId, params: &Json, asked_at: u64) {
        self.given.push((attempt, lease, params.clone(), asked_at));
    }

    /// A worker that keeps no record must have sent this about its attempt: the effects of its work show it.
    pub fn worked(&mut self, attempt: AttemptId, report: Report) {
        let claims = self.stored.jobs.get(&attempt.job).map(|job| claims(&self.stored, job));
        let Some(claim) = claims.into_iter().flatten().find(|claim| claim.number == attempt.claim) else {
            return;
        };
        let End { lease, worker, .. } = claim.end;
        let known = self.checker.reports.entry((attempt.job, attempt.claim)).or_default();
        known.push(Said { lease, worker, report });
    }

    /// The first violation, if any.
    pub fn judge(mut self) -> Option<Violation> {
        self.feed();
        let jobs: Vec<_> = self.stored.jobs.values().cloned().collect();
        jobs.iter().for_each(|job| self.row(job));
        for Name { scope, key, body, answer } in self.stored.names.clone() {
            let named = Named { body, answer, at: Time::EPOCH };
            self.checker.names.entry((scope, key)).or_default().push(named);
        }
        for given in std::mem::take(&mut self.given) {
            self.was_given(given);
        }
        for (ticket, (request, answer)) in std::mem::take(&mut self.heard).into_iter().enumerate() {
            let ticket = ticket as u64;
            self.checker.arrives(ticket, &request);
            self.checker.answers(&self.stored, ticket, &answer);
        }
        self.checker.whole(&self.stored);
        self.checker.over();
        self.checker.violation
    }

    /// Checks all commits in order: terminal states do not change, and no key has two jobs.
    fn feed(&mut self) {
        let mut now: BTreeMap<JobId, FeedEntry> = BTreeMap::new();
        let mut live: BTreeMap<(TypeName, Key), Vec<JobId>> = BTreeMap::new();
        for row in self.stored.feed.rows.clone() {
            let expected = self.checker.feed_last + 1;
            self.checker.must(row.n == expected, Invariant::Sound, &[], || {
                format!("feed row {} comes where {expected} should", row.n)
            });
            for entry in &row.entries {
                if let Some(old) = now.insert(entry.id, *entry) {
                    self.checker.went_on(entry.id, (old.state, old.rev), (entry.state, entry.rev));
                }
                let Some(key) = self.key_of(entry.id) else { continue };
                let all = live.entry(key).or_default();
                all.retain(|id| *id != entry.id);
                if !entry.state.is_terminal() {
                    all.push(entry.id);
                }
            }
            let keys: BTreeSet<_> = row.entries.iter().filter_map(|entry| self.key_of(entry.id)).collect();
            for key in keys {
                let all = live.get(&key).cloned().unwrap_or_default();
                let waits = |id: &&JobId| now.get(id).is_some_and(|entry| entry.state == StateName::Blocked);
                let waiting = all.iter().filter(waits).count();
                if !all.is_empty() {
                    self.checker.one_holder(&key, &all, waiting);
                }
            }
            self.checker.feed_last = row.n;
            self.checker.feed.insert(row.n, row.entries);
        }
        self.feed_and_rows(&now);
    }

    fn key_of(&self, id: JobId) -> Option<(TypeName, Key)> {
        let spec = &self.stored.jobs.get(&id)?.spec;
        Some((spec.job_type.clone(), spec.key.clone()?))
    }

    /// The rows are in the last states of the feed.
    fn feed_and_rows(&mut self, last: &BTreeMap<JobId, FeedEntry>) {
        for (id, entry) in last {
            let row = self.stored.jobs.get(id).map(|job| (job.status.state.name(), job.status.rev));
            self.checker.must(row.is_some(), Invariant::Stored, &[*id], || {
                format!("job {id} was stored and is missing")
            });
            self.checker.must(row == Some((entry.state, entry.rev)), Invariant::Sound, &[*id], || {
                format!("the feed leaves job {id} {} at rev {}, its row is {row:?}", entry.state, entry.rev)
            });
        }
        let untold = self.stored.jobs.keys().find(|id| !last.contains_key(id)).copied();
        self.checker
            .must(untold.is_none(), Invariant::Sound, &[], || format!("{untold:?} is not in the feed"));
    }

    /// Checks one row with its attempts.
    fn row(&mut self, job: &Job) {
        let id = job.id;
        let claims = claims(&self.stored, job);
        self.checker.within_bounds(job);
        for pair in claims.windows(2) {
            let apart = pair[0].number < pair[1].number
                && pair[0].ended_at.is_some_and(|ended_at| ended_at <= pair[1].assigned_at);
            self.checker.must(apart, Invariant::Lease, &[id], || {
                format!("{id}-{} began before the end of {id}-{}", pair[1].number, pair[0].number)
            });
        }
        let fits = claims.last().is_none_or(|last| last.number <= job.status.claim);
        self.checker
            .must(fits, Invariant::Lease, &[id], || format!("job {id} has claims with future numbers"));
        let counted = u32::try_from(claims.len()).unwrap_or(u32::MAX);
        let silent = matches!(&job.status.state, State::Cancelled(defeat) if defeat.outcome == Outcome::Lost);
        self.checker.must(job.status.attempt == counted || silent, Invariant::Lease, &[id], || {
            format!("job {id} counts {} attempts and has {counted}", job.status.attempt)
        });
        for Claim { number, end, ended_at, .. } in claims {
            let new = self.checker.leases.insert(end.lease);
            self.checker
                .must(new, Invariant::Lease, &[id], || format!("{id}-{number}: a lease assigned twice"));
            if ended_at.is_some() {
                self.checker.holder_said(id, number, &end);
                self.checker.ends.insert((id, number), end);
            }
        }
        self.checker.rows.insert(id, job.clone());
    }

    /// An assignment matches the stored claim, is unique, and never follows an acknowledged cancel.
    fn was_given(&mut self, (attempt, lease, params, asked_at): (AttemptId, LeaseId, Json, u64)) {
        let id = attempt.job;
        let once = self.checker.assigned.insert(attempt);
        self.checker.must(once, Invariant::Lease, &[id], || format!("{attempt} is assigned twice"));
        let cancelled = self.cancelled.get(&id).is_some_and(|at| *at < asked_at);
        self.checker.must(!cancelled, Invariant::Cancel, &[id], || {
            format!("{attempt} is assigned after the cancel was acknowledged")
        });
        let Some(job) = self.stored.jobs.get(&id) else {
            return self.checker.fail(Invariant::Stored, &[id], format!("{attempt} is assigned, not stored"));
        };
        self.checker.must(attempt.claim <= job.status.claim, Invariant::Lease, &[id], || {
            format!("{attempt} is assigned, but job {id} was claimed {} times", job.status.claim)
        });
        let claims = claims(&self.stored, job);
        let known = claims.iter().find(|claim| claim.number == attempt.claim);
        self.checker.must(
            known.is_none_or(|known| known.end.lease == lease),
            Invariant::Lease,
            &[id],
            || format!("{attempt} is assigned with a lease that is not the stored one"),
        );
        self.checker.must(params == job.spec.params, Invariant::Stored, &[id], || {
            format!("{attempt} has the params {params:?}, stored are {:?}", job.spec.params)
        });
    }
}

/// All claims of a job that are recorded, oldest first. A claim that was never accepted is not recorded.
fn claims(stored: &Stored, job: &Job) -> Vec<Claim> {
    let past = stored.attempts.get(&job.id).into_iter().flatten().map(|past| Claim {
        number: past.claim,
        assigned_at: past.assigned_at,
        ended_at: Some(past.ended_at),
        end: End { lease: past.lease, worker: past.worker.clone(), by: by_past(past) },
    });
    let last = job.status.state.lease().map(|lease| Claim {
        number: job.status.claim,
        assigned_at: lease.assigned_at,
        ended_at: job.status.state.ended_at(),
        end: End { lease: lease.id, worker: lease.worker.clone(), by: by_last(&job.status.state) },
    });
    past.chain(last).collect()
}

fn by_past(past: &PastAttempt) -> By {
    match past.outcome {
        Outcome::Lost => By::Silence,
        Outcome::Cancelled => By::Cancel,
        outcome => By::Failure(outcome, past.failure.clone()),
    }
}

fn by_last(state: &State) -> By {
    match state {
        State::Succeeded(success) => By::Success(success.outcome, success.value.clone()),
        State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat)
            if defeat.outcome == Outcome::Lost =>
        {
            By::Silence
        }
        State::Failed(defeat) | State::Crashed(defeat) => By::Failure(defeat.outcome, defeat.failure.clone()),
        State::Cancelled(_) => By::Cancel,
        _ => By::TakenBack,
    }
}
