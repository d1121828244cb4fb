//! Which messages about a job are accepted: only those of the holder of the current claim and lease.

use jobhall_core::{Decision, IllegalTransition, Json, LeaseId, Report, State, When};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use crate::retries::{next, state_of};
use crate::ride::turns;
use crate::support::{
    Card, FIRST, FOREIGN, NOW_MS, Op, after, at, cancel, crashed, decide, failed, failure, fresh, lives,
    passed,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn g2_only_the_holder_of_the_current_lease_is_heard(turns in turns()) {
        for turn in turns.iter().filter(|turn| turn.by_worker()) {
            let held = turn.before.state.leased().is_some();
            let lost = matches!(turn.answer, Err(IllegalTransition::LeaseLost { .. }));
            if held {
                prop_assert_eq!(lost, !turn.shows_current, "{:?}", turn);
            } else {
                prop_assert!(turn.step().is_none());
                let state = &turn.before.state;
                prop_assert!(lost || (turn.shows_current && state.lease().is_some()), "{:?}", turn);
            }
        }
    }

    #[test]
    fn h03_refusals_name_the_state_and_the_event(turns in turns()) {
        for turn in &turns {
            let name = turn.op.event(turn.card, &turn.policy).name();
            match &turn.answer {
                Err(IllegalTransition::Illegal { state, event } | IllegalTransition::LeaseLost { state, event }) => {
                    prop_assert_eq!((*state, *event), (turn.before.state.name(), name));
                }
                Err(IllegalTransition::NotRequested) => prop_assert!(matches!(
                    turn.op,
                    Op::Report(Report::Cancelled) | Op::Complete(_, Report::Cancelled)
                )),
                Err(IllegalTransition::NotDue(_) | IllegalTransition::OnHold) => prop_assert_eq!(&turn.op, &Op::Claim),
                Err(IllegalTransition::Stopping) => {
                    prop_assert!(matches!(turn.op, Op::Wait | Op::Complete(..)));
                }
                Err(IllegalTransition::ToldOtherwise | IllegalTransition::OtherAttempt { .. }) => {
                    prop_assert!(matches!(turn.op, Op::Complete(..)));
                }
                Err(IllegalTransition::NotCompleted { .. }) => prop_assert!(false, "a rule of manual retries"),
                Ok(_) => {}
            }
        }
    }

    #[test]
    fn a_report_said_again_at_once_answers_the_same(turns in turns()) {
        for (turn, step) in crate::ride::steps(&turns) {
            // An external outcome overruled this report, which is therefore not recognized again.
            let overruled = turn.before.state.leased().is_some_and(|held| held.early.is_some());
            if matches!(turn.op, Op::Report(_)) && step.status.state.is_terminal() && !overruled {
                prop_assert_eq!(decide(&step.status, &turn.op, turn.card, turn.now), Ok(Decision::Same));
                let foreign = Card { lease: LeaseId(0), ..turn.card };
                prop_assert!(decide(&step.status, &turn.op, foreign, turn.now).is_err());
                let ahead = Card { claim: turn.card.claim + 1, ..turn.card };
                prop_assert!(decide(&step.status, &turn.op, ahead, turn.now).is_err());
            }
        }
    }
}

fn answer(status: &jobhall_core::JobStatus, op: &Op, card: Card) -> &'static str {
    match decide(status, op, card, at(NOW_MS)) {
        Ok(Decision::Step(_)) => "step",
        Ok(Decision::Same) => "same",
        Err(IllegalTransition::LeaseLost { .. }) => "lease lost",
        Err(_) => "refused",
    }
}

#[test]
fn g2_claim_and_lease_must_both_be_current() {
    let cards = [
        (FIRST, "step"),
        (Card { claim: 0, ..FIRST }, "lease lost"),
        (Card { claim: 2, ..FIRST }, "lease lost"),
        (Card { lease: LeaseId(2), ..FIRST }, "lease lost"),
        (Card { claim: 2, lease: LeaseId(2) }, "lease lost"),
    ];
    let held = lives().into_iter().filter(|(_, status)| status.state.leased().is_some());
    for (name, status) in held {
        for (card, expected) in cards {
            assert_eq!(answer(&status, &passed(), card), expected, "{name} {card:?}");
        }
    }
}

#[test]
fn a_completed_job_knows_its_report_again_and_no_other() {
    let said = |op: Op| after(&fresh(), &[Op::Claim, op]);
    let value = |text: &str| Op::Report(Report::Succeeded(Json::trusted(text)));
    let skipped = Op::Report(Report::Skipped(Json::null()));
    let never = Some(When::Never);
    let other = Op::Report(Report::Failed(failure("other"), None));
    let timed_out = |reason| Op::Report(Report::TimedOut(failure(reason), None));
    for (first, second, expected) in [
        (passed(), passed(), "same"),
        (passed(), value("0"), "lease lost"),
        (passed(), skipped.clone(), "lease lost"),
        (passed(), failed(None), "lease lost"),
        (skipped.clone(), skipped, "same"),
        (failed(never), failed(never), "same"),
        (failed(never), failed(None), "same"),
        (failed(never), other, "lease lost"),
        (failed(never), passed(), "lease lost"),
        (failed(never), crashed(never), "lease lost"),
        (crashed(never), crashed(never), "same"),
        (crashed(never), timed_out("broken"), "lease lost"),
        (crashed(never), timed_out("other"), "lease lost"),
        (crashed(never), Op::Report(Report::Cancelled), "lease lost"),
    ] {
        let status = said(first.clone());
        assert_eq!(answer(&status, &second, FIRST), expected, "{first:?} then {second:?}");
        assert_eq!(answer(&status, &second, FOREIGN), "lease lost");
        assert_eq!(answer(&status, &second, Card { claim: 2, ..FIRST }), "lease lost");
    }
}

#[test]
fn any_report_of_the_worker_that_was_stopped_answers_as_its_first() {
    let status = after(&fresh(), &[Op::Claim, cancel(), failed(None)]);
    for op in [failed(None), passed(), Op::Report(Report::Cancelled)] {
        assert_eq!(answer(&status, &op, FIRST), "same");
        assert_eq!(answer(&status, &op, FOREIGN), "lease lost");
    }
    let unseen = after(&fresh(), &[Op::Claim, cancel(), Op::LeaseEnd]);
    let unstarted = after(&fresh(), &[cancel()]);
    let lost = after(&fresh(), &[Op::Claim, Op::Accept, cancel(), Op::LeaseEnd]);
    for status in [unseen, unstarted, lost] {
        assert_eq!(answer(&status, &passed(), FIRST), "lease lost");
    }
}

#[test]
fn g8_a_result_after_the_lease_ended_is_refused_and_leaves_the_next_attempt_alone() {
    let lost = after(&fresh(), &[Op::Claim, Op::Accept, Op::LeaseEnd]);
    assert_eq!(answer(&lost, &passed(), FIRST), "lease lost");
    let second = Card { claim: 2, lease: LeaseId(2) };
    let Ok(Decision::Step(step)) = decide(&lost, &Op::Claim, second, at(NOW_MS)) else { panic!("no claim") };
    assert_eq!(answer(&step.status, &passed(), FIRST), "lease lost");
    assert_eq!(answer(&step.status, &failed(None), FIRST), "lease lost");
    assert_eq!(answer(&step.status, &passed(), second), "step");
}

#[test]
fn g8_a_lease_that_ends_after_the_result_changes_nothing() {
    for (op, ending) in [(passed(), "succeeded"), (failed(Some(When::Never)), "failed")] {
        let status = after(&fresh(), &[Op::Claim, Op::Accept, op.clone()]);
        assert_eq!(state_of(&status), ending);
        assert_eq!(answer(&status, &Op::LeaseEnd, FIRST), "refused");
        assert_eq!(answer(&status, &Op::TakeBack, FIRST), "refused");
        assert_eq!(answer(&status, &op, FIRST), "same");
    }
    let retrying = after(&fresh(), &[Op::Claim, Op::Accept, failed(None)]);
    assert_eq!(answer(&retrying, &Op::LeaseEnd, FIRST), "refused");
}

#[test]
fn accept_and_progress_may_be_said_twice() {
    let accepted = next(&fresh(), &[Op::Claim, Op::Accept]);
    assert_eq!(answer(&accepted, &Op::Accept, FIRST), "same");
    let running = next(&accepted, &[Op::Progress]);
    assert_eq!(answer(&running, &Op::Progress, FIRST), "same");
    assert_eq!(answer(&running, &Op::Accept, FIRST), "same");
    assert!(matches!(running.state, State::Running(_)));
}
