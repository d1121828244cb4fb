//! Cancel, follow-ups and release.

use jobhall_core::{
    Blocked, Decision, Failure, IllegalTransition, JobStatus, Json, Outcome, Reason, Report, State, When,
};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use crate::retries::{next, state_of, step};
use crate::ride::{steps, turns};
use crate::support::{
    FIRST, NOW_MS, Op, again, at, cancel, cancelling_lives, decide, failed, failure, fresh, lives, passed,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn g5_cancelling_twice_is_cancelling_once(turns in turns()) {
        for (turn, step) in steps(&turns) {
            if matches!(turn.op, Op::Cancel(_)) {
                let other = Op::Cancel(failure("again"));
                prop_assert_eq!(decide(&step.status, &turn.op, FIRST, turn.now), Ok(Decision::Same));
                prop_assert_eq!(decide(&step.status, &other, FIRST, turn.now), Ok(Decision::Same));
            }
        }
    }

    #[test]
    fn a_requested_cancel_leads_to_cancelled_and_nowhere_else(turns in turns()) {
        let mut asked: Option<Failure> = None;
        for (turn, step) in steps(&turns) {
            if let (None, Op::Cancel(failure)) = (&asked, &turn.op) {
                asked = Some(failure.clone());
            }
            let Some(asked) = &asked else { continue };
            let cancelled = matches!(step.status.state, State::Cancelled(_));
            prop_assert!(cancelled || step.status.state.leased().is_some(), "{:?}", turn);
            prop_assert_eq!(step.status.state.error(), cancelled.then_some(asked));
            prop_assert_eq!((&step.past, &step.params), (&None, &None));
        }
    }

    #[test]
    fn nothing_but_a_cancel_cancels(turns in turns()) {
        let mut asked = false;
        for (turn, step) in steps(&turns) {
            asked |= matches!(turn.op, Op::Cancel(_) | Op::DependencyFailed(_, true));
            prop_assert!(asked || !matches!(step.status.state, State::Cancelled(_)));
        }
    }

    #[test]
    fn a_follow_up_is_made_exactly_at_an_end_that_is_no_cancel(turns in turns()) {
        let mut noted: Option<Json> = None;
        for (turn, step) in steps(&turns) {
            match &turn.op {
                Op::Again(params) => noted = Some(params.clone()),
                Op::Cancel(_) | Op::DependencyFailed(_, true) => noted = None,
                _ => {}
            }
            let ends = step.status.state.is_terminal();
            let due = noted.clone().filter(|_| ends);
            prop_assert_eq!(step.follow_up.as_ref().map(|again| again.params.clone()), due);
            let kept = step.status.again.as_ref().map(|again| again.params.clone());
            prop_assert_eq!(kept, noted.clone().filter(|_| !ends));
        }
    }

    #[test]
    fn a_follow_up_asked_for_changes_nothing_else(turns in turns()) {
        for (turn, step) in steps(&turns).filter(|(turn, _)| matches!(turn.op, Op::Again(_))) {
            let JobStatus { rev, updated_at, again, .. } = step.status.clone();
            prop_assert_eq!(&step.status, &JobStatus { rev, updated_at, again, ..turn.before.clone() });
            prop_assert_eq!(step.reason, Reason::AgainAsked);
        }
    }

    #[test]
    fn only_a_blocked_job_is_released(turns in turns()) {
        for turn in turns.iter().filter(|turn| turn.op == Op::KeyFreed) {
            let behind = match turn.before.state {
                State::Blocked(blocked) if blocked.holder.is_some() => Some(blocked),
                _ => None,
            };
            prop_assert_eq!(turn.reason(), behind.map(|_| Reason::KeyFreed));
            let illegal = matches!(turn.answer, Err(IllegalTransition::Illegal { .. }));
            prop_assert_eq!(illegal, behind.is_none());
            let left = behind.map(|blocked| match blocked.dependencies {
                true => State::Blocked(Blocked { holder: None, ..blocked }),
                false => State::Queued(None),
            });
            prop_assert_eq!(turn.step().map(|step| step.status.state.clone()), left);
        }
    }
}

#[test]
fn a_job_is_cancelled_from_every_state_before_its_end() {
    for (name, status) in lives().into_iter().filter(|(_, status)| !status.state.is_terminal()) {
        let step = step(&status, &cancel());
        if status.state.leased().is_none() {
            assert_eq!((state_of(&step.status), step.reason), ("cancelled", Reason::Cancelled), "{name}");
            let State::Cancelled(defeat) = &step.status.state else { panic!("not cancelled") };
            assert_eq!((defeat.outcome, &defeat.last), (Outcome::Cancelled, &None));
            assert_eq!(defeat.failure, failure("stop"));
        } else {
            assert_eq!((state_of(&step.status), step.reason), (name, Reason::CancelRequested));
            let held = step.status.state.leased().expect("still held");
            assert_eq!(held.stop.as_ref().map(|cancel| &cancel.failure), Some(&failure("stop")));
            assert_eq!(Some(&held.lease), status.state.lease());
        }
    }
}

#[test]
fn any_outcome_after_a_requested_cancel_is_cancelled() {
    let skipped = Op::Report(Report::Skipped(Json::null()));
    let snoozed = failed(Some(When::Snooze(1)));
    for (name, status) in cancelling_lives() {
        for op in [passed(), skipped.clone(), failed(None), snoozed.clone(), Op::Report(Report::Cancelled)] {
            let step = step(&status, &op);
            assert_eq!((state_of(&step.status), step.reason), ("cancelled", Reason::Cancelled), "{name}");
            let State::Cancelled(defeat) = &step.status.state else { panic!("not cancelled") };
            assert_eq!((defeat.outcome, &defeat.failure), (Outcome::Cancelled, &failure("stop")));
            let last = defeat.last.as_ref().expect("the worker that stopped");
            assert!(last.accepted_at.is_some());
            assert_eq!(step.status.attempt, 1);
        }
    }
}

#[test]
fn a_worker_that_vanishes_or_never_accepts_leaves_a_cancelled_job_cancelled() {
    for said in [Op::Accept, Op::Progress] {
        let status = next(&fresh(), &[Op::Claim, said, cancel()]);
        let step = step(&status, &Op::LeaseEnd);
        let State::Cancelled(defeat) = &step.status.state else { panic!("not cancelled") };
        assert_eq!((defeat.outcome, &defeat.failure), (Outcome::Lost, &failure("stop")));
        assert_eq!((defeat.last.as_ref(), step.status.lost), (status.state.lease(), 0));
    }
    for end in [Op::TakeBack, Op::LeaseEnd] {
        let step = step(&next(&fresh(), &[Op::Claim, cancel()]), &end);
        let State::Cancelled(defeat) = &step.status.state else { panic!("not cancelled") };
        assert_eq!((defeat.outcome, &defeat.last), (Outcome::Cancelled, &None));
        assert_eq!((step.status.unaccepted, step.reason), (0, Reason::Cancelled));
    }
}

#[test]
fn a_worker_says_cancelled_only_when_asked() {
    let status = next(&fresh(), &[Op::Claim, Op::Accept]);
    let answer = decide(&status, &Op::Report(Report::Cancelled), FIRST, at(NOW_MS));
    assert_eq!(answer, Err(IllegalTransition::NotRequested));
}

#[test]
fn the_latest_follow_up_is_the_one_that_is_made() {
    let noted = next(&fresh(), &[Op::Again(Json::trusted("1")), Op::Claim, again()]);
    let step = step(&noted, &passed());
    assert_eq!(step.follow_up.map(|again| again.params), Some(Json::trusted("7")));
    assert_eq!(step.status.again, None);
}

#[test]
fn a_cancel_drops_the_follow_up_and_no_new_one_is_taken() {
    let waiting = step(&next(&fresh(), &[again()]), &cancel());
    assert_eq!((waiting.follow_up, waiting.status.again), (None, None));
    let held = next(&fresh(), &[again(), Op::Claim, cancel()]);
    assert_eq!(held.again, None);
    assert!(matches!(decide(&held, &again(), FIRST, at(NOW_MS)), Err(IllegalTransition::Illegal { .. })));
    assert_eq!(step(&held, &passed()).follow_up, None);
}
