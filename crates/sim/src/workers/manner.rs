//! How a worker handles a job: derived from the seed and the attempt, so the same attempt always behaves the same.

use jobhall_core::{AttemptId, Failure, Indicator, JobId, Json, Key, NewJob, Outcome, Report, Verdict, When};

use crate::random::{Random, mix};
use crate::script::words;
use crate::workers::Step;

/// Maximum depth of sub-jobs.
const DEPTH: usize = 3;

/// How a worker handles an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Accepts, makes progress, reports.
    Work,
    /// Reports without an earlier message.
    Brief,
    /// Does nothing.
    Ignore,
    /// Accepts and never ends.
    Endless,
    /// Hangs until its lease has expired, then reports.
    Freeze,
    /// Crashes.
    Die,
    /// Accepts about when the assignment is taken back.
    Tardy,
    /// Submits sub-jobs and waits for them.
    Parent,
}

/// An assignment as used for draws: by its params, which stay the same when other jobs are dropped from a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub seed: u64,
    pub attempt: AttemptId,
    pub params: &'a str,
    pub calm: bool,
}

impl Task<'_> {
    /// The number of its ancestors: each job names them in its params.
    pub fn depth(&self) -> usize {
        self.params.matches("sub").count()
    }

    /// The nth sub-job. Sub-jobs with a key are shared among parents and have no sub-jobs, so that no job waits for
    /// itself.
    pub fn sub_job(&self, n: u64) -> NewJob {
        let mut roll = self.roll(50 + n);
        let key = roll.percent(30).then(|| roll.below(3));
        let above = if key.is_some() { DEPTH } else { self.depth() + 1 };
        let mut text = self.params.bytes().fold(n, |sum, byte| mix(sum ^ u64::from(byte))).to_string();
        if let Some(key) = key {
            text = key.to_string();
        }
        let params = format!("{{\"n\":{text},\"of\":\"{}\"}}", "sub".repeat(above));
        NewJob {
            key: key.map(|key| Key::new(&format!("shared-{key}")).expect("a key")),
            params: Json::params(&params).expect("plain JSON"),
            timeouts: crate::script::timeouts(&mut roll),
            ..NewJob::new(words::type_name(0))
        }
    }

    fn roll(&self, purpose: u64) -> Random {
        let params = self.params.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte)));
        Random::named(self.seed, &[purpose, params, u64::from(self.attempt.claim)])
    }
}

impl Manner {
    pub fn of(task: Task<'_>) -> Manner {
        if task.calm {
            return Manner::Work;
        }
        if task.params.contains("poison") {
            return Manner::Die;
        }
        if task.depth() < DEPTH && task.roll(43).percent(14) {
            return Manner::Parent;
        }
        let mut roll = task.roll(40);
        // Every worker ignores some jobs.
        if task.params.contains("7,\"c\"") && task.seed.is_multiple_of(4) {
            return Manner::Ignore;
        }
        roll.weighted(&[
            (60, Manner::Work),
            (10, Manner::Brief),
            (8, Manner::Ignore),
            (3, Manner::Endless),
            (4, Manner::Freeze),
            (3, Manner::Die),
            (6, Manner::Tardy),
        ])
    }

    pub fn name(self) -> &'static str {
        match self {
            Manner::Work => "worked",
            Manner::Brief => "reported without accepting",
            Manner::Ignore => "ignored an assignment",
            Manner::Endless => "never ended",
            Manner::Freeze => "hung past the lease",
            Manner::Die => "crashed during a job",
            Manner::Tardy => "accepted late",
            Manner::Parent => "requested sub-jobs",
        }
    }

    /// The steps of the worker, with their delays.
    pub fn steps(self, task: Task<'_>) -> Vec<(u64, Step)> {
        let (mut roll, attempt) = (task.roll(41), task.attempt);
        let accept = roll.below(300);
        let long = *roll.pick(&[0, 100, 900, 1_000, 4_000, 15_000]);
        let end = accept + roll.below(long + 1);
        match self {
            Manner::Work => {
                let mut steps = vec![(accept, Step::Accept(attempt)), (end, Step::Report(attempt))];
                for _ in 0..roll.below(3) {
                    steps.push((accept + roll.below(end - accept + 1), Step::Progress(attempt)));
                }
                steps
            }
            Manner::Brief => vec![(end.min(6_000), Step::Report(attempt))],
            Manner::Ignore => Vec::new(),
            Manner::Endless => vec![(accept, Step::Accept(attempt)), (accept + 900, Step::Progress(attempt))],
            Manner::Freeze => vec![
                (accept, Step::Accept(attempt)),
                (accept + 20, Step::Hang(roll.within(25_000, 60_000))),
                (end + 30, Step::Report(attempt)),
            ],
            Manner::Die => {
                vec![(accept, Step::Accept(attempt)), (accept + 30, Step::Die(roll.within(200, 5_000)))]
            }
            Manner::Parent => {
                let calls = roll.within(1, 4);
                let mut steps = vec![(accept, Step::Accept(attempt))];
                steps.extend((1..=calls).map(|n| (accept + roll.below(600), Step::Call(attempt, n))));
                // Sometimes before it has submitted all of them, or without a reply.
                steps.push((accept + roll.within(300, 1_200), Step::Wait(attempt)));
                steps
            }
            Manner::Tardy => {
                let late = roll.within(4_950, 5_200);
                vec![(late, Step::Accept(attempt)), (late + end, Step::Report(attempt))]
            }
        }
    }
}

/// A success.
pub(crate) fn passed(attempt: AttemptId) -> Report {
    Report::Succeeded(Json::value(&format!("\"{attempt}\"")).expect("plain JSON"))
}

/// How the attempt ends. The reason of a failure is its outcome, so that a row shows it.
pub(crate) fn report(task: Task<'_>) -> Report {
    let (mut roll, attempt) = (task.roll(42), task.attempt);
    let outcome = roll.weighted(&[
        (50, Outcome::Succeeded),
        (8, Outcome::Skipped),
        (22, Outcome::Failed),
        (8, Outcome::Crashed),
        (8, Outcome::TimedOut),
        (4, Outcome::Cancelled),
    ]);
    let failure = Failure::new(outcome.as_str(), format!("of {attempt}"));
    let verdict = given(&mut roll, attempt);
    match outcome {
        _ if task.calm => passed(attempt),
        Outcome::Skipped => Report::Skipped(Json::null()),
        Outcome::Failed => Report::Failed(failure, verdict),
        Outcome::Crashed => Report::Crashed(failure, verdict),
        Outcome::TimedOut => Report::TimedOut(failure, verdict),
        Outcome::Cancelled => Report::Cancelled,
        _ => passed(attempt),
    }
}

/// The external outcome of a job; no worker reports the same.
pub(crate) fn completed_external(id: JobId, how: u64) -> Report {
    let failure = |reason| Failure::new(reason, format!("of job {id}, completed outside"));
    match how {
        2 => Report::Failed(failure("failed"), None),
        3 => Report::Crashed(failure("crashed"), None),
        4 => Report::Cancelled,
        _ => Report::Succeeded(Json::value(&format!("\"{id} from outside, {how}\"")).expect("plain JSON")),
    }
}

fn given(roll: &mut Random, attempt: AttemptId) -> Option<Verdict> {
    let when = roll.weighted(&[
        (45, None),
        (10, Some(When::Never)),
        (15, Some(When::Now)),
        (14, Some(When::In(2_000))),
        (14, Some(When::Snooze(3_000))),
        (2, Some(When::In(u64::MAX))),
    ])?;
    let params = Json::params(&format!("{{\"after\":\"{attempt}\"}}")).expect("plain JSON");
    Some(Verdict { when, params: roll.percent(30).then_some(params) })
}

/// The retry verdict that a report carries.
pub(crate) fn verdict(report: &Report) -> String {
    let verdict = match report {
        Report::Failed(_, v) | Report::Crashed(_, v) | Report::TimedOut(_, v) => v.as_ref(),
        Report::Succeeded(_) | Report::Skipped(_) | Report::Cancelled => None,
    };
    match verdict {
        Some(verdict) => crate::tally::variant(&verdict.when).to_lowercase(),
        None => "without verdict".to_owned(),
    }
}

/// Some progress.
pub(crate) fn indicators(ms: u64) -> Vec<Indicator> {
    let message = "on the way".to_owned();
    vec![Indicator { name: "files".to_owned(), step: ms % 100, total: Some(100), message }]
}
