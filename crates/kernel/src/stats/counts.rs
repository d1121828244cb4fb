//! Counts of the kernel: what is open now, and totals since it started.

use std::collections::{BTreeMap, BTreeSet};

use jobhall_core::{JobStatus, Outcome, QueueName, Scope, State, Step, Time, TypeName, WorkerName};

use crate::api::time::Now;
use crate::kernel::Kernel;
use crate::matching::board::{Line, ProfileId};
use crate::matching::vacancy::Vacancy;
use crate::stats::histogram::{Histogram, MS_BOUNDS, US_BOUNDS};
use crate::stats::queues::{QueueId, Tally};
use crate::stats::recent::{Rates, Recent};
use crate::upkeep;

/// Number of queues named in [`Counts`]; the others are added up.
pub const NAMED_QUEUES: usize = 100;

/// Number of types named in [`Counts::kept`].
pub const KEPT_TYPES: usize = 10;

/// How long a failed write is reported. An idle kernel, which writes nothing, would otherwise never be healthy again.
pub const TROUBLE_MS: u64 = 10_000;

/// Numbers by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByOutcome([u64; Outcome::ALL.len()]);

impl ByOutcome {
    fn add(&mut self, outcome: Outcome) {
        self.0[outcome as usize] += 1;
    }

    /// Each outcome with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, u64)> + '_ {
        Outcome::ALL.into_iter().zip(self.0)
    }

    /// The sum over all outcomes.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// The workers, and their free capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workforce {
    /// Workers that have a vacancy or a session and no attempt.
    pub idle: u64,
    /// Workers that have at least one attempt.
    pub busy: u64,
    /// Workers known only by their leases, after a restart: they have not reconnected yet.
    pub awaited: u64,
    /// Jobs that vacancies could take now.
    pub free_slots: u64,
    /// Attempts held by workers.
    pub busy_slots: u64,
}

/// The workers that could take jobs of a queue: those that match at least one class in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takers {
    /// Workers that are connected.
    pub workers: u64,
    /// Jobs that their vacancies could take now.
    pub free_slots: u64,
}

/// Counts of the kernel. Totals are those of this process only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// All open jobs.
    pub open: Tally,
    /// The queues that have been known longest, by name, at most [`NAMED_QUEUES`].
    pub queues: Vec<(QueueName, Tally)>,
    /// All other queues together.
    pub others: Tally,
    /// Jobs created by submits, manual retries and follow-ups.
    pub submitted: u64,
    /// The same, in the last minutes.
    pub submitted_lately: Rates,
    /// Jobs that were completed, by the outcome that completed them.
    pub completed: ByOutcome,
    /// The same, in the last minutes.
    pub completed_lately: Rates,
    /// Attempts that ended, by their outcome.
    pub attempts: ByOutcome,
    /// From when a job was ready until it was assigned, in milliseconds; one for each assignment.
    pub wait: Histogram,
    /// From when an attempt was accepted (or assigned) until its end, in milliseconds; one for each attempt.
    pub run: Histogram,
    /// From when a commit was sent until its result, in microseconds.
    pub commit: Histogram,
    /// The workers.
    pub workforce: Workforce,
    /// The number of completed jobs that are stored, and the types with most of them, at most [`KEPT_TYPES`]; none until
    /// they are counted.
    pub kept: Option<(u64, Vec<(TypeName, u64)>)>,
    /// Why the last write to the store failed; none if it did not, or that was [a while](TROUBLE_MS) ago.
    pub storage_trouble: Option<String>,
}

/// Totals since the start.
#[derive(Debug)]
pub(crate) struct Totals {
    submitted: u64,
    submitted_lately: Recent,
    completed: ByOutcome,
    completed_lately: Recent,
    attempts: ByOutcome,
    wait: Histogram,
    run: Histogram,
    commit: Histogram,
}

impl Totals {
    pub fn new(now: Now) -> Totals {
        Totals {
            submitted: 0,
            submitted_lately: Recent::new(now.mono),
            completed: ByOutcome::default(),
            completed_lately: Recent::new(now.mono),
            attempts: ByOutcome::default(),
            wait: Histogram::new(MS_BOUNDS),
            run: Histogram::new(MS_BOUNDS),
            commit: Histogram::new(US_BOUNDS),
        }
    }

    /// Counts a new job.
    pub fn submitted(&mut self, now: Now) {
        self.submitted += 1;
        self.submitted_lately.add(now.mono, 1);
    }

    /// Counts a completed job.
    pub fn completed(&mut self, now: Now, outcome: Outcome) {
        self.completed.add(outcome);
        self.completed_lately.add(now.mono, 1);
    }

    /// Counts the assignment of a job that was ready since this time.
    pub fn assigned(&mut self, since: Time, status: &JobStatus) {
        if let State::Assigned(held) = &status.state {
            self.wait.add(held.lease.assigned_at.since(since));
        }
    }

    /// Counts the end of an attempt, with its outcome and duration, if this step is one. An unaccepted claim is not an
    /// attempt.
    pub fn stepped(&mut self, step: &Step) {
        let ended = match (&step.past, step.status.state.lease(), step.status.state.ended_at()) {
            (Some(past), ..) => {
                let begun = past.started_at.or(past.accepted_at).unwrap_or(past.assigned_at);
                Some((past.outcome, begun, past.ended_at))
            }
            (None, Some(lease), Some(ended_at)) => {
                let begun = lease.started_at.or(lease.accepted_at).unwrap_or(lease.assigned_at);
                step.status.state.outcome().map(|outcome| (outcome, begun, ended_at))
            }
            _ => None,
        };
        if let Some((outcome, from, to)) = ended {
            self.attempts.add(outcome);
            self.run.add(to.since(from));
        }
    }
}

impl Kernel {
    /// Counts a commit with its duration, regardless of its result.
    pub fn note_commit(&mut self, took_us: u64) {
        self.jobs.totals_mut().commit.add(took_us);
    }

    /// All counts, at this time.
    pub fn counts(&mut self, now: Now) -> Counts {
        self.env.set_now(now);
        // Jobs that are due now count as ready, whether or not upkeep has run.
        upkeep::make_due(self);
        let (queues, others) = self.board.queues_mut().longest_known(NAMED_QUEUES);
        let mut open = others.clone();
        queues.iter().for_each(|(_, tally)| open.add(tally));
        let kept = self.kept(KEPT_TYPES);
        let totals = self.jobs.totals_mut();
        Counts {
            open,
            queues,
            others,
            submitted: totals.submitted,
            submitted_lately: totals.submitted_lately.rates(now.mono),
            completed: totals.completed,
            completed_lately: totals.completed_lately.rates(now.mono),
            attempts: totals.attempts,
            wait: totals.wait.clone(),
            run: totals.run.clone(),
            commit: totals.commit.clone(),
            workforce: self.workforce(),
            kept,
            storage_trouble: self.fresh_trouble(),
        }
    }

    /// Queues of a scope by name, after this one.
    pub(crate) fn queue_page(
        &mut self,
        after: Option<&QueueName>,
        scope: &Scope,
        limit: usize,
    ) -> Vec<(QueueName, Tally)> {
        upkeep::make_due(self);
        self.board.queues_mut().page(after, scope, limit)
    }

    /// One queue, if it is known, and the workers that could take its jobs.
    pub(crate) fn queue(&mut self, name: &QueueName) -> Option<(Tally, Takers)> {
        upkeep::make_due(self);
        let found = self.board.queues_mut().tally(name);
        found.map(|(queue, tally)| (tally, self.takers(queue)))
    }

    fn takers(&self, queue: QueueId) -> Takers {
        let lines = self.board.lines_of(queue);
        let suits = |profile: ProfileId, worker: &WorkerName| {
            let suits =
                |line: &&Line| line.suits.binary_search(&profile).is_ok() && line.demand.admits(worker);
            lines.iter().any(suits)
        };
        let sessions = self.fleet.sessions().filter(|session| session.takes_jobs());
        let workers: BTreeSet<_> = sessions
            .filter(|session| session.profile.is_some_and(|profile| suits(profile, &session.worker)))
            .map(|session| &session.worker)
            .collect();
        let vacancies = self.fleet.vacancies().filter(|vacancy| suits(vacancy.profile, &vacancy.worker));
        let free_slots = vacancies.map(Vacancy::free).sum();
        Takers { workers: workers.len() as u64, free_slots }
    }

    fn fresh_trouble(&self) -> Option<String> {
        let (at, why) = self.commits.trouble()?;
        (at.plus_ms(TROUBLE_MS) > self.env.mono()).then(|| why.clone())
    }

    fn free_slots(&self) -> u64 {
        self.fleet.vacancies().map(Vacancy::free).sum()
    }

    fn workforce(&self) -> Workforce {
        let mut force = Workforce::default();
        let mut workers: BTreeMap<&WorkerName, (bool, bool)> = BTreeMap::new();
        for session in self.fleet.sessions() {
            let (here, busy) = workers.entry(&session.worker).or_default();
            *here |= session.profile.is_some();
            *busy |= !session.attempts.is_empty();
            force.busy_slots += session.attempts.len() as u64;
        }
        force.free_slots = self.free_slots();
        for (here, busy) in workers.into_values() {
            match (here, busy) {
                (false, _) => force.awaited += 1,
                (true, true) => force.busy += 1,
                (true, false) => force.idle += 1,
            }
        }
        force
    }
}
