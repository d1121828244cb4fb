//! Derived properties of a job: the error, the derived names, and the four states of the original queue.

use jobhall_core::{JobStatus, State, StateName, WaitFor};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use crate::retries::next;
use crate::ride::{Turn, steps, turns};
use crate::support::{LATER_MS, NOW_MS, Op, at, failed, fresh, lives};

/// The four states of a job in the original queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Initial,
    Running,
    Error,
    Final,
}

/// An offer that was not accepted does not change the state: initial at first, in error between attempts.
fn origin(status: &JobStatus) -> Origin {
    match status.state {
        State::Queued(_) | State::Blocked(_) | State::Assigned(_) if status.attempt == 0 => Origin::Initial,
        State::Queued(_) | State::Blocked(_) | State::Assigned(_) => Origin::Error,
        State::Accepted(_) | State::Running(_) | State::Waiting(_) => Origin::Running,
        _ => Origin::Final,
    }
}

/// The original states that a step passes: a report on an offered job implies that it ran.
fn path(turn: &Turn, status: &JobStatus) -> Vec<Origin> {
    let mut path = vec![origin(&turn.before)];
    if status.attempt > turn.before.attempt {
        path.push(Origin::Running);
    }
    path.push(origin(status));
    path.dedup();
    path
}

fn allowed(from: Origin, to: Origin) -> bool {
    matches!(
        (from, to),
        (Origin::Initial, Origin::Running)
            | (Origin::Running, Origin::Error | Origin::Final)
            | (Origin::Error, Origin::Running | Origin::Final)
    )
}

/// The ends of a job that never ran: a cancel, a failed dependency, and ten consecutive offers that were not
/// accepted.
fn deviates(turn: &Turn, status: &JobStatus) -> bool {
    let given_up =
        matches!(turn.op, Op::TakeBack | Op::LeaseEnd) && matches!(status.state, State::Crashed(_));
    matches!(status.state, State::Cancelled(_)) || given_up || matches!(turn.op, Op::DependencyFailed(..))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn h02_h03_every_step_is_a_move_of_the_origin(turns in turns()) {
        for (turn, step) in steps(&turns) {
            let path = path(turn, &step.status);
            let unstarted_end = path == [Origin::Initial, Origin::Final];
            prop_assert!(!unstarted_end || deviates(turn, &step.status), "{:?}", turn);
            let moves = path.windows(2).all(|pair| allowed(pair[0], pair[1]));
            prop_assert!(moves || unstarted_end, "{path:?} by {:?}", turn);
        }
    }

    #[test]
    fn h04_error_is_set_between_attempts_and_at_bad_ends_only(turns in turns()) {
        for (_, step) in steps(&turns) {
            let status = &step.status;
            let expected = match status.state {
                State::Queued(_) => status.attempt > 0,
                State::Failed(_) | State::Crashed(_) | State::Cancelled(_) => true,
                _ => false,
            };
            prop_assert_eq!(status.state.error().is_some(), expected, "{:?}", status);
        }
    }

    #[test]
    fn a_job_is_held_by_at_most_one_worker_and_only_where_it_can_be(turns in turns()) {
        for (_, step) in steps(&turns) {
            let state = &step.status.state;
            let held = match state {
                State::Assigned(_) | State::Accepted(_) | State::Running(_) => true,
                State::Waiting(waiting) => waiting.on == WaitFor::Jobs,
                _ => false,
            };
            prop_assert_eq!(state.leased().is_some(), held);
            prop_assert_eq!(state.is_terminal(), state.name().is_terminal());
            prop_assert!(!(held && state.is_terminal()));
        }
    }
}

#[test]
fn h02_every_state_is_one_of_the_origins_four() {
    let views: Vec<_> = lives().iter().map(|(_, status)| origin(status)).collect();
    use Origin::{Error, Final, Initial, Running};
    assert_eq!(views[..8], [Initial, Initial, Initial, Initial, Running, Running, Running, Error]);
    assert_eq!(views[8..], [Final; 4]);
    assert_eq!(views.len(), StateName::ALL.len());
}

#[test]
fn scheduled_and_retrying_are_views_of_queued() {
    let scheduled = JobStatus::queued(at(0), at(LATER_MS));
    assert_eq!(scheduled.name(at(NOW_MS)), StateName::Scheduled);
    assert_eq!(scheduled.name(at(LATER_MS - 1)), StateName::Scheduled);
    assert_eq!(scheduled.name(at(LATER_MS)), StateName::Queued);
    let retrying = next(&fresh(), &[Op::Claim, Op::Accept, failed(None)]);
    assert_eq!(retrying.state.name(), StateName::Queued);
    for moment in [at(0), retrying.run_at, at(LATER_MS)] {
        assert_eq!(retrying.name(moment), StateName::Retrying);
    }
    let blocked = JobStatus::behind(at(0), at(LATER_MS), jobhall_core::JobId::new(1).expect("an id"));
    assert_eq!(blocked.name(at(0)), StateName::Blocked);
}
