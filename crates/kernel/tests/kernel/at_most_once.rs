//! Jobs that run at most once: the accept is stored before it is answered, and nothing starts them a second time.

use jobhall_core::{
    Failure, JobId, NewJob, OnDuplicate, Report, RetryError, RetryPolicy, StateName, Verdict, When,
};
use jobhall_kernel::{Answer, Assignment, AttemptRef, Config, Edit, Rejected, Request};

use crate::rig::{Hall, job, passed, worker};

fn once() -> NewJob {
    NewJob { retry: Some(RetryPolicy::named().at_most_once()), ..job("t") }
}

fn of(name: &str, assignment: &Assignment) -> AttemptRef {
    AttemptRef { worker: worker(name), attempt: assignment.attempt, lease: assignment.lease }
}

/// A hall with such a job that worker `w` was assigned.
fn assigned() -> (Hall, JobId, Assignment) {
    let mut hall = Hall::new();
    let id = hall.submit(once()).unwrap().id;
    let held = hall.take_one("w");
    (hall, id, held)
}

fn reason(hall: &mut Hall, id: JobId) -> String {
    hall.show(id).job.status.state.error().map_or_else(String::new, |error| error.reason.clone())
}

#[test]
fn the_accept_is_answered_after_it_is_stored_and_not_before() {
    for progress in [false, true] {
        let (mut hall, id, held) = assigned();
        hall.hold = true;
        let of = of("w", &held);
        let (request, expected) = if progress {
            (Request::Progress { of, indicators: Vec::new() }, StateName::Running)
        } else {
            (Request::Accept { of }, StateName::Accepted)
        };
        let ticket = hall.ask_later(request);
        assert_eq!(hall.answers.get(&ticket), None, "answered before the commit");
        assert_eq!(hall.stored(id).status.state.name(), StateName::Assigned);
        hall.hold = false;
        hall.let_through();
        assert_eq!(hall.answers.get(&ticket), Some(&Ok(Answer::State(expected))));
        assert_eq!(hall.stored(id).status.state.name(), expected, "durable when it was answered");
    }
}

#[test]
fn the_accept_of_another_job_is_answered_at_once() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    assert_eq!(hall.accept("w", &held), Ok(Answer::State(StateName::Accepted)));
    assert_eq!(hall.stored(id).status.state.name(), StateName::Assigned, "stored after a second");
}

#[test]
fn lost_after_the_accept_it_ends_crashed() {
    let (mut hall, id, held) = assigned();
    hall.accept("w", &held).unwrap();
    hall.pass(30_000);
    assert_eq!((hall.state(id), &*reason(&mut hall, id)), (StateName::Crashed, "at_most_once"));
    let status = hall.show(id).job.status;
    assert_eq!((status.attempt, status.lost), (1, 1));
    assert_eq!(hall.report("w", &held, passed()), Err(Rejected::LeaseLost(held.attempt)));
}

#[test]
fn a_worker_that_leaves_after_the_accept_ends_it_crashed() {
    let (mut hall, id, held) = assigned();
    hall.accept("w", &held).unwrap();
    hall.progress("w", &held).unwrap();
    let session = hall.sessions[0];
    hall.ask(Request::CloseSession { session }).unwrap();
    assert_eq!((hall.state(id), &*reason(&mut hall, id)), (StateName::Crashed, "at_most_once"));
}

#[test]
fn found_accepted_after_a_restart_it_ends_crashed_unless_its_worker_returns() {
    for returns in [true, false] {
        let (mut hall, id, held) = assigned();
        hall.accept("w", &held).unwrap();
        let mut hall = hall.restart(Config::default());
        assert_eq!(hall.state(id), StateName::Accepted);
        if returns {
            hall.come_back("w", &[&held]);
            assert_eq!(hall.report("w", &held, passed()), Ok(Answer::State(StateName::Succeeded)));
        } else {
            hall.pass(30_000);
            assert_eq!((hall.state(id), &*reason(&mut hall, id)), (StateName::Crashed, "at_most_once"));
        }
    }
}

#[test]
fn before_the_accept_another_worker_gets_it() {
    let (mut hall, id, held) = assigned();
    hall.pass(5_000);
    assert_eq!(hall.state(id), StateName::Queued);
    assert_eq!(hall.accept("w", &held), Err(Rejected::LeaseLost(held.attempt)), "too late to start");
    let second = hall.take_one("w2");
    hall.accept("w2", &second).unwrap();
    assert_eq!(hall.report("w2", &second, passed()), Ok(Answer::State(StateName::Succeeded)));
}

#[test]
fn a_session_that_ends_while_the_accept_is_stored_ends_the_job_crashed() {
    let (mut hall, id, held) = assigned();
    hall.hold = true;
    let ticket = hall.ask_later(Request::Accept { of: of("w", &held) });
    let session = hall.sessions[0];
    hall.ask_later(Request::CloseSession { session });
    hall.hold = false;
    hall.let_through();
    assert_eq!(hall.answers.get(&ticket), Some(&Ok(Answer::State(StateName::Accepted))));
    assert_eq!((hall.state(id), &*reason(&mut hall, id)), (StateName::Crashed, "at_most_once"));
}

#[test]
fn a_worker_that_returns_before_its_accept_was_answered_has_not_accepted() {
    let (hall, id, held) = assigned();
    let mut hall = hall.restart(Config::default());
    hall.come_back("w", &[&held]);
    assert_eq!(hall.state(id), StateName::Assigned, "its return implies no accept");
    hall.hold = true;
    let ticket = hall.ask_later(Request::Accept { of: of("w", &held) });
    assert_eq!(hall.answers.get(&ticket), None, "answered before the commit");
    hall.hold = false;
    hall.let_through();
    assert_eq!(hall.stored(id).status.state.name(), StateName::Accepted);
}

#[test]
fn a_worker_that_returns_and_never_accepts_loses_the_assignment() {
    let (hall, id, held) = assigned();
    let mut hall = hall.restart(Config::default());
    hall.pass(2_000);
    hall.come_back("w", &[&held]);
    hall.pass(4_999);
    assert_eq!(hall.state(id), StateName::Assigned, "it has the full time from its return");
    hall.pass(1);
    assert_eq!(hall.state(id), StateName::Queued);
}

#[test]
fn a_repeated_accept_is_answered_from_what_is_stored() {
    let (mut hall, id, held) = assigned();
    hall.accept("w", &held).unwrap();
    let rev = hall.stored(id).status.rev;
    assert_eq!(hall.accept("w", &held), Ok(Answer::State(StateName::Accepted)));
    assert_eq!(hall.stored(id).status.rev, rev);
}

#[test]
fn its_time_limit_runs_from_the_accept() {
    let mut hall = Hall::new();
    let limited =
        NewJob { timeouts: jobhall_core::Timeouts { total_ms: Some(2_000), silence_ms: None }, ..once() };
    let id = hall.submit(limited).unwrap().id;
    let held = hall.take_one("w");
    hall.pass(3_000);
    hall.accept("w", &held).unwrap();
    hall.pass(1_999);
    assert!(hall.show(id).job.status.state.leased().is_some_and(|held| held.stop.is_none()));
    hall.pass(1);
    assert!(hall.show(id).job.status.state.leased().is_some_and(|held| held.stop.is_some()));
}

#[test]
fn a_retry_or_snooze_of_its_worker_ends_it_with_the_reported_outcome() {
    for when in [When::Now, When::In(10), When::Snooze(10)] {
        let (mut hall, id, held) = assigned();
        hall.accept("w", &held).unwrap();
        let verdict = Some(Verdict { when, params: None });
        let report = Report::Failed(Failure::new("later", "not today"), verdict);
        assert_eq!(hall.report("w", &held, report.clone()), Ok(Answer::State(StateName::Failed)), "{when:?}");
        assert_eq!(reason(&mut hall, id), "later");
        let again = hall.report("w", &held, report);
        assert_eq!(again, Ok(Answer::State(StateName::Failed)), "a repeated report gets the same answer");
    }
}

#[test]
fn a_manual_retry_and_a_follow_up_are_new_jobs_that_run_at_most_once() {
    let mut hall = Hall::new();
    let keyed = NewJob { key: Some(jobhall_core::Key::new("k").unwrap()), ..once() };
    let id = hall.submit(keyed.clone()).unwrap().id;
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let again = NewJob { on_duplicate: OnDuplicate::RunAgain, ..keyed };
    hall.submit(again).unwrap();
    hall.pass(30_000);
    assert_eq!(hall.state(id), StateName::Crashed);
    let follow_up = hall.take_one("w2");
    assert_ne!(follow_up.attempt.job, id);
    assert!(follow_up.spec.retry.at_most_once);
    hall.accept("w2", &follow_up).unwrap();
    hall.report("w2", &follow_up, passed()).unwrap();
    let Ok(Answer::Submitted(made)) = hall.ask(Request::Retry { id, name: None }) else { panic!("no retry") };
    let retried = hall.show(made[0].id).job;
    assert_eq!(retried.spec.retry_of, Some(id));
    assert!(retried.spec.retry.at_most_once);
}

#[test]
fn more_than_one_attempt_is_refused_at_submit_and_at_an_edit() {
    let mut hall = Hall::new();
    let twice = RetryPolicy { max_attempts: 2, ..RetryPolicy::named().at_most_once() };
    let refused = Err(Rejected::Retry(RetryError::AtMostOnce(2)));
    assert_eq!(hall.submit(NewJob { retry: Some(twice), ..once() }), refused);
    let id = hall.submit(once()).unwrap().id;
    let edit = Edit { retry: Some(RetryPolicy { at_most_once: false, ..twice }), ..Edit::default() };
    let answer = hall.ask(Request::Edit { id, edit: Box::new(edit) });
    assert_eq!(answer, Err(Rejected::Retry(RetryError::AtMostOnce(2))));
    assert_eq!(hall.show(id).job.spec.retry, RetryPolicy::named().at_most_once());
}
