//! A job that runs at most once: nothing leads from an accepted attempt back to the queue.

use jobhall_core::{
    Decision, Failure, JobStatus, LeaseId, Outcome, Reason, Report, RetryPolicy, State, Step, Verdict, When,
    WorkerName, transition,
};
use proptest::prelude::{ProptestConfig, prop_assert, proptest};

use crate::ride::turns;
use crate::support::{
    Card, Op, at, cancel, crashed, failed, failure, fresh, passed, policy, started, time_out, told,
};

/// A step of such a job, by the holder of its claim.
fn step(status: &JobStatus, op: &Op) -> Step {
    let claim = if *op == Op::Claim { status.claim + 1 } else { status.claim };
    let card = Card { claim, lease: LeaseId(u128::from(claim)) };
    let retry = policy().at_most_once();
    match transition(status, &op.event(card, &retry), at(3_000_000)) {
        Ok(Decision::Step(step)) => *step,
        other => panic!("{op:?} makes no step: {other:?}"),
    }
}

fn after(ops: &[Op]) -> JobStatus {
    ops.iter().fold(fresh(), |status, op| step(&status, op).status)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_second_attempt_of_a_job_that_runs_at_most_once(turns in turns()) {
        for turn in turns.iter().filter(|turn| turn.policy.at_most_once) {
            let Some(step) = turn.step() else { continue };
            prop_assert!(step.status.attempt <= 1, "{turn:?}");
            prop_assert!(turn.op != Op::Claim || turn.before.attempt == 0, "claimed after an attempt: {turn:?}");
            prop_assert!(step.past.is_none(), "an attempt led back to the queue: {turn:?}");
        }
    }
}

#[test]
fn a_lost_attempt_crashes_the_job() {
    for begin in [&[Op::Accept][..], &[Op::Progress], &[Op::Accept, Op::Progress], &[Op::Wait]] {
        let held = begin.iter().fold(after(&[Op::Claim]), |status, op| step(&status, op).status);
        let end = step(&held, &Op::LeaseEnd);
        assert_eq!((end.reason, end.status.lost, end.status.attempt), (Reason::LostAtMostOnce, 1, 1));
        let State::Crashed(defeat) = &end.status.state else { panic!("{begin:?}: {:?}", end.status) };
        let words = "the session of worker w1 has ended; whether the work was done is not known, and the job runs at \
                     most once";
        let failure = Failure::lost("at_most_once", words, &WorkerName::new("w1").unwrap());
        assert_eq!((defeat.outcome, &defeat.failure), (Outcome::Lost, &failure), "{begin:?}");
    }
}

#[test]
fn before_the_accept_it_goes_to_another_worker() {
    let mut status = fresh();
    for (claim, back) in [Op::TakeBack, Op::LeaseEnd, Op::TakeBack].into_iter().enumerate() {
        let taken = step(&step(&status, &Op::Claim).status, &back);
        assert_eq!((taken.reason, taken.status.attempt), (Reason::TakenBack, 0), "claim {claim}");
        status = taken.status;
    }
    assert_eq!(status.state, State::Queued(None));
}

#[test]
fn no_verdict_and_no_policy_gives_it_another_attempt() {
    let running = after(&[Op::Claim, Op::Accept, Op::Progress]);
    let whens = [None, Some(When::Now), Some(When::In(5)), Some(When::Snooze(5)), Some(When::Never)];
    for when in whens {
        let end = step(&running, &failed(when));
        assert_eq!(
            (end.reason, end.status.state.name().as_str()),
            (Reason::NotRetried, "failed"),
            "{when:?}"
        );
        assert_eq!(end.status.state.error(), Some(&failure("no")), "the outcome is the reported one");
        assert_eq!(step(&running, &crashed(when)).status.state.name().as_str(), "crashed", "{when:?}");
    }
    let outside = step(&after(&[Op::Claim, Op::Accept]), &started()).status;
    let verdict = Some(Verdict { when: When::Snooze(5), params: None });
    let end = step(&outside, &told(Report::Failed(failure("no"), verdict)));
    assert_eq!(end.status.state.name().as_str(), "failed");
    assert_eq!(step(&outside, &time_out(true)).status.state.name().as_str(), "crashed");
    let stopped = step(&running, &time_out(false)).status;
    assert_eq!(step(&stopped, &time_out(true)).status.state.name().as_str(), "crashed");
}

#[test]
fn a_success_and_a_cancel_end_it_as_any_job() {
    let running = after(&[Op::Claim, Op::Accept]);
    assert_eq!(step(&running, &passed()).status.state.name().as_str(), "succeeded");
    let stopping = step(&running, &cancel()).status;
    let lost = step(&stopping, &Op::LeaseEnd).status;
    assert_eq!((lost.state.name().as_str(), lost.state.outcome()), ("cancelled", Some(Outcome::Lost)));
}

#[test]
fn the_policy_of_a_job_that_runs_at_most_once_keeps_its_other_values() {
    let once = policy().at_most_once();
    assert_eq!(once, RetryPolicy { max_attempts: 1, at_most_once: true, ..policy() });
}
