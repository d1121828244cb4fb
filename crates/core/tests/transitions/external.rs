//! External work: the job ends the same, regardless of who reports first.

use jobhall_core::{
    Decision, IllegalTransition, JobStatus, Json, Outcome, Reason, Report, State, Verdict, When,
};
use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};
use proptest::sample::select;

use crate::retries::{next, state_of, step};
use crate::support::{FIRST, NOW_MS, Op, at, cancel, decide, failure, fresh, started, told};

fn passed() -> Report {
    Report::Succeeded(Json::trusted("{\"a\":1}"))
}

fn failed() -> Report {
    Report::Failed(failure("no"), None)
}

/// Every kind of external outcome.
fn reports() -> Vec<Report> {
    let verdict = |when| Some(Verdict { when, params: None });
    vec![
        passed(),
        Report::Skipped(Json::null()),
        failed(),
        Report::Failed(failure("no"), verdict(When::Never)),
        Report::Crashed(failure("broken"), verdict(When::In(30))),
        Report::TimedOut(failure("slow"), verdict(When::Snooze(70))),
    ]
}

/// An end without its times.
fn end(status: &JobStatus) -> (&'static str, u32, Option<Outcome>, Option<String>, Option<Json>) {
    let value = match &status.state {
        State::Succeeded(success) => Some(success.value.clone()),
        _ => None,
    };
    let error = status.state.error().map(|failure| failure.reason.clone());
    (state_of(status), status.attempt, status.state.outcome(), error, value)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The outcome is reported before the worker accepts, before it runs, before its start handler returns, or after.
    #[test]
    fn h10_an_outcome_ends_the_job_the_same_in_every_order_of_arrival(
        report in select(reports()),
        place in 1usize..5,
    ) {
        let mut ops = vec![Op::Claim, Op::Accept, Op::Progress, started()];
        let late = next(&fresh(), &[ops.clone(), vec![told(report.clone())]].concat());
        ops.insert(place, told(report.clone()));
        let status = next(&fresh(), &ops);
        prop_assert_eq!(end(&status), end(&late));
        let again = decide(&status, &started(), FIRST, at(NOW_MS));
        let ended = status.state.is_terminal();
        prop_assert_eq!(again == Ok(Decision::Same), ended, "the handler that returns again");
        let again = decide(&status, &told(report), FIRST, at(NOW_MS));
        prop_assert_eq!(again == Ok(Decision::Same), ended, "the outcome that is told again");
    }
}

#[test]
fn h10_a_kept_outcome_is_said_twice_the_same_and_never_otherwise() {
    for before in [vec![Op::Claim], vec![Op::Claim, Op::Accept], vec![Op::Claim, Op::Progress]] {
        let kept = step(&next(&fresh(), &before), &told(passed()));
        assert_eq!(kept.reason, Reason::OutcomeKept);
        let say = |report| decide(&kept.status, &told(report), FIRST, at(NOW_MS));
        assert_eq!(say(passed()), Ok(Decision::Same));
        assert_eq!(say(failed()), Err(IllegalTransition::ToldOtherwise));
        assert_eq!(say(Report::Cancelled), Err(IllegalTransition::NotRequested));
    }
}

#[test]
fn h10_what_the_starter_says_and_what_becomes_of_it_cannot_undo_a_success_that_was_told() {
    for before in [vec![Op::Claim], vec![Op::Claim, Op::Accept], vec![Op::Claim, Op::Wait]] {
        let kept = next(&next(&fresh(), &before), &[told(passed())]);
        let crashed = Op::Report(Report::Crashed(failure("broken"), None));
        for op in [Op::LeaseEnd, crashed] {
            let step = step(&kept, &op);
            let State::Succeeded(success) = &step.status.state else { panic!("{op:?} on {before:?}") };
            assert_eq!((&success.value, step.status.attempt), (&Json::trusted("{\"a\":1}"), 1));
        }
    }
    let taken_back = step(&next(&fresh(), &[Op::Claim, told(passed())]), &Op::TakeBack);
    assert_eq!((state_of(&taken_back.status), taken_back.status.attempt), ("succeeded", 1));
}

#[test]
fn h10_after_a_cancel_no_outcome_is_taken() {
    let stopping = next(&fresh(), &[Op::Claim, Op::Accept, cancel()]);
    assert_eq!(decide(&stopping, &told(passed()), FIRST, at(NOW_MS)), Err(IllegalTransition::Stopping));
    assert_eq!(state_of(&next(&stopping, &[started()])), "cancelled", "what is being stopped does not go on");
    let outside = next(&fresh(), &[Op::Claim, started()]);
    let cancelled = step(&outside, &cancel());
    assert_eq!((state_of(&cancelled.status), cancelled.reason), ("cancelled", Reason::Cancelled));
    let answer = decide(&cancelled.status, &told(passed()), FIRST, at(NOW_MS));
    assert!(matches!(answer, Err(IllegalTransition::Illegal { .. })), "{answer:?}");
}

#[test]
fn h10_the_attempt_that_is_named_must_be_the_current_one() {
    let waiting = next(&fresh(), &[Op::Claim, started()]);
    let tell = |status: &JobStatus, n| decide(status, &Op::Complete(Some(n), passed()), FIRST, at(NOW_MS));
    for n in [0, 2] {
        assert_eq!(tell(&waiting, n), Err(IllegalTransition::OtherAttempt { current: 1 }));
    }
    assert!(matches!(tell(&waiting, 1), Ok(Decision::Step(_))));
    let assigned = next(&fresh(), &[Op::Claim]);
    assert!(matches!(tell(&assigned, 1), Ok(Decision::Step(_))), "the one that is about to be accepted");
    let second = next(&waiting, &[told(failed()), Op::Claim, Op::Accept]);
    assert_eq!(
        tell(&second, 1),
        Err(IllegalTransition::OtherAttempt { current: 2 }),
        "of an attempt that has ended"
    );
}

#[test]
fn an_outcome_from_outside_takes_no_other_than_the_one_that_ended_the_job() {
    let ended = next(&fresh(), &[Op::Claim, started(), told(passed())]);
    assert_eq!(decide(&ended, &told(passed()), FIRST, at(NOW_MS)), Ok(Decision::Same));
    let other = Report::Succeeded(Json::trusted("2"));
    for report in [other, Report::Skipped(Json::trusted("{\"a\":1}")), failed()] {
        let answer = decide(&ended, &told(report), FIRST, at(NOW_MS));
        assert!(matches!(answer, Err(IllegalTransition::Illegal { .. })), "{answer:?}");
    }
}
