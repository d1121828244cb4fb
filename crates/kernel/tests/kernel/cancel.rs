//! Cancel in every state, and manual retry.

use crate::rig::{Hall, failed, job, keyed, passed, tries};
use jobhall_core::{Failure, IllegalTransition, JobId, NewJob, Outcome, Report, State, StateName};
use jobhall_kernel::{Answer, Effect, Rejected, Request, Submit};

fn cancelled() -> Result<Answer, Rejected> {
    Ok(Answer::State(StateName::Cancelled))
}

#[test]
fn g5_a_waiting_job_never_starts_after_its_cancel_and_cancel_is_idempotent() {
    let mut hall = Hall::new();
    let queued = hall.submit(job("t")).unwrap().id;
    let later = NewJob { run_at: Some(hall.now.wall.plus_ms(50_000)), ..job("t") };
    let scheduled = hall.submit(later).unwrap().id;
    let retrying = hall.submit(NewJob { priority: 1, retry: tries(2), ..job("t") }).unwrap().id;
    let held = hall.take_one("w");
    assert_eq!(held.attempt.job, retrying);
    hall.report("w", &held, failed("x")).unwrap();
    for id in [queued, scheduled, retrying] {
        assert_eq!(hall.cancel(id), cancelled());
        assert_eq!(hall.cancel(id), cancelled(), "again");
    }
    let session = hall.worker("w2", "");
    hall.vacancy(session, 10);
    hall.pass(29_000);
    hall.vacancy(session, 10);
    hall.pass(29_000);
    assert!(hall.assignments().is_empty());
    let shown = hall.show(queued).job;
    assert_eq!(
        (shown.status.attempt, shown.status.state.error().unwrap().explanation.as_str()),
        (0, "by hand")
    );
}

#[test]
fn a_leased_job_is_cancelled_when_its_worker_confirms() {
    for report in [Report::Cancelled, passed(), failed("x")] {
        let mut hall = Hall::new();
        let id = hall.submit(job("t")).unwrap().id;
        let held = hall.take_one("w");
        hall.progress("w", &held).unwrap();
        assert_eq!(hall.cancel(id), Ok(Answer::State(StateName::Running)), "requested");
        assert!(hall.stored(id).status.state.leased().unwrap().is_cancelled(), "and stored");
        assert!(
            hall.effects.iter().any(|e| matches!(e, Effect::Cancel(_, attempt) if *attempt == held.attempt))
        );
        assert_eq!(hall.cancel(id), Ok(Answer::State(StateName::Running)), "again");
        assert_eq!(hall.report("w", &held, report), cancelled());
        assert_eq!(hall.cancel(id), cancelled());
    }
}

#[test]
fn a_leased_job_is_cancelled_when_its_lease_ends() {
    let mut hall = Hall::new();
    let (assigned, running) = (hall.submit(job("t")).unwrap().id, hall.submit(job("t")).unwrap().id);
    hall.take_one("w1");
    let held = hall.take_one("w2");
    hall.progress("w2", &held).unwrap();
    hall.cancel(assigned).unwrap();
    hall.cancel(running).unwrap();
    hall.pass(5_000);
    assert_eq!(hall.state(assigned), StateName::Cancelled, "nobody accepted");
    assert_eq!(hall.state(running), StateName::Running);
    hall.pass(25_000);
    assert_eq!(hall.state(running), StateName::Cancelled, "its worker was lost");
    assert!(
        matches!(&hall.stored(running).status.state, State::Cancelled(defeat) if defeat.outcome == Outcome::Lost)
    );
    assert_eq!(hall.report("w2", &held, passed()), Err(Rejected::LeaseLost(held.attempt)));
}

#[test]
fn g1_h07_a_completed_job_is_not_cancelled_any_more() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    let before = hall.stored(id);
    let refused = hall.cancel(id).unwrap_err();
    assert!(matches!(
        &refused,
        Rejected::Event(IllegalTransition::Illegal { state: StateName::Succeeded, .. })
    ));
    assert_eq!(refused.to_string(), "cancel does not apply to a job that is succeeded");
    assert_eq!(hall.stored(id), before);
}

#[test]
fn a_cancel_in_line_goes_before_a_vacancy() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    hall.hold = true;
    let ticket =
        hall.ask_later(Request::Submit { submit: Submit { jobs: vec![job("t")], ..Submit::default() } });
    hall.let_through();
    let Some(Ok(Answer::Submitted(submitted))) = hall.answers.remove(&ticket) else { panic!("no answer") };
    let id = submitted[0].id;
    hall.hold = true;
    let cancel = Request::Cancel { id, failure: Failure::new("cancelled", "") };
    let ticket = hall.ask_later(cancel);
    hall.ask_later(Request::Vacancy { session, slots: 1, wait_ms: 1_000 });
    hall.let_through();
    assert_eq!(hall.answers.remove(&ticket), Some(cancelled()));
    assert!(hall.assignments().is_empty());
}

#[test]
fn a_claim_under_way_wins_against_a_cancel_that_comes_later_and_is_then_told() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let session = hall.worker("w", "");
    hall.hold = true;
    hall.ask_later(Request::Vacancy { session, slots: 1, wait_ms: 1_000 });
    let ticket = hall.ask_later(Request::Cancel { id, failure: Failure::new("cancelled", "") });
    hall.let_through();
    assert_eq!(hall.answers.remove(&ticket), Some(Ok(Answer::State(StateName::Assigned))));
    let kinds: Vec<_> = hall.effects.iter().map(std::mem::discriminant).collect();
    let assign = hall.effects.iter().position(|e| matches!(e, Effect::Assign(..))).unwrap();
    let cancel = hall.effects.iter().position(|e| matches!(e, Effect::Cancel(..))).unwrap();
    assert!(assign < cancel, "{kinds:?}");
}

#[test]
fn manual_retry_makes_a_new_job_and_leaves_the_old_one_alone() {
    let mut hall = Hall::new();
    let wanted = NewJob { priority: 7, retry: tries(1), ..keyed("t", "k") };
    let old = hall.submit(wanted).unwrap().id;
    let held = hall.take_one("w");
    assert!(matches!(
        hall.ask(Request::Retry { id: old, name: None }),
        Err(Rejected::Event(IllegalTransition::NotCompleted { .. }))
    ));
    hall.report("w", &held, failed("x")).unwrap();
    let before = hall.stored(old);
    let Ok(Answer::Submitted(submitted)) = hall.ask(Request::Retry { id: old, name: None }) else {
        panic!("not made")
    };
    let new = hall.show(submitted[0].id).job;
    assert_eq!((new.spec.retry_of, new.spec.priority, new.status.attempt), (Some(old), 7, 0));
    assert_eq!((&new.spec.key, &new.spec.job_type), (&before.spec.key, &before.spec.job_type));
    assert_eq!(hall.stored(old), before);
    assert!(
        matches!(hall.ask(Request::Retry { id: old, name: None }), Err(Rejected::KeyHeld { holder, .. }) if holder == new.id)
    );
}

#[test]
fn unknown_jobs_are_named() {
    let mut hall = Hall::new();
    let id = JobId::new(999).unwrap();
    let failure = Failure::new("x", "");
    for request in [
        Request::Show { id },
        Request::Explain { id },
        Request::Retry { id, name: None },
        Request::Cancel { id, failure },
    ] {
        let refused = hall.ask(request).unwrap_err();
        assert_eq!(refused.to_string(), "there is no job 999");
    }
}
