//! The times of an attempt, and when a job is due.

use jobhall_core::{Decision, IllegalTransition, JobStatus, Lease, Outcome, State};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use crate::ride::{steps, turns};
use crate::support::{BEGIN_MS, FIRST, Op, after, at, cancel, decide, fresh, passed};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_claim_before_its_time(turns in turns()) {
        for turn in turns.iter().filter(|turn| turn.op == Op::Claim) {
            let queued = matches!(turn.before.state, State::Queued(_));
            let due = turn.before.run_at <= turn.now;
            prop_assert_eq!(turn.step().is_some(), queued && due && !turn.before.hold);
            prop_assert_eq!(turn.answer == Err(IllegalTransition::OnHold), queued && due && turn.before.hold);
            let not_due = turn.answer == Err(IllegalTransition::NotDue(turn.before.run_at));
            prop_assert_eq!(not_due, queued && !due);
        }
    }

    #[test]
    fn an_attempt_keeps_its_moments_in_order(turns in turns()) {
        for (_, step) in steps(&turns) {
            let Some(lease) = step.status.state.lease() else { continue };
            let moments = [Some(lease.assigned_at), lease.accepted_at, lease.started_at];
            let moments: Vec<_> = moments.into_iter().flatten().collect();
            prop_assert!(moments.is_sorted(), "{moments:?}");
            prop_assert!(lease.started_at.is_none() || lease.accepted_at.is_some());
            prop_assert!(moments.iter().all(|moment| *moment <= step.status.updated_at));
        }
    }

    #[test]
    fn an_attempt_with_an_outcome_of_its_own_has_a_start(turns in turns()) {
        for (_, step) in steps(&turns) {
            let by_report = |outcome| outcome != Outcome::Lost;
            if let Some(past) = step.past.as_ref().filter(|past| by_report(past.outcome)) {
                prop_assert!(past.started_at.is_some(), "{past:?}");
            }
            let ended = step.status.state.outcome().filter(|outcome| by_report(*outcome));
            if let (Some(lease), Some(_)) = (step.status.state.lease(), ended) {
                prop_assert!(lease.started_at.is_some(), "{lease:?}");
            }
        }
    }

    #[test]
    fn an_end_is_dated_by_the_step_that_made_it(turns in turns()) {
        for (_, step) in steps(&turns) {
            let ended_at = step.status.state.ended_at();
            let terminal = step.status.state.is_terminal();
            prop_assert_eq!(ended_at, terminal.then_some(step.status.updated_at));
        }
    }
}

fn lease(status: &JobStatus) -> &Lease {
    status.state.lease().expect("a held or completed job")
}

#[test]
fn each_phase_is_dated_when_it_begins() {
    let moment = |n: i64| at(BEGIN_MS + n);
    let assigned = after(&fresh(), &[Op::Claim]);
    assert_eq!(lease(&assigned).assigned_at, moment(1));
    assert_eq!((lease(&assigned).accepted_at, lease(&assigned).started_at), (None, None));
    let accepted = after(&assigned, &[Op::Accept]);
    assert_eq!((lease(&accepted).accepted_at, lease(&accepted).started_at), (Some(moment(2)), None));
    let running = after(&accepted, &[Op::Progress]);
    assert_eq!(lease(&running).started_at, Some(moment(3)));
    let cancelling = after(&running, &[cancel()]);
    let request = cancelling.state.leased().and_then(|held| held.stop.clone()).expect("a request");
    assert_eq!(request.at, moment(4));
    let running_at_once = after(&assigned, &[Op::Progress]);
    assert_eq!(
        lease(&running_at_once).started_at,
        Some(moment(1)),
        "an unreported accept is as old as the claim"
    );
    let unreported = after(&accepted, &[passed()]);
    assert_eq!(lease(&unreported).started_at, Some(moment(2)), "an unreported start is as old as the accept");
    let succeeded = after(&running, &[passed()]);
    assert_eq!(lease(&succeeded), lease(&running));
    assert_eq!(succeeded.state.ended_at(), Some(moment(4)));
    let at_once = after(&assigned, &[passed()]);
    assert_eq!((lease(&at_once).accepted_at, lease(&at_once).started_at), (Some(moment(1)), Some(moment(1))));
}

#[test]
fn a_job_starts_at_its_time_and_not_a_millisecond_before() {
    let status = JobStatus::queued(at(10), at(500));
    assert_eq!(decide(&status, &Op::Claim, FIRST, at(499)), Err(IllegalTransition::NotDue(at(500))));
    assert!(matches!(decide(&status, &Op::Claim, FIRST, at(500)), Ok(Decision::Step(_))));
}
