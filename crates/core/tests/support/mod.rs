//! Events that own their data, and one job in each state, made by real transitions.

use jobhall_core::{
    Backoff, Decision, Dice, Event, Failure, IllegalTransition, JobId, JobStatus, Json, LeaseId, Outcome,
    OutcomeSet, Report, RetryPolicy, Time, Verdict, When, WorkerName, transition,
};

/// When the sample jobs begin.
pub const BEGIN_MS: i64 = 1_000;
/// When events are tried on them.
pub const NOW_MS: i64 = 1_000_000;
/// When the scheduled one is due.
pub const LATER_MS: i64 = 2_000_000;

/// The claim and lease that a worker receives, and that it includes in each of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    pub claim: u32,
    pub lease: LeaseId,
}

/// The card of the first claim in the samples.
pub const FIRST: Card = Card { claim: 1, lease: LeaseId(1) };
/// A card that was never assigned.
pub const FOREIGN: Card = Card { claim: 1, lease: LeaseId(99) };

/// An event that owns its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Claim,
    Accept,
    Progress,
    Wait,
    Resume,
    Report(Report),
    TakeBack,
    LeaseEnd,
    Cancel(Failure),
    KeyFreed,
    Again(Json),
    Hold,
    Release,
    /// Sets the start time, if given.
    Edit(Option<i64>),
    DependenciesMet,
    /// Whether the dependency was cancelled.
    DependencyFailed(Failure, bool),
    /// Until when the external work may continue.
    StartedExternal(i64),
    /// The attempt, if it is named.
    Complete(Option<u32>, Report),
    /// Whether the grace period of the worker is over.
    TimeOut(Failure, bool),
}

impl Op {
    /// The event in the form of the core.
    pub fn event<'a>(&'a self, card: Card, retry: &'a RetryPolicy) -> Event<'a> {
        let Card { claim, lease } = card;
        match self {
            Op::Claim => Event::Claim { lease, worker: WorkerName::new("w1").expect("a name") },
            Op::Accept => Event::Accept { claim, lease },
            Op::Progress => Event::Progress { claim, lease },
            Op::Wait => Event::Wait { claim, lease },
            Op::Resume => Event::Resume,
            Op::Report(report) => Event::Report { claim, lease, report, retry, dice: Dice(0) },
            Op::TakeBack => Event::TakeBack,
            Op::LeaseEnd => Event::LeaseEnd { retry },
            Op::Cancel(failure) => Event::Cancel(failure),
            Op::KeyFreed => Event::KeyFreed,
            Op::Again(params) => Event::Again(params),
            Op::Hold => Event::Hold,
            Op::Release => Event::Release,
            Op::Edit(run_at) => Event::Edit { run_at: run_at.map(at) },
            Op::DependenciesMet => Event::DependenciesMet,
            Op::DependencyFailed(failure, cancelled) => {
                Event::DependencyFailed { failure, cancelled: *cancelled }
            }
            Op::StartedExternal(until) => {
                Event::StartedExternal { claim, lease, until: at(*until), retry, dice: Dice(0) }
            }
            Op::Complete(attempt, report) => {
                Event::Complete { attempt: *attempt, report, retry, dice: Dice(0) }
            }
            Op::TimeOut(failure, forced) => Event::TimeOut { failure, retry, dice: Dice(0), forced: *forced },
        }
    }
}

pub fn at(ms: i64) -> Time {
    Time::from_ms(ms).expect("a moment")
}

pub fn failure(reason: &str) -> Failure {
    Failure::new(reason, "because")
}

pub fn cancel() -> Op {
    Op::Cancel(failure("stop"))
}

pub fn again() -> Op {
    Op::Again(Json::trusted("7"))
}

pub fn passed() -> Op {
    Op::Report(Report::Succeeded(Json::null()))
}

pub fn failed(when: Option<When>) -> Op {
    Op::Report(Report::Failed(failure("no"), when.map(|when| Verdict { when, params: None })))
}

pub fn crashed(when: Option<When>) -> Op {
    Op::Report(Report::Crashed(failure("broken"), when.map(|when| Verdict { when, params: None })))
}

/// External work that lasts longer than the samples.
pub fn started() -> Op {
    Op::StartedExternal(LATER_MS)
}

pub fn told(report: Report) -> Op {
    Op::Complete(None, report)
}

pub fn time_out(forced: bool) -> Op {
    Op::TimeOut(failure("timed_out"), forced)
}

/// Five attempts, a second apart.
pub fn policy() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 5,
        backoff: Backoff::Constant { ms: 1_000 },
        on: OutcomeSet::of(&[Outcome::Failed, Outcome::Crashed, Outcome::TimedOut]),
        at_most_once: false,
    }
}

/// The decision of the core for the event.
pub fn decide(status: &JobStatus, op: &Op, card: Card, now: Time) -> Result<Decision, IllegalTransition> {
    transition(status, &op.event(card, &policy()), now)
}

/// The status after these events of the first claim.
pub fn after(status: &JobStatus, ops: &[Op]) -> JobStatus {
    ops.iter().fold(status.clone(), |status, op| match decide(&status, op, FIRST, at(BEGIN_MS)) {
        Ok(Decision::Step(step)) => step.status,
        other => panic!("{op:?} makes no step: {other:?}"),
    })
}

/// A new job that is due.
pub fn fresh() -> JobStatus {
    JobStatus::queued(at(BEGIN_MS), at(BEGIN_MS))
}

/// A job in every visible state, by name.
pub fn lives() -> Vec<(&'static str, JobStatus)> {
    let made = |ops: &[Op]| after(&fresh(), ops);
    vec![
        ("scheduled", JobStatus::queued(at(BEGIN_MS), at(LATER_MS))),
        ("queued", fresh()),
        ("blocked", JobStatus::behind(at(BEGIN_MS), at(BEGIN_MS), JobId::new(1).expect("an id"))),
        ("assigned", made(&[Op::Claim])),
        ("accepted", made(&[Op::Claim, Op::Accept])),
        ("running", made(&[Op::Claim, Op::Progress])),
        ("waiting", made(&[Op::Claim, Op::Wait])),
        ("retrying", made(&[Op::Claim, failed(None)])),
        ("succeeded", made(&[Op::Claim, passed()])),
        ("failed", made(&[Op::Claim, failed(Some(When::Never))])),
        ("crashed", made(&[Op::Claim, crashed(Some(When::Never))])),
        ("cancelled", made(&[Op::Claim, cancel(), Op::Report(Report::Cancelled)])),
    ]
}

/// The other variants of states with two: blocked by dependencies, and also by the holder of its key; waiting for
/// external work, and for too long.
pub fn other_lives() -> Vec<(&'static str, JobStatus)> {
    let behind = JobStatus::behind(at(BEGIN_MS), at(BEGIN_MS), JobId::new(1).expect("an id"));
    vec![
        ("blocked until others end", fresh().after_others()),
        ("blocked by key and others", behind.after_others()),
        ("waiting for the outside", after(&fresh(), &[Op::Claim, started()])),
        ("waiting for the outside too long", after(&fresh(), &[Op::Claim, Op::StartedExternal(NOW_MS)])),
    ]
}

/// The same for the states in which a timeout can be pending at the worker.
pub fn timing_out_lives() -> Vec<(&'static str, JobStatus)> {
    let held = |(name, _): &(&str, JobStatus)| ["accepted", "running"].contains(name);
    lives()
        .into_iter()
        .filter(held)
        .map(|(name, status)| (name, after(&status, &[time_out(false)])))
        .collect()
}

/// The same for the states in which a cancel can be pending at the worker.
pub fn cancelling_lives() -> Vec<(&'static str, JobStatus)> {
    let held = |(name, _): &(&str, JobStatus)| ["assigned", "accepted", "running", "waiting"].contains(name);
    lives().into_iter().filter(held).map(|(name, status)| (name, after(&status, &[cancel()]))).collect()
}

/// Every kind of event, by name, with the card of its sender.
pub fn events() -> Vec<(&'static str, Op, Card)> {
    let timed_out = Op::Report(Report::TimedOut(failure("slow"), None));
    vec![
        ("claim", Op::Claim, FIRST),
        ("accept", Op::Accept, FIRST),
        ("progress", Op::Progress, FIRST),
        ("report passed", passed(), FIRST),
        ("report skipped", Op::Report(Report::Skipped(Json::null())), FIRST),
        ("report failed", failed(None), FIRST),
        ("report failed, never again", failed(Some(When::Never)), FIRST),
        ("report failed, snooze", failed(Some(When::Snooze(60_000))), FIRST),
        ("report crashed", crashed(None), FIRST),
        ("report crashed, never again", crashed(Some(When::Never)), FIRST),
        ("report timed out", timed_out, FIRST),
        ("report cancelled", Op::Report(Report::Cancelled), FIRST),
        ("wait", Op::Wait, FIRST),
        ("resume", Op::Resume, FIRST),
        ("accept, foreign lease", Op::Accept, FOREIGN),
        ("progress, foreign lease", Op::Progress, FOREIGN),
        ("report passed, foreign lease", passed(), FOREIGN),
        ("take back", Op::TakeBack, FIRST),
        ("lease end", Op::LeaseEnd, FIRST),
        ("cancel", cancel(), FIRST),
        ("key freed", Op::KeyFreed, FIRST),
        ("again", again(), FIRST),
        ("hold", Op::Hold, FIRST),
        ("release", Op::Release, FIRST),
        ("edit", Op::Edit(Some(LATER_MS)), FIRST),
        ("dependencies met", Op::DependenciesMet, FIRST),
        ("dependency failed", Op::DependencyFailed(failure("other"), false), FIRST),
        ("dependency cancelled", Op::DependencyFailed(failure("other"), true), FIRST),
        ("started external", started(), FIRST),
        ("started external, foreign lease", started(), FOREIGN),
        ("complete passed", told(Report::Succeeded(Json::null())), FIRST),
        ("complete failed", told(Report::Failed(failure("no"), None)), FIRST),
        ("complete of attempt 7", Op::Complete(Some(7), Report::Succeeded(Json::null())), FIRST),
        ("time out", time_out(false), FIRST),
        ("time out, grace over", time_out(true), FIRST),
    ]
}

/// The effect of an event, in the words of the table of states.
pub fn effect(status: &JobStatus, op: &Op, card: Card) -> String {
    effect_by(status, op, card, &policy())
}

/// The same under another retry policy.
pub fn effect_by(status: &JobStatus, op: &Op, card: Card, retry: &RetryPolicy) -> String {
    let now = at(NOW_MS);
    let step = match transition(status, &op.event(card, retry), now) {
        Ok(Decision::Step(step)) => step,
        Ok(Decision::Same) => return "same".to_owned(),
        Err(IllegalTransition::Illegal { .. }) => return "–".to_owned(),
        Err(IllegalTransition::LeaseLost { .. }) => return "lease lost".to_owned(),
        Err(IllegalTransition::NotDue(_)) => return "not due".to_owned(),
        Err(IllegalTransition::NotRequested) => return "not requested".to_owned(),
        Err(IllegalTransition::OnHold) => return "on hold".to_owned(),
        Err(IllegalTransition::Stopping) => return "stopping".to_owned(),
        Err(IllegalTransition::ToldOtherwise) => return "told otherwise".to_owned(),
        Err(IllegalTransition::OtherAttempt { .. }) => return "other attempt".to_owned(),
        Err(refusal @ IllegalTransition::NotCompleted { .. }) => {
            panic!("{refusal}: a rule of manual retries")
        }
    };
    let mut words = step.status.name(now).to_string();
    let cancelling = |status: &JobStatus| status.state.leased().is_some_and(|held| held.is_cancelled());
    if cancelling(&step.status) && !cancelling(status) {
        words += ", cancel requested";
    }
    let timing_out = |status: &JobStatus| status.state.leased().is_some_and(|held| held.stop.is_some());
    if timing_out(&step.status) && !timing_out(status) && !cancelling(&step.status) {
        words += ", time-out requested";
    }
    if step.status.hold && !status.hold {
        words += ", held back";
    }
    let kept = |status: &JobStatus| status.state.leased().is_some_and(|held| held.early.is_some());
    if kept(&step.status) && !kept(status) {
        words += ", outcome kept";
    }
    if step.status.again.is_some() {
        words += ", again noted";
    }
    words
}
