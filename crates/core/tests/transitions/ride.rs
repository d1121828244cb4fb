//! Random sequences of events, by holders and others, with a clock that may stop or go back.

use jobhall_core::{
    Backoff, Decision, Failure, IllegalTransition, JobId, JobStatus, Json, LeaseId, Outcome, OutcomeSet,
    Reason, Report, RetryPolicy, Step, Time, Verdict, When, transition,
};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::subsequence;
use proptest::{option, prop_oneof};

use crate::support::{Card, Op, at, failure, time_out};

/// The card that a worker uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The card of the last claim.
    Current,
    /// The current lease with the previous claim.
    OldClaim,
    /// The current lease with a future claim.
    ClaimAhead,
    /// The current claim with the lease of the previous claim.
    OldLease,
    /// The card of the previous claim.
    Previous,
    /// The current claim with a lease that was never assigned.
    Foreign,
}

#[derive(Clone, Debug)]
pub struct Act {
    op: Op,
    show: Show,
    clock_ms: i64,
}

/// One event of a sequence and its result.
#[derive(Clone, Debug)]
pub struct Turn {
    pub before: JobStatus,
    pub op: Op,
    pub card: Card,
    /// Whether the card is that of the last claim.
    pub shows_current: bool,
    pub now: Time,
    pub policy: RetryPolicy,
    pub answer: Result<Decision, IllegalTransition>,
}

impl Turn {
    pub fn step(&self) -> Option<&Step> {
        match &self.answer {
            Ok(Decision::Step(step)) => Some(step),
            _ => None,
        }
    }

    pub fn reason(&self) -> Option<Reason> {
        self.step().map(|step| step.reason)
    }

    /// Whether the event comes from a worker.
    pub fn by_worker(&self) -> bool {
        matches!(self.op, Op::Accept | Op::Progress | Op::Wait | Op::Report(_) | Op::StartedExternal(_))
    }
}

/// The turns that changed the job, with the status before each.
pub fn steps(turns: &[Turn]) -> impl Iterator<Item = (&Turn, &Step)> {
    turns.iter().filter_map(|turn| turn.step().map(|step| (turn, step)))
}

/// Applies the events to a new job.
fn ride(start: JobStatus, policy: RetryPolicy, acts: &[Act]) -> Vec<Turn> {
    let mut cards = vec![Card { claim: 0, lease: LeaseId(1_000) }];
    let (mut status, mut now) = (start, at(START_MS));
    let mut turns = Vec::new();
    for act in acts {
        now = at((now.as_ms() + act.clock_ms).max(0));
        let new = Card { claim: status.claim + 1, lease: LeaseId(1_000 + cards.len() as u128) };
        let card = if act.op == Op::Claim { new } else { shown(&cards, act.show) };
        let shows_current = cards.last() == Some(&card);
        let answer = transition(&status, &act.op.event(card, &policy), now);
        let before = status.clone();
        if let Ok(Decision::Step(step)) = &answer {
            status = step.status.clone();
            if act.op == Op::Claim {
                cards.push(card);
            }
        }
        turns.push(Turn { before, op: act.op.clone(), card, shows_current, now, policy, answer });
    }
    turns
}

fn shown(cards: &[Card], show: Show) -> Card {
    let current = cards[cards.len() - 1];
    let previous = cards[cards.len().saturating_sub(2)];
    match show {
        Show::Current => current,
        Show::OldClaim => Card { claim: current.claim.saturating_sub(1), ..current },
        Show::ClaimAhead => Card { claim: current.claim + 1, ..current },
        Show::OldLease => Card { lease: previous.lease, ..current },
        Show::Previous => previous,
        Show::Foreign => Card { lease: LeaseId(u128::MAX), ..current },
    }
}

const START_MS: i64 = 1_000_000;

/// The tendency of a sequence.
#[derive(Clone, Copy, Debug)]
enum Mood {
    Mixed,
    Retries,
    NobodyAccepts,
    WorkersDie,
    Outside,
    Slow,
}

/// A random sequence.
pub fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let mood = prop_oneof![
        Just(Mood::Mixed),
        Just(Mood::Retries),
        Just(Mood::NobodyAccepts),
        Just(Mood::WorkersDie),
        Just(Mood::Outside),
        Just(Mood::Slow),
    ];
    let acts = mood.prop_flat_map(|mood| vec(act(mood), 1..70));
    let policies = prop_oneof![5 => policies(), 1 => policies().prop_map(RetryPolicy::at_most_once)];
    (starts(), policies, acts).prop_map(|(start, policy, acts)| ride(start, policy, &acts))
}

fn starts() -> impl Strategy<Value = JobStatus> {
    let now = at(START_MS);
    prop_oneof![
        4 => Just(JobStatus::queued(now, now)),
        1 => Just(JobStatus::queued(now, now.plus_ms(30))),
        1 => Just(JobStatus::behind(now, now, JobId::new(9).expect("an id"))),
        1 => Just(JobStatus::queued(now, now).after_others()),
        1 => Just(JobStatus::behind(now, now, JobId::new(9).expect("an id")).after_others()),
    ]
}

pub fn policies() -> impl Strategy<Value = RetryPolicy> {
    let backoff = prop_oneof![
        (0u64..9_000).prop_map(|ms| Backoff::Constant { ms }),
        (0u64..900).prop_map(|ms| Backoff::Linear { ms, cap_ms: 2_000 }),
        (0u64..900).prop_map(|ms| Backoff::Exponential { ms, cap_ms: 4_000 }),
    ];
    let on = subsequence(vec![Outcome::Failed, Outcome::Crashed, Outcome::TimedOut], 0..=3);
    (1u16..6, backoff, on).prop_map(|(max_attempts, backoff, on)| RetryPolicy {
        max_attempts,
        backoff,
        on: OutcomeSet::of(&on),
        at_most_once: false,
    })
}

fn act(mood: Mood) -> impl Strategy<Value = Act> {
    let clock_ms = prop_oneof![3 => Just(0i64), 4 => 1i64..20, 1 => -50i64..0, 3 => 9_000i64..60_000];
    (op(mood), show(), clock_ms).prop_map(|(op, show, clock_ms)| Act { op, show, clock_ms })
}

fn show() -> impl Strategy<Value = Show> {
    prop_oneof![
        12 => Just(Show::Current),
        1 => Just(Show::OldClaim),
        1 => Just(Show::ClaimAhead),
        1 => Just(Show::OldLease),
        1 => Just(Show::Previous),
        1 => Just(Show::Foreign),
    ]
}

fn op(mood: Mood) -> impl Strategy<Value = Op> {
    // Weights of: claim, accept, progress, success, failure, take back, lease end, cancel, again.
    let weights = match mood {
        Mood::Mixed => [12, 6, 6, 2, 4, 3, 3, 2, 2],
        Mood::Retries => [40, 10, 10, 1, 20, 1, 1, 1, 1],
        Mood::NobodyAccepts => [80, 1, 1, 1, 1, 60, 1, 1, 1],
        Mood::WorkersDie => [40, 10, 10, 1, 1, 1, 20, 1, 1],
        Mood::Outside | Mood::Slow => [20, 6, 6, 1, 2, 1, 2, 1, 1],
    };
    let (outside, slow) = match mood {
        Mood::Outside => (12, 1),
        Mood::Slow => (1, 12),
        _ => (1, 1),
    };
    let [claim, accept, progress, success, defeat, take_back, lease_end, cancel, again] = weights;
    prop_oneof![
        claim => Just(Op::Claim),
        accept => Just(Op::Accept),
        progress => Just(Op::Progress),
        success => successes().prop_map(Op::Report),
        defeat => defeats().prop_map(Op::Report),
        take_back => Just(Op::TakeBack),
        lease_end => Just(Op::LeaseEnd),
        cancel => causes().prop_map(Op::Cancel),
        again => (0..9).prop_map(|n: i32| Op::Again(Json::trusted(&n.to_string()))),
        2 => Just(Op::Wait),
        2 => Just(Op::Resume),
        1 => Just(Op::KeyFreed),
        1 => Just(Op::Report(Report::Cancelled)),
        outside => (START_MS..START_MS + 200_000).prop_map(Op::StartedExternal),
        outside => (option::weighted(0.3, 0u32..4), reports()).prop_map(|(n, r)| Op::Complete(n, r)),
        slow => any::<bool>().prop_map(time_out),
        1 => Just(Op::Hold),
        1 => Just(Op::Release),
        1 => option::of(START_MS..START_MS + 200_000).prop_map(Op::Edit),
        1 => Just(Op::DependenciesMet),
        1 => (causes(), any::<bool>()).prop_map(|(failure, cancelled)| Op::DependencyFailed(failure, cancelled)),
    ]
}

fn reports() -> impl Strategy<Value = Report> {
    prop_oneof![4 => successes(), 4 => defeats(), 1 => Just(Report::Cancelled)]
}

fn successes() -> impl Strategy<Value = Report> {
    let values = ["null", "false", "0", "\"\"", "{\"a\":[1]}"].map(Json::trusted).to_vec();
    (proptest::sample::select(values), any::<bool>()).prop_map(|(value, skipped)| match skipped {
        true => Report::Skipped(value),
        false => Report::Succeeded(value),
    })
}

fn defeats() -> impl Strategy<Value = Report> {
    let kinds: Vec<fn(Failure, Option<Verdict>) -> Report> =
        vec![Report::Failed, Report::Crashed, Report::TimedOut];
    (proptest::sample::select(kinds), causes(), option::of(verdicts()))
        .prop_map(|(kind, failure, verdict)| kind(failure, verdict))
}

fn causes() -> impl Strategy<Value = Failure> {
    proptest::sample::select(vec!["one", "two", "three"]).prop_map(failure)
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    let when = prop_oneof![
        1 => Just(When::Never),
        3 => Just(When::Now),
        3 => (0u64..9_000).prop_map(When::In),
        3 => (0u64..9_000).prop_map(When::Snooze),
    ];
    let params = option::of(Just(Json::trusted("{\"other\":true}")));
    (when, params).prop_map(|(when, params)| Verdict { when, params })
}
