//! The guard of the reference store: it accepts every real step and catches each planted violation.

use jobhall_core::{Failure, JobStatus, State, guard};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use crate::retries::next;
use crate::ride::{steps, turns};
use crate::support::{Op, fresh, lives, passed};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn g1_every_real_step_passes_and_no_end_is_replaced(turns in turns()) {
        for (turn, step) in steps(&turns) {
            prop_assert_eq!(guard(&turn.before, &step.status), Ok(()));
            prop_assert!(guard(&step.status, &turn.before).is_err());
            if step.status.state.is_terminal() {
                let later = JobStatus { rev: step.status.rev + 1, updated_at: step.status.updated_at.plus_ms(1), ..step.status.clone() };
                prop_assert_eq!(guard(&step.status, &later), Err("a completed job never changes"));
            }
        }
    }
}

/// A retrying job with non-zero counters, and its next claim.
fn step() -> (JobStatus, JobStatus) {
    let lost = next(&fresh(), &[Op::Claim, Op::Accept, Op::LeaseEnd]);
    let old = JobStatus { lost: 1, snoozed: 1, attempt: 2, claim: 2, ..lost };
    let new = next(&old, &[Op::Claim]);
    (old, new)
}

#[track_caller]
fn caught(rule: &str, plant: impl Fn(&JobStatus, &mut JobStatus)) {
    let (old, mut new) = step();
    assert_eq!(guard(&old, &new), Ok(()));
    plant(&old, &mut new);
    assert_eq!(guard(&old, &new), Err(rule));
}

#[test]
fn each_planted_violation_is_caught_by_its_rule() {
    caught("rev rises at every transition", |old, new| new.rev = old.rev);
    caught("rev rises at every transition", |old, new| new.rev = old.rev - 1);
    caught("updated_at rises at every transition", |old, new| new.updated_at = old.updated_at);
    caught("updated_at rises at every transition", |old, new| new.updated_at = old.updated_at.minus_ms(1));
    caught("claim rises by one", |old, new| new.claim = old.claim - 1);
    caught("claim rises by one", |old, new| new.claim = old.claim + 2);
    caught("attempt rises by one", |old, new| new.attempt = old.attempt - 1);
    caught("attempt rises by one", |old, new| new.attempt = old.attempt + 2);
    caught("counters do not fall", |_, new| new.lost = 0);
    caught("counters do not fall", |_, new| new.snoozed = 0);
    caught("a claim leaves the job held", |_, new| {
        new.state = State::Queued(Some(Box::new(Failure::new("x", ""))));
    });
}

#[test]
fn an_attempt_without_a_claim_is_caught() {
    let old = fresh();
    let new = JobStatus { rev: 2, attempt: 1, updated_at: old.updated_at.plus_ms(1), ..old.clone() };
    assert_eq!(guard(&old, &new), Err("an attempt needs a claim"));
    let claimed = next(&old, &[Op::Claim]);
    assert_eq!(guard(&old, &JobStatus { attempt: 1, ..claimed }), Ok(()));
}

#[test]
fn g1_no_completed_life_is_replaced() {
    for (name, old) in lives().into_iter().filter(|(_, status)| status.state.is_terminal()) {
        let new = JobStatus { rev: old.rev + 1, updated_at: old.updated_at.plus_ms(1), ..old.clone() };
        assert_eq!(guard(&old, &new), Err("a completed job never changes"), "{name}");
    }
    let held = next(&fresh(), &[Op::Claim]);
    assert_eq!(guard(&held, &next(&held, &[passed()])), Ok(()));
}
