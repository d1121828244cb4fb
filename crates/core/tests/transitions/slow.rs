//! Timeouts, and time that does not count because the attempt waits for others.

use jobhall_core::{Decision, JobStatus, Outcome, Reason, State, StopWhy, Time};
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

use crate::retries::{next, state_of, step};
use crate::ride::{steps, turns};
use crate::support::{
    BEGIN_MS, Card, FIRST, Op, at, cancel, crashed, decide, failed, failure, fresh, passed, time_out,
};

/// How long the attempt has worked at this time, according to its stored fields.
fn worked_ms(status: &JobStatus, now: Time) -> u64 {
    let State::Waiting(waiting) = &status.state else {
        let lease = status.state.lease().expect("a held job");
        let accepted_at = lease.accepted_at.expect("an accepted one");
        return now.since(accepted_at) - lease.waited_ms;
    };
    let lease = &waiting.held.lease;
    waiting.since.since(lease.accepted_at.expect("an accepted one")) - lease.waited_ms
}

fn moved(status: &JobStatus, op: &Op, now: Time) -> JobStatus {
    let card = Card { claim: status.claim, ..FIRST };
    match decide(status, op, card, now) {
        Ok(Decision::Step(step)) => step.status,
        other => panic!("{op:?} makes no step: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn h12_waited_time_does_not_count(spans in proptest::collection::vec((1u64..9_000, 1u64..9_000), 1..8)) {
        let mut status = next(&fresh(), &[Op::Claim, Op::Progress]);
        let mut now = status.updated_at;
        let mut worked = worked_ms(&status, now);
        for (work, wait) in spans {
            (now, worked) = (now.plus_ms(work), worked + work);
            status = moved(&status, &Op::Wait, now);
            prop_assert_eq!(worked_ms(&status, now.plus_ms(wait / 2)), worked);
            now = now.plus_ms(wait);
            status = moved(&status, &Op::Resume, now);
            prop_assert_eq!(worked_ms(&status, now), worked);
        }
    }

    #[test]
    fn waited_time_never_falls_within_an_attempt_and_begins_anew_with_the_next(turns in turns()) {
        let waited = |status: &JobStatus| status.state.lease().map(|lease| lease.waited_ms);
        for (turn, step) in steps(&turns) {
            match (waited(&turn.before), waited(&step.status)) {
                (Some(before), Some(after)) => prop_assert!(after >= before, "{:?}", turn),
                (None, Some(after)) => prop_assert_eq!(after, 0),
                _ => {}
            }
        }
    }

    #[test]
    fn h12_a_time_out_that_crosses_a_success_keeps_the_success(skipped in any::<bool>()) {
        let slow = next(&fresh(), &[Op::Claim, Op::Progress, time_out(false)]);
        let success = if skipped {
            Op::Report(jobhall_core::Report::Skipped(jobhall_core::Json::null()))
        } else {
            passed()
        };
        prop_assert_eq!(state_of(&next(&slow, &[success])), "succeeded");
    }

    #[test]
    fn a_cancel_goes_over_a_time_out_and_never_the_other_way(turns in turns()) {
        for (turn, step) in steps(&turns) {
            let stop = |status: &JobStatus| status.state.leased().and_then(|held| held.stop.as_ref()).map(|stop| stop.why);
            let (before, after) = (stop(&turn.before), stop(&step.status));
            if before == Some(StopWhy::Cancel) && after.is_some() {
                prop_assert_eq!(after, before, "{:?}", turn);
            }
            if before == Some(StopWhy::TimeOut) && matches!(turn.op, Op::Cancel(_)) {
                prop_assert_eq!(after, Some(StopWhy::Cancel));
            }
        }
    }
}

#[test]
fn h12_an_attempt_that_is_stopped_for_its_time_is_timed_out_and_tried_again() {
    let slow = next(&fresh(), &[Op::Claim, Op::Progress, time_out(false)]);
    let cancelled = Op::Report(jobhall_core::Report::Cancelled);
    for op in [failed(None), crashed(None), cancelled, time_out(true), crate::support::started()] {
        let step = step(&slow, &op);
        let past = step.past.expect("an ended attempt");
        assert_eq!((past.outcome, &past.failure), (Outcome::TimedOut, &failure("timed_out")), "{op:?}");
        assert_eq!((state_of(&step.status), step.reason), ("queued", Reason::Retried));
    }
    let last = JobStatus { attempt: 5, ..slow };
    let step = step(&last, &time_out(true));
    let State::Crashed(defeat) = &step.status.state else { panic!("not crashed") };
    assert_eq!((defeat.outcome, step.reason), (Outcome::TimedOut, Reason::Exhausted));
    let card = Card { claim: step.status.claim, ..FIRST };
    assert_eq!(decide(&step.status, &failed(None), card, at(BEGIN_MS)), Ok(Decision::Same), "its late word");
    assert!(decide(&step.status, &passed(), card, at(BEGIN_MS)).is_err(), "but no late success");
}

#[test]
fn a_worker_has_its_grace_before_it_is_given_up() {
    let running = next(&fresh(), &[Op::Claim, Op::Progress]);
    for forced in [false, true] {
        let step = step(&running, &time_out(forced));
        assert_eq!((state_of(&step.status), step.reason), ("running", Reason::TimeOutRequested));
    }
}

#[test]
fn nothing_times_out_while_it_waits_for_jobs() {
    let waiting = next(&fresh(), &[Op::Claim, Op::Wait]);
    assert_eq!(decide(&waiting, &time_out(true), FIRST, at(i64::from(u32::MAX))), Ok(Decision::Same));
}

#[test]
fn an_outcome_that_nobody_tells_in_time_is_a_time_out() {
    let until = BEGIN_MS + 500;
    let waiting = next(&fresh(), &[Op::Claim, Op::StartedExternal(until)]);
    assert_eq!(decide(&waiting, &time_out(false), FIRST, at(until - 1)), Ok(Decision::Same));
    let Ok(Decision::Step(step)) = decide(&waiting, &time_out(false), FIRST, at(until)) else {
        panic!("no time-out")
    };
    assert_eq!(step.past.map(|past| past.outcome), Some(Outcome::TimedOut));
}

#[test]
fn a_cancel_of_an_attempt_that_is_stopped_for_its_time_ends_it_cancelled() {
    let both = next(&fresh(), &[Op::Claim, Op::Progress, time_out(false), cancel()]);
    assert_eq!(state_of(&next(&both, &[failed(None)])), "cancelled");
}
