//! The actions of a run, generated before it begins. Everything else (the duration of a commit, how a worker
//! handles a job) is drawn by name, so a script without one action is otherwise the same run, and a failure can be
//! shrunk by dropping actions.

use jobhall_core::{
    Backoff, JobId, Json, NewJob, OnDuplicate, Outcome, OutcomeSet, RetryPolicy, Reuse, Time, Timeouts,
    TypeConfig,
};
use jobhall_kernel::Config;
use serde::{Deserialize, Serialize};

use crate::random::Random;

use calendar::Wish;
use changes::{Alteration, changes};
use relations::{OfGroup, Relation};

pub(crate) mod calendar;
mod changes;
mod file;
mod relations;
mod shrink;
pub(crate) mod words;

pub use shrink::{Shrunk, shrink};

/// An action at its time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// A client submits jobs, some with an idempotency key.
    Submit { jobs: Vec<Wanted>, name: Option<u64>, body: u64 },
    /// A client cancels the nth last job that it knows.
    Cancel(u64),
    /// A client retries one manually.
    Retry(u64),
    /// A client reads one.
    Show(u64),
    /// A client asks why one is not running.
    Explain(u64),
    /// A client configures a type.
    SetType(usize, TypeConfig),
    /// A client creates, changes or removes a schedule.
    SetSchedule(usize, Option<Wish>),
    /// A client runs the job of a schedule manually.
    RunSchedule(usize),
    /// An operator changes waiting jobs or settings.
    Alter(Alteration),
    /// A client executes an action on a group.
    Group(OfGroup),
    /// A worker process crashes and restarts after this time, without its attempts.
    Die(usize, u64),
    /// A worker hangs for this time.
    Stall(usize, u64),
    /// A worker's connection breaks; the server may or may not notice. The worker reconnects with its attempts.
    Cut(usize, bool),
    /// A worker leaves gracefully and comes back.
    Leave(usize, u64),
    /// A worker reconnects with other abilities.
    Change(usize, usize, usize),
    /// The server crashes and restarts after this time.
    Crash(u64),
    /// The next commits fail: nothing is written.
    FailCommit { full: bool, times: u64 },
    /// The outcome of the next commit is unknown; it is applied or not.
    UnknownCommit { applied: bool },
    /// The next store request that is not a commit fails.
    FailAsk,
    /// The outcome of the next such request is unknown.
    UnknownAsk,
    /// Every store request takes this long, for this time.
    Slow { each_ms: u64, for_ms: u64 },
    /// The next answers are lost.
    LoseAnswers(u64),
    /// The wall clock is set forward or back.
    Jump(i64),
}

impl Action {
    /// Whether the action is a fault rather than a client's request.
    pub fn is_fault(&self) -> bool {
        !matches!(
            self,
            Action::Submit { .. }
                | Action::Cancel(_)
                | Action::Retry(_)
                | Action::Show(_)
                | Action::Explain(_)
                | Action::SetType(..)
                | Action::SetSchedule(..)
                | Action::RunSchedule(_)
                | Action::Alter(_)
                | Action::Group(_)
        )
    }

    /// The jobs that the action submits.
    pub fn jobs_mut(&mut self) -> Option<&mut Vec<Wanted>> {
        match self {
            Action::Submit { jobs, .. } | Action::Group(OfGroup::Create(jobs, _)) => Some(jobs),
            _ => None,
        }
    }

    /// The worker that the action affects.
    pub fn worker(&self) -> Option<usize> {
        match *self {
            Action::Die(at, _)
            | Action::Stall(at, _)
            | Action::Cut(at, _)
            | Action::Leave(at, _)
            | Action::Change(at, ..) => Some(at),
            _ => None,
        }
    }
}

/// The weights of jobs, in rotation.
const WEIGHTS: [u32; 7] = [1, 1, 2, 1, 0, 3, 1];

/// A job that a client submits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub job_type: usize,
    pub key: Option<usize>,
    pub queue: usize,
    pub needs: usize,
    pub uses: usize,
    pub avoid: bool,
    pub windows: usize,
    pub priority: i32,
    /// Milliseconds from now; may be negative.
    pub run_in_ms: Option<i64>,
    pub retry: Option<RetryPolicy>,
    #[serde(default)]
    pub at_most_once: bool,
    pub timeouts: Timeouts,
    pub on_duplicate: OnDuplicate,
    pub reuse_max_age_ms: Option<u64>,
    /// Reuse a success above this id instead.
    #[serde(default)]
    pub reuse_above: Option<u64>,
    /// The number in the params; each job has its own.
    pub number: u64,
    /// A worker that runs it crashes.
    pub poison: bool,
    pub relation: Relation,
}

impl Wanted {
    /// The params as they are sent.
    pub fn params(&self) -> Json {
        let poison = if self.poison { ",\"poison\":true" } else { "" };
        let (number, customer) = (self.number, self.number % 3);
        Json::params(&format!("{{\"n\":{number},\"c\":{customer}{poison}}}")).expect("plain JSON")
    }

    /// The request for it at this moment.
    pub fn submit(&self, wall: Time) -> NewJob {
        let run_at = self.run_in_ms.map(|ms| match u64::try_from(ms) {
            Ok(ahead) => wall.plus_ms(ahead),
            Err(_) => wall.minus_ms(ms.unsigned_abs()),
        });
        let above = self.reuse_above.and_then(|id| JobId::new(id).ok());
        NewJob {
            key: self.key.map(words::key),
            queue: words::queue(self.queue),
            params: self.params(),
            needs: words::needs(self.needs),
            uses: words::uses(self.uses),
            avoid: self.avoid,
            windows: calendar::windows(self.windows),
            priority: self.priority,
            run_at,
            retry: if self.at_most_once {
                Some(self.retry.unwrap_or_else(RetryPolicy::named).at_most_once())
            } else {
                self.retry
            },
            throttle_factor: WEIGHTS[usize::try_from(self.number % 7).unwrap_or(0)],
            timeouts: self.timeouts,
            on_duplicate: self.on_duplicate,
            reuse: above.map(Reuse::Above).or(self.reuse_max_age_ms.map(Reuse::MaxAge)),
            ..NewJob::new(words::type_name(self.job_type))
        }
    }
}

/// The complete input of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Script {
    pub(crate) seed: u64,
    #[serde(with = "file::StoredConfig")]
    pub(crate) config: Config,
    /// Skill, accepts and slots of each worker.
    pub(crate) workers: Vec<(usize, usize, u32)>,
    /// Events of the same millisecond reach the kernel together, and their units form one commit.
    pub(crate) bursts: bool,
    /// Attempts ask for several sub-jobs in one call, and wait by several requests at once.
    #[serde(default)]
    pub(crate) several: bool,
    /// The time at which faults stop.
    pub(crate) calm_at: u64,
    /// Ordered by time, in milliseconds from the start.
    pub(crate) actions: Vec<(u64, Action)>,
}

impl Script {
    #[must_use]
    pub fn new(seed: u64) -> Script {
        let mut random = Random::new(seed);
        let config = config(&mut random, seed);
        let count = random.within(2, 5);
        let workers = (0..count).map(|_| worker(&mut random)).collect();
        let bursts = random.percent(40);
        let mut writer =
            Writer { seed, random, at: 0, number: 0, workers: count, fierce: 0, named: Vec::new() };
        writer.fierce = writer.random.below(4);
        let many = writer.random.within(50, 130);
        let mut actions: Vec<_> = (0..many).map(|_| writer.next()).collect();
        calendar::write(seed, &mut actions);
        let calm_at = writer.at + 5_000;
        actions.extend(changes(seed, writer.at));
        actions.sort_by_key(|(at, _)| *at);
        relations::write(seed, &mut actions);
        // Drawn by name, as in `config`.
        let several = Random::named(seed, &[93]).percent(60);
        Script { seed, config, workers, bursts, several, calm_at, actions }
    }
}

fn config(random: &mut Random, seed: u64) -> Config {
    Config {
        // Drawn by name, so that the rest of the script is the same with and without it.
        aging_ms: *Random::named(seed, &[91]).pick(&[500, 5_000, 30_000]),
        idempotency_key_ms: *random.pick(&[20_000, 24 * 3_600_000]),
        feed_ms: *random.pick(&[30_000, 24 * 3_600_000]),
        retention_ms: *random.pick(&[7_000, 60_000]),
        retention_step: *random.pick(&[3, 1_000]),
        cached: *random.pick(&[2, 1_000]),
        spec_bytes: *random.pick(&[0, 2_000, 64 << 20, 64 << 20]),
        open_jobs: *random.pick(&[25, 1_000, 1_000, 1_000]),
        block: *random.pick(&[1, 5, 20, 1_000]),
        ..Config::default()
    }
}

fn worker(random: &mut Random) -> (usize, usize, u32) {
    let accepts = if random.percent(60) { 0 } else { random.at(words::ACCEPTS.len()) };
    (random.at(words::ABLE), accepts, u32::try_from(random.within(1, 4)).unwrap_or(1))
}

/// Generates one action after the other.
struct Writer {
    seed: u64,
    random: Random,
    at: u64,
    number: u64,
    workers: u64,
    /// The level of faults, from 0 to 3.
    fierce: u64,
    /// Submits with an idempotency key, which may be repeated later.
    named: Vec<Action>,
}

#[derive(Clone, Copy)]
enum Kind {
    One,
    Many,
    Cancel,
    Retry,
    Show,
    Explain,
    SetType,
    Worker,
    Store,
    Lose,
    Crash,
    Jump,
}

impl Writer {
    fn next(&mut self) -> (u64, Action) {
        self.at += self.random.weighted(&[(3, 0), (5, 20), (8, 400), (8, 1_500), (4, 4_000), (1, 15_000)]);
        let faults = self.fierce;
        let kind = self.random.weighted(&[
            (36, Kind::One),
            (7, Kind::Many),
            (9, Kind::Cancel),
            (5, Kind::Retry),
            (6, Kind::Show),
            (4, Kind::Explain),
            (3, Kind::SetType),
            (2 + 4 * faults, Kind::Worker),
            (4 * faults, Kind::Store),
            (faults, Kind::Lose),
            (faults, Kind::Crash),
            (faults, Kind::Jump),
        ]);
        (self.at, self.action(kind))
    }

    fn action(&mut self, kind: Kind) -> Action {
        let nth = self.random.below(12);
        match kind {
            Kind::One => self.submit(1),
            Kind::Many => {
                let n = self.random.within(2, 12);
                self.submit(n)
            }
            Kind::Cancel => Action::Cancel(nth),
            Kind::Retry => Action::Retry(nth),
            Kind::Show => Action::Show(nth),
            Kind::Explain => Action::Explain(nth),
            Kind::SetType => self.set_type(),
            Kind::Worker => self.trouble_of_worker(),
            Kind::Store => self.trouble_of_store(),
            Kind::Lose => Action::LoseAnswers(self.random.within(1, 4)),
            Kind::Crash => Action::Crash(*self.random.pick(&[1, 500, 20_000])),
            Kind::Jump => self.jump(),
        }
    }

    fn submit(&mut self, n: u64) -> Action {
        if !self.named.is_empty() && self.random.percent(12) {
            return self.random.pick(&self.named).clone();
        }
        let name = self.random.percent(30).then(|| self.random.below(9));
        let mut jobs: Vec<_> = (0..n).map(|_| self.wanted()).collect();
        if n > 1 && self.random.percent(85) {
            jobs.iter_mut().for_each(|job| job.on_duplicate = OnDuplicate::Join);
        }
        let action = Action::Submit { jobs, name, body: self.number };
        if name.is_some() {
            self.named.push(action.clone());
        }
        action
    }

    /// Sometimes a low id, so that there are successes above it and below it.
    fn reuse_above(&self) -> Option<u64> {
        let mut random = Random::named(self.seed, &[93, self.number]);
        let id = 1 + random.below(100);
        random.percent(8).then_some(id)
    }

    fn wanted(&mut self) -> Wanted {
        let reuse_above = self.reuse_above();
        self.number += 1;
        // Drawn by name, so that the rest of the script is the same with and without it.
        let mut named = Random::named(self.seed, &[90, self.number]);
        let random = &mut self.random;
        Wanted {
            job_type: random.at(words::PLAIN),
            key: random.percent(55).then(|| random.at(words::KEYS.len())),
            queue: random.at(words::QUEUES.len()),
            windows: 0,
            needs: {
                let needs = random.weighted(&[(60, 0), (12, 1), (10, 2), (10, 3), (4, 4)]);
                let mut naming = Random::named(self.seed, &[93, self.number]);
                if naming.percent(10) { words::NAMING + naming.at(2) } else { needs }
            },
            uses: named.weighted(&[(60, 0), (14, 1), (8, 2), (10, 3), (6, 4), (2, 5)]),
            avoid: named.percent(30),
            priority: random.weighted(&[(6, 100), (1, 1), (1, 50), (1, 200)]),
            run_in_ms: random.weighted(&[
                (70, None),
                (8, Some(3_000)),
                (6, Some(60_000)),
                (3, Some(3_600_000)),
                (3, Some(-5_000)),
            ]),
            retry: retry(random),
            at_most_once: Random::named(self.seed, &[92, self.number]).percent(12),
            timeouts: timeouts(&mut named),
            on_duplicate: random.weighted(&[
                (4, OnDuplicate::Join),
                (2, OnDuplicate::Reject),
                (3, OnDuplicate::Supersede),
                (3, OnDuplicate::RunAgain),
            ]),
            reuse_max_age_ms: random.weighted(&[(80, None), (10, Some(10_000)), (10, Some(3_600_000))]),
            reuse_above,
            number: self.number,
            poison: random.percent(3),
            relation: Relation::default(),
        }
    }

    fn set_type(&mut self) -> Action {
        let at = self.random.at(words::PLAIN);
        let config = TypeConfig {
            keep_ms: self.random.percent(40).then_some(10_000),
            keep_count: self.random.percent(40).then_some(3),
            reuse_window_ms: self.random.weighted(&[(1, 0), (2, 20_000), (2, 3_600_000)]),
            ..TypeConfig::of(&words::type_name(at))
        };
        Action::SetType(at, config)
    }

    fn trouble_of_worker(&mut self) -> Action {
        let worker = usize::try_from(self.random.below(self.workers)).unwrap_or(0);
        let away = *self.random.pick(&[200, 3_000, 12_000, 45_000]);
        match self.random.below(6) {
            0 => Action::Die(worker, away),
            1 => Action::Stall(worker, away),
            2 => Action::Cut(worker, true),
            3 => Action::Cut(worker, false),
            4 => Action::Leave(worker, away),
            _ => {
                let (skill, accepts, _) = self::worker(&mut self.random);
                Action::Change(worker, skill, accepts)
            }
        }
    }

    fn trouble_of_store(&mut self) -> Action {
        match self.random.below(10) {
            0..=3 => Action::FailCommit { full: self.random.percent(50), times: self.random.within(1, 4) },
            4 => Action::UnknownCommit { applied: self.random.percent(50) },
            5..=6 => Action::FailAsk,
            7 => Action::UnknownAsk,
            _ => {
                let each_ms = *self.random.pick(&[200, 1_500, 6_000]);
                Action::Slow { each_ms, for_ms: self.random.within(1_000, 20_000) }
            }
        }
    }

    fn jump(&mut self) -> Action {
        let ms = *self.random.pick(&[1_000, 120_000, 3_600_000, 3 * 24 * 3_600_000]);
        Action::Jump(if self.random.percent(50) { ms } else { -ms })
    }
}

/// Most jobs have the default timeouts.
pub(crate) fn timeouts(random: &mut Random) -> Timeouts {
    Timeouts {
        total_ms: random.weighted(&[(80, None), (10, Some(2_500)), (10, Some(20_000))]),
        silence_ms: random.weighted(&[(85, None), (15, Some(4_000))]),
    }
}

fn retry(random: &mut Random) -> Option<RetryPolicy> {
    let backoff = match random.below(3) {
        0 => Backoff::Constant { ms: 500 },
        1 => Backoff::Linear { ms: 700, cap_ms: 2_000 },
        _ => Backoff::Exponential { ms: 300, cap_ms: 5_000 },
    };
    let on = match random.below(3) {
        0 => OutcomeSet::of(&[Outcome::Failed]),
        _ => OutcomeSet::of(&[Outcome::Failed, Outcome::Crashed, Outcome::TimedOut]),
    };
    let max_attempts = *random.pick(&[1, 2, 3, 5]);
    random.percent(60).then_some(RetryPolicy { max_attempts, backoff, on, at_most_once: false })
}
