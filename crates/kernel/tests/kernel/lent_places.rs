//! Limit places that jobs have borrowed, and what follows when they leave them.

use crate::rig::{Hall, job, passed, tries};
use jobhall_core::limits::Limit;
use jobhall_core::{JobId, NewJob, QueueConfig, QueueName, StateName};
use jobhall_kernel::{Assignment, Request, SessionId};
use jobhall_store::CommitError;

fn limited(hall: &mut Hall, most: u32) {
    hall.set_type("p", |config| {
        config.limits = vec![Limit { by: None, concurrency: Some(most), rate: None }];
    });
}

/// A new worker takes one job and accepts it.
fn give(hall: &mut Hall, name: &str) -> (SessionId, Assignment) {
    let session = hall.worker(name, "");
    hall.vacancy(session, 1);
    let mut all = hall.assignments();
    assert_eq!(all.len(), 1, "one assignment to {name}: {all:?}");
    let held = all.remove(0).1;
    hall.accept(name, &held).unwrap();
    (session, held)
}

/// The jobs that a new worker with many slots gets.
fn taken_by(hall: &mut Hall, name: &str) -> Vec<JobId> {
    let session = hall.worker(name, "");
    hall.vacancy(session, 9);
    let all = hall.assignments();
    all.iter().for_each(|(_, held)| drop(hall.accept(name, held).unwrap()));
    all.iter().map(|(_, held)| held.attempt.job).collect()
}

/// A waits for B, B waits for C, all on one place. Then the lease of B ends; C keeps the place. Returns B and the
/// attempt of C.
fn middle_lost(hall: &mut Hall) -> (JobId, Assignment) {
    limited(hall, 1);
    hall.submit(job("p")).unwrap();
    let (_, first) = give(hall, "a");
    hall.call("a", &first, "one", NewJob { retry: tries(5), ..job("p") }).unwrap();
    hall.wait("a", &first);
    let (session, middle) = give(hall, "b");
    hall.call("b", &middle, "one", job("p")).unwrap();
    hall.wait("b", &middle);
    let (_, last) = give(hall, "c");
    hall.ask(Request::CloseSession { session }).unwrap();
    (middle.attempt.job, last)
}

#[test]
fn a_job_keeps_a_lent_place_when_the_one_that_asked_for_it_loses_its_lease() {
    let mut hall = Hall::new();
    let (middle, last) = middle_lost(&mut hall);
    hall.pass(10_000);
    assert_eq!(taken_by(&mut hall, "d"), [], "job {} has the place", last.attempt.job);
    hall.report("c", &last, passed()).unwrap();
    assert_eq!(hall.state(middle), StateName::Assigned);
}

#[test]
fn a_place_that_comes_back_to_its_lender_through_a_lost_job_is_lent_again() {
    let mut hall = Hall::new();
    limited(&mut hall, 1);
    let first = hall.submit(job("p")).unwrap().id;
    let (_, lender) = give(&mut hall, "a");
    // The awaited job depends on a job that needs the place.
    let before = hall.submit(NewJob { retry: tries(5), ..job("p") }).unwrap().id;
    let after = vec![jobhall_core::After::Job(before)];
    hall.call("a", &lender, "one", NewJob { after, ..job("p") }).unwrap();
    hall.wait("a", &lender);
    let (session, held) = give(&mut hall, "b");
    assert_eq!(held.attempt.job, before);
    hall.call("b", &held, "one", job("p")).unwrap();
    hall.wait("b", &held);
    let (_, last) = give(&mut hall, "c");
    hall.ask(Request::CloseSession { session }).unwrap();
    hall.pass(10_000);
    assert_eq!(taken_by(&mut hall, "d"), [], "job {} has the place", last.attempt.job);
    hall.report("c", &last, passed()).unwrap();
    assert_eq!((hall.state(first), hall.state(before)), (StateName::Waiting, StateName::Assigned));
}

#[test]
fn a_place_that_a_failed_claim_had_borrowed_is_lent_to_another_job() {
    let mut hall = Hall::new();
    let one = Limit { by: None, concurrency: Some(1), rate: None };
    let config = QueueConfig { paused: false, limits: vec![one] };
    let queue = QueueName::new("default").unwrap();
    hall.ask(Request::SetQueue { queue, config: Some(config), expected: None }).unwrap();
    hall.submit(job("p")).unwrap();
    let (_, lender) = give(&mut hall, "a");
    hall.call("a", &lender, "one", job("x")).unwrap();
    let second = hall.call("a", &lender, "two", job("y")).unwrap().id;
    hall.wait("a", &lender);
    hall.hold = true;
    let [x, y] = ["x", "y"].map(|name| hall.worker_with(name, "", &format!("type={name}")));
    hall.vacancy(x, 1);
    hall.vacancy(y, 1);
    hall.ask_later(Request::CloseSession { session: x });
    hall.fail = Some(CommitError::NotCommitted { full: false, message: "no".to_owned() });
    hall.let_through();
    hall.pass(5_000);
    assert_eq!(hall.state(second), StateName::Assigned);
}

#[test]
fn an_attempt_whose_wait_is_over_resumes_when_the_limit_that_kept_its_place_is_removed() {
    let mut hall = Hall::new();
    limited(&mut hall, 1);
    let first = hall.submit(job("p")).unwrap().id;
    let (_, held) = give(&mut hall, "a");
    hall.call("a", &held, "one", job("p")).unwrap();
    hall.wait("a", &held);
    let (_, middle) = give(&mut hall, "b");
    hall.call("b", &middle, "one", job("p")).unwrap();
    hall.wait("b", &middle);
    give(&mut hall, "c");
    hall.cancel(middle.attempt.job).unwrap();
    hall.report("b", &middle, passed()).unwrap();
    assert_eq!(hall.state(first), StateName::Waiting, "another job has its place");
    hall.set_type("p", |config| config.limits.clear());
    assert_eq!(hall.state(first), StateName::Running);
}
