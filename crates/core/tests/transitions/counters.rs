//! The effect of each step on the counters and times of a job.

use std::collections::BTreeSet;
use std::sync::Arc;

use jobhall_core::{Job, JobId, JobSpec, JobStatus, Leased, Outcome, QueueName, Reason, State, TypeName};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use crate::ride::{Turn, steps, turns};
use crate::support::{Op, after, at, failed, fresh, passed};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn g1_h07_a_completed_job_never_changes(turns in turns()) {
        let mut ended: Option<JobStatus> = None;
        for turn in &turns {
            if let Some(status) = &ended {
                prop_assert_eq!(&turn.before, status);
                prop_assert!(turn.step().is_none(), "{:?} moves a completed job", turn.op);
            } else if turn.step().is_some_and(|step| step.status.state.is_terminal()) {
                ended = turn.step().map(|step| step.status.clone());
            }
        }
    }

    #[test]
    fn every_step_raises_rev_by_one(turns in turns()) {
        for (turn, step) in steps(&turns) {
            prop_assert_eq!(step.status.rev, turn.before.rev + 1);
        }
    }

    #[test]
    fn h08_updated_at_rises_at_every_step_and_created_at_stays(turns in turns()) {
        let mut job = job(turns[0].before.clone());
        for (turn, step) in steps(&turns) {
            let updated_at = step.status.updated_at;
            prop_assert!(updated_at > turn.before.updated_at);
            prop_assert_eq!(updated_at, turn.now.max(turn.before.updated_at.plus_ms(1)));
            job.status = step.status.clone();
            prop_assert_eq!(job.spec.created_at, at(5));
        }
    }

    #[test]
    fn claim_rises_by_one_exactly_when_claimed(turns in turns()) {
        for (turn, step) in steps(&turns) {
            let claimed = u32::from(turn.op == Op::Claim);
            prop_assert_eq!(step.status.claim, turn.before.claim + claimed);
            prop_assert_eq!(step.reason == Reason::Claimed, turn.op == Op::Claim);
        }
    }

    #[test]
    fn h05_g3_attempt_grows_by_one_with_each_accepted_claim(turns in turns()) {
        let mut counted = BTreeSet::new();
        for (turn, step) in steps(&turns) {
            let counts = counts(turn);
            prop_assert_eq!(step.status.attempt, turn.before.attempt + u32::from(counts), "{:?}", turn);
            prop_assert!(!counts || counted.insert(turn.before.claim), "counted twice: {:?}", turn);
        }
    }

    #[test]
    fn lost_snoozed_and_unaccepted_count_what_they_say(turns in turns()) {
        for (turn, step) in steps(&turns) {
            let (old, new) = (&turn.before, &step.status);
            let is = |reasons: &[Reason]| u16::from(reasons.contains(&step.reason));
            prop_assert_eq!(new.lost, old.lost + is(&LOST));
            prop_assert_eq!(new.snoozed, old.snoozed + u32::from(is(&[Reason::Snoozed])));
            let unaccepted = if counts(turn) {
                0
            } else {
                old.unaccepted + is(&[Reason::TakenBack, Reason::Unaccepted])
            };
            prop_assert_eq!(new.unaccepted, unaccepted);
        }
    }

    #[test]
    fn tries_never_exceed_max_attempts(turns in turns()) {
        for (turn, step) in steps(&turns) {
            prop_assert!(step.status.tries() <= u32::from(turn.policy.max_attempts));
        }
    }

    #[test]
    fn a_past_attempt_is_kept_exactly_when_an_attempt_leads_back_to_the_queue(turns in turns()) {
        for (turn, step) in steps(&turns) {
            let back = had(&turn.before).is_some() && matches!(step.status.state, State::Queued(_));
            let assigned = matches!(turn.before.state, State::Assigned(_));
            let taken_back = assigned && matches!(turn.op, Op::TakeBack | Op::LeaseEnd);
            prop_assert_eq!(step.past.is_some(), back && !taken_back, "{:?}", turn);
            let (Some(past), Some(held)) = (&step.past, had(&turn.before)) else { continue };
            prop_assert_eq!(past.claim, turn.before.claim);
            prop_assert_eq!((past.lease, &past.worker), (held.lease.id, &held.lease.worker));
            prop_assert_eq!(past.assigned_at, held.lease.assigned_at);
            // A start that was not reported is dated to the step before it, unless the attempt was lost: then nobody
            // knows whether it began.
            let begun = held.lease.accepted_at.unwrap_or(held.lease.assigned_at);
            let dated = (past.outcome != Outcome::Lost).then_some(begun);
            prop_assert_eq!(past.started_at, held.lease.started_at.or(dated));
            prop_assert_eq!(past.ended_at, step.status.updated_at);
            prop_assert!(!past.outcome.is_success());
            prop_assert_eq!(Some(&past.failure), step.status.state.error());
        }
    }

    #[test]
    fn every_attempt_is_in_the_history_or_the_current_or_last_one(turns in turns()) {
        let mut kept = 0;
        for (turn, step) in steps(&turns) {
            kept += u32::from(step.past.is_some());
            prop_assert_eq!(step.status.past_attempts(), kept, "{:?}", turn);
        }
    }
}

/// The reasons of steps that end an attempt because its worker was lost.
const LOST: [Reason; 3] = [Reason::Lost, Reason::TooManyLostLeases, Reason::LostAtMostOnce];

/// The lease of an active attempt, in any state.
fn had(status: &JobStatus) -> Option<&Leased> {
    match &status.state {
        State::Waiting(waiting) => Some(&waiting.held),
        state => state.leased(),
    }
}

/// Whether the step makes the claim a counted attempt: its worker confirms for the first time that it has the job, or
/// the worker is lost and a success was reported externally.
fn counts(turn: &Turn) -> bool {
    let State::Assigned(held) = &turn.before.state else { return false };
    let told = held.early.as_deref().is_some_and(|early| early.outcome().is_success());
    let cancelled = held.stop.is_some();
    turn.by_worker() || (told && !cancelled && matches!(turn.op, Op::TakeBack | Op::LeaseEnd))
}

fn job(status: JobStatus) -> Job {
    let (job_type, queue) = (TypeName::new("t").expect("a name"), QueueName::new("q").expect("a name"));
    let spec = JobSpec::plain(job_type, queue, at(5));
    Job { id: JobId::new(1).expect("an id"), spec: Arc::new(spec), status }
}

#[test]
fn h05_attempt_is_none_before_the_first_accept_and_three_at_the_third() {
    let mut status = fresh();
    let mut seen = vec![status.attempt];
    for _ in 0..3 {
        status.run_at = at(0);
        status = crate::retries::next(&status, &[Op::Claim]);
        seen.push(status.attempt);
        status = crate::retries::next(&status, &[Op::Accept]);
        seen.push(status.attempt);
        status = crate::retries::next(&status, &[failed(None)]);
    }
    assert_eq!(seen, [0, 0, 1, 1, 2, 2, 3]);
}

#[test]
fn states_skipped_forward_count_the_attempt_once() {
    for ops in [
        vec![Op::Claim, Op::Accept, Op::Progress, passed()],
        vec![Op::Claim, Op::Progress, passed()],
        vec![Op::Claim, Op::Accept, passed()],
        vec![Op::Claim, passed()],
    ] {
        let status = after(&fresh(), &ops);
        assert_eq!((status.claim, status.attempt), (1, 1), "{ops:?}");
    }
}
