//! When a job is retried, when it is not, and how it ends after too many failures.

use jobhall_core::bounds::{LOST_LEASES, SNOOZES, UNACCEPTED_CLAIMS};
use jobhall_core::{
    Backoff, Decision, Dice, Event, Failure, JobStatus, Json, LeaseId, Outcome, OutcomeSet, Reason, Report,
    RetryPolicy, State, Step, Verdict, When, WorkerName, transition,
};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

use crate::ride::policies;
use crate::support::{Card, Op, at, decide, failed, failure, fresh, passed};

const MINUTE_MS: u64 = 60_000;

/// The step for an event whose sender holds the job and whose time has come.
pub fn step(status: &JobStatus, op: &Op) -> Step {
    let claim = if *op == Op::Claim { status.claim + 1 } else { status.claim };
    let card = Card { claim, lease: LeaseId(u128::from(claim)) };
    match decide(status, op, card, status.run_at.max(status.updated_at)) {
        Ok(Decision::Step(step)) => *step,
        other => panic!("{op:?} makes no step: {other:?}"),
    }
}

/// The status after these events.
pub fn next(status: &JobStatus, ops: &[Op]) -> JobStatus {
    ops.iter().fold(status.clone(), |status, op| step(&status, op).status)
}

pub fn state_of(status: &JobStatus) -> &'static str {
    status.state.name().as_str()
}

/// A running attempt after `before` counted ones.
fn running_after(before: u32) -> JobStatus {
    let mut status = next(&fresh(), &[Op::Claim, Op::Progress]);
    status.attempt += before;
    status.claim += before;
    status
}

fn reported(status: &JobStatus, report: &Report, retry: &RetryPolicy, dice: Dice) -> Step {
    let event = Event::Report { claim: status.claim, lease: LeaseId(1), report, retry, dice };
    match transition(status, &event, status.updated_at) {
        Ok(Decision::Step(step)) => *step,
        other => panic!("{report:?} makes no step: {other:?}"),
    }
}

/// The rules of the design: the reason, and the delay if there is another attempt.
fn expected(when: Option<When>, listed: bool, left: bool) -> (Reason, Option<u64>) {
    match (when, listed, left) {
        (Some(When::Never), _, _) => (Reason::NotRetried, None),
        (Some(When::Snooze(ms)), _, _) => (Reason::Snoozed, Some(ms)),
        (_, _, false) => (Reason::Exhausted, None),
        (Some(When::Now), _, true) => (Reason::Retried, Some(0)),
        (Some(When::In(ms)), _, true) => (Reason::Retried, Some(ms)),
        (None, true, true) => (Reason::Retried, Some(700)),
        (None, false, true) => (Reason::NotRetried, None),
    }
}

fn whens() -> [Option<When>; 5] {
    [None, Some(When::Never), Some(When::Now), Some(When::In(42)), Some(When::Snooze(MINUTE_MS))]
}

type Kind = fn(Failure, Option<Verdict>) -> Report;

const KINDS: [(Outcome, Kind, &str); 3] = [
    (Outcome::Failed, Report::Failed, "failed"),
    (Outcome::Crashed, Report::Crashed, "crashed"),
    (Outcome::TimedOut, Report::TimedOut, "crashed"),
];

#[test]
fn l11_policy_and_verdict_decide_every_defeat() {
    for (outcome, kind, end) in KINDS {
        for (when, listed, tries) in cases() {
            let others: Vec<_> = Outcome::ALL.into_iter().filter(|&o| listed == (o == outcome)).collect();
            let retry = RetryPolicy {
                max_attempts: 3,
                backoff: Backoff::Constant { ms: 700 },
                on: OutcomeSet::of(&others),
                at_most_once: false,
            };
            let report = kind(failure("no"), when.map(|when| Verdict { when, params: None }));
            let status = running_after(tries - 1);
            let step = reported(&status, &report, &retry, Dice(0));
            let (reason, pause) = expected(when, listed, tries < 3);
            assert_eq!(step.reason, reason, "{outcome} {when:?} listed {listed} tries {tries}");
            assert_eq!(state_of(&step.status), if pause.is_some() { "queued" } else { end });
            let run_at = pause.map_or(status.run_at, |ms| status.updated_at.plus_ms(ms));
            assert_eq!(step.status.run_at, run_at);
            assert_eq!(step.past.map(|past| past.outcome), pause.map(|_| outcome));
        }
    }
}

fn cases() -> impl Iterator<Item = (Option<When>, bool, u32)> {
    let listed = [true, false];
    let pairs = whens().into_iter().flat_map(move |when| listed.map(|listed| (when, listed)));
    pairs.flat_map(|(when, listed)| [1, 2, 3].map(|tries| (when, listed, tries)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_pause_is_that_of_the_policy_for_this_try(policy in policies(), tries in 1u32..6, dice: u64) {
        let on = OutcomeSet::of(&Outcome::ALL);
        let policy = RetryPolicy { max_attempts: 9, on, ..policy };
        let status = running_after(tries - 1);
        let step = reported(&status, &Report::Failed(failure("x"), None), &policy, Dice(dice));
        let pause = policy.backoff.delay_ms(tries, Dice(dice));
        prop_assert_eq!(step.status.run_at, status.updated_at.plus_ms(pause));
    }

    #[test]
    fn lost_and_snoozed_attempts_do_not_count(attempt in 0u32..9, lost in 0u16..9, snoozed in 0u32..9) {
        let status = JobStatus { attempt, lost, snoozed, ..fresh() };
        prop_assert_eq!(i64::from(status.tries()), (i64::from(attempt) - i64::from(lost) - i64::from(snoozed)).max(0));
    }

    #[test]
    fn l18_a_success_keeps_any_value(skipped in any::<bool>(), index in 0usize..6) {
        let value = Json::trusted(["null", "false", "0", "\"\"", "[]", "{\"a\":1}"][index]);
        let report = if skipped { Report::Skipped(value.clone()) } else { Report::Succeeded(value.clone()) };
        let step = reported(&running_after(0), &report, &RetryPolicy::once(), Dice(0));
        let State::Succeeded(success) = &step.status.state else { panic!("not succeeded") };
        prop_assert_eq!((&success.value, success.outcome), (&value, report.outcome()));
        prop_assert_eq!(step.status.state.leased(), None);
        prop_assert_eq!(step.reason, Reason::Succeeded);
    }
}

#[test]
fn l18_a_defeat_keeps_reason_explanation_and_data_and_ends_the_attempt() {
    let cause = Failure { data: Some(Json::trusted("{\"line\":7}")), ..Failure::new("boom", "it broke") };
    for (outcome, kind, end) in KINDS {
        let step = reported(&running_after(0), &kind(cause.clone(), None), &RetryPolicy::once(), Dice(0));
        assert_eq!((state_of(&step.status), step.status.state.error()), (end, Some(&cause)));
        assert_eq!(step.status.state.leased(), None);
        let (State::Failed(defeat) | State::Crashed(defeat)) = &step.status.state else {
            panic!("no defeat")
        };
        assert_eq!(defeat.outcome, outcome);
        assert_eq!(defeat.last.as_ref().map(|lease| lease.id), Some(LeaseId(1)));
    }
}

#[test]
fn changed_params_come_with_another_attempt_only() {
    let params = Some(Json::trusted("{\"other\":true}"));
    for (when, taken) in
        [(When::Now, true), (When::In(5), true), (When::Snooze(5), true), (When::Never, false)]
    {
        let report = Report::Failed(failure("x"), Some(Verdict { when, params: params.clone() }));
        let step = reported(&running_after(0), &report, &RetryPolicy::named(), Dice(0));
        assert_eq!(step.params, params.clone().filter(|_| taken), "{when:?}");
    }
}

#[test]
fn a_job_may_be_snoozed_more_often_than_it_may_be_tried() {
    let mut status = fresh();
    let snooze = failed(Some(When::Snooze(MINUTE_MS)));
    for round in 1..=20 {
        let held = next(&status, &[Op::Claim, Op::Accept]);
        status = next(&held, std::slice::from_ref(&snooze));
        assert_eq!((status.attempt, status.snoozed, status.tries()), (round, round, 0));
        assert_eq!(status.run_at, held.updated_at.plus_ms(MINUTE_MS));
    }
    assert_eq!(status.state.error(), Some(&failure("no")));
    for tries in 1..=5 {
        status = next(&status, &[Op::Claim, failed(None)]);
        assert_eq!(status.tries(), tries);
    }
    assert_eq!(state_of(&status), "failed");
}

#[test]
fn three_lost_workers_crash_a_job() {
    let mut status = fresh();
    for lost in 1..LOST_LEASES {
        let held = next(&status, &[Op::Claim, Op::Accept]);
        let step = step(&held, &Op::LeaseEnd);
        assert_eq!((step.reason, step.status.lost), (Reason::Lost, lost));
        assert_eq!(step.status.run_at, held.updated_at);
        let words = "the session of worker w1 has ended";
        let worker = WorkerName::new("w1").unwrap();
        assert_eq!(step.status.state.error(), Some(&Failure::lost("lost", words, &worker)));
        assert_eq!(step.status.state.error().and_then(Failure::lost_worker), Some(worker));
        assert_eq!(step.past.map(|past| past.outcome), Some(Outcome::Lost));
        status = step.status;
    }
    let held = next(&status, &[Op::Claim, Op::Progress]);
    let last = step(&held, &Op::LeaseEnd);
    assert_eq!((last.reason, last.status.lost, last.status.attempt), (Reason::TooManyLostLeases, 3, 3));
    let State::Crashed(defeat) = &last.status.state else { panic!("not crashed") };
    let words = "3 workers were lost while they had this job, the last one w1";
    let failure = Failure::lost("too_many_lost_leases", words, &WorkerName::new("w1").unwrap());
    assert_eq!((defeat.outcome, &defeat.failure), (Outcome::Lost, &failure));
    assert_eq!(defeat.last.as_ref(), held.state.lease());
}

#[test]
fn lost_workers_spend_no_attempt_of_the_policy() {
    let mut status = fresh();
    for _ in 0..2 {
        status = next(&status, &[Op::Claim, Op::Accept, Op::LeaseEnd]);
    }
    assert_eq!((status.attempt, status.tries()), (2, 0));
    for tries in 1..5 {
        status = next(&status, &[Op::Claim, Op::Accept, failed(None)]);
        assert_eq!((state_of(&status), status.tries()), ("queued", tries));
    }
    assert_eq!(state_of(&next(&status, &[Op::Claim, failed(None)])), "failed");
}

#[test]
fn a_worker_that_vanishes_before_it_accepted_is_a_claim_taken_back() {
    let step = step(&next(&fresh(), &[Op::Claim]), &Op::LeaseEnd);
    assert_eq!((step.reason, step.status.attempt, step.status.lost), (Reason::TakenBack, 0, 0));
    assert_eq!((step.status.unaccepted, step.past), (1, None));
    assert_eq!(step.status.state, State::Queued(None));
}

fn taken_back(status: &JobStatus, times: u16) -> JobStatus {
    (0..times).fold(status.clone(), |status, _| next(&status, &[Op::Claim, Op::TakeBack]))
}

#[test]
fn ten_claims_in_a_row_that_nobody_accepts_crash_the_job() {
    let nine = taken_back(&fresh(), UNACCEPTED_CLAIMS - 1);
    assert_eq!((state_of(&nine), nine.unaccepted, nine.claim, nine.attempt), ("queued", 9, 9, 0));
    assert_eq!(nine.state.error(), None);
    let tenth = step(&next(&nine, &[Op::Claim]), &Op::TakeBack);
    assert_eq!((tenth.reason, tenth.status.unaccepted, tenth.past), (Reason::Unaccepted, 10, None));
    let State::Crashed(defeat) = &tenth.status.state else { panic!("not crashed") };
    let words = "10 claims in a row were not accepted in time";
    assert_eq!((defeat.outcome, &defeat.failure), (Outcome::Lost, &Failure::new("unaccepted", words)));
    assert_eq!(defeat.last, None);
}

#[test]
fn an_accept_makes_the_unaccepted_claims_forgotten() {
    let nine = taken_back(&fresh(), UNACCEPTED_CLAIMS - 1);
    for said in [Op::Accept, Op::Progress, failed(None)] {
        let heard = next(&nine, &[Op::Claim, said]);
        assert_eq!(heard.unaccepted, 0);
    }
    let retrying = next(&nine, &[Op::Claim, Op::Accept, failed(None)]);
    let nine_more = taken_back(&retrying, UNACCEPTED_CLAIMS - 1);
    assert_eq!((state_of(&nine_more), nine_more.unaccepted), ("queued", 9));
    assert_eq!(state_of(&taken_back(&nine_more, 1)), "crashed");
}

#[test]
fn a_take_back_restores_the_error_and_the_time_of_the_attempt_before() {
    let retrying = next(&fresh(), &[Op::Claim, Op::Accept, failed(None)]);
    let step = step(&next(&retrying, &[Op::Claim]), &Op::TakeBack);
    assert_eq!((step.reason, step.past), (Reason::TakenBack, None));
    assert_eq!(step.status.state, retrying.state);
    assert_eq!((step.status.run_at, step.status.attempt), (retrying.run_at, 1));
}

#[test]
fn l11_a_job_goes_from_the_queue_through_a_failed_attempt_to_success() {
    let mut status = fresh();
    let mut seen = Vec::new();
    for op in [Op::Claim, Op::Progress, failed(None), Op::Claim, Op::Accept, Op::Progress, passed()] {
        status = next(&status, &[op]);
        seen.push(status.name(at(0)).as_str());
    }
    let path = ["assigned", "running", "retrying", "assigned", "accepted", "running", "succeeded"];
    assert_eq!(seen, path);
}

#[test]
fn snoozes_that_do_not_count_are_limited() {
    let verdict = Verdict { when: When::Snooze(MINUTE_MS), params: None };
    let report = Report::Failed(failure("later"), Some(verdict));
    let after = |snoozed: u32| {
        let mut status = running_after(snoozed);
        status.snoozed = snoozed;
        reported(&status, &report, &RetryPolicy { max_attempts: 2, ..RetryPolicy::named() }, Dice(0))
    };
    let last = after(SNOOZES - 1);
    assert_eq!((last.reason, last.status.snoozed, last.status.tries()), (Reason::Snoozed, SNOOZES, 0));
    let beyond = after(SNOOZES);
    assert_eq!((beyond.reason, beyond.status.snoozed, beyond.status.tries()), (Reason::Retried, SNOOZES, 1));
}
