//! Which job has borrowed which limit place: after a restart, after a change of limits, and when a job between two
//! others in a chain ends.

use crate::rig::{Hall, job, keyed, passed, tries};
use jobhall_core::limits::{Limit, Rate};
use jobhall_core::{JobId, NewJob, QueueConfig, QueueName, StateName};
use jobhall_kernel::{Assignment, Config, Request, SessionId};
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

fn weighing(weight: u32) -> NewJob {
    NewJob { throttle_factor: weight, ..job("p") }
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

/// A job waits for its sub-job, which waits for another: all on one place. Returns the assignments of the first two.
fn two_waiting(hall: &mut Hall) -> (Assignment, Assignment) {
    hall.submit(job("p")).unwrap();
    let (_, held) = give(hall, "a");
    hall.call("a", &held, "one", job("p")).unwrap();
    hall.wait("a", &held);
    let (_, middle) = give(hall, "b");
    hall.call("b", &middle, "one", job("p")).unwrap();
    hall.wait("b", &middle);
    (held, middle)
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
fn a_job_keeps_a_lent_place_over_a_restart_when_the_one_that_asked_for_it_does_not_wait() {
    let mut hall = Hall::new();
    let (middle, last) = middle_lost(&mut hall);
    let mut hall = hall.restart(Config::default());
    hall.worker_bringing("c", "", vec![(last.attempt, last.lease)]);
    hall.pass(10_000);
    assert_eq!(taken_by(&mut hall, "d"), [], "job {} has the place", last.attempt.job);
    hall.report("c", &last, passed()).unwrap();
    assert_eq!(hall.state(middle), StateName::Assigned);
}

#[test]
fn a_job_keeps_a_lent_place_over_a_restart_when_the_one_that_asked_for_it_has_ended() {
    let mut hall = Hall::new();
    limited(&mut hall, 1);
    let (held, middle) = two_waiting(&mut hall);
    let first = held.attempt.job;
    let (_, last) = give(&mut hall, "c");
    hall.cancel(middle.attempt.job).unwrap();
    hall.report("b", &middle, passed()).unwrap();
    let mut hall = hall.restart(Config::default());
    hall.worker_bringing("c", "", vec![(last.attempt, last.lease)]);
    let session = hall.worker_bringing("a", "", vec![(held.attempt, held.lease)]);
    hall.credit(session, 1);
    assert_eq!(hall.state(first), StateName::Waiting, "job {} has its place", last.attempt.job);
    hall.report("c", &last, passed()).unwrap();
    assert_eq!(hall.state(first), StateName::Running);
}

#[test]
fn heavier_borrowers_have_the_same_places_after_a_restart() {
    let mut hall = Hall::new();
    limited(&mut hall, 4);
    let mut attempts = Vec::new();
    for (parent, child) in [("a", "b"), ("c", "d")] {
        hall.submit(weighing(1)).unwrap();
        let (_, held) = give(&mut hall, parent);
        hall.call(parent, &held, "one", weighing(2)).unwrap();
        hall.wait(parent, &held);
        attempts.push((parent, held));
        let (_, held) = give(&mut hall, child);
        attempts.push((child, held));
    }
    let mut hall = hall.restart(Config::default());
    for (name, held) in &attempts {
        hall.worker_bringing(name, "", vec![(held.attempt, held.lease)]);
    }
    hall.call("a", &attempts[0].1, "two", weighing(1)).unwrap();
    hall.wait("a", &attempts[0].1);
    assert_eq!(taken_by(&mut hall, "e"), [], "two jobs of weight 2 run");
}

#[test]
fn each_borrower_finds_a_place_after_a_restart_whatever_the_order() {
    let mut hall = Hall::new();
    limited(&mut hall, 3);
    let names = ["a", "b", "c"];
    let parents: Vec<_> = names
        .iter()
        .map(|name| {
            hall.submit(job("p")).unwrap();
            give(&mut hall, name).1
        })
        .collect();
    // The first job can use the places of a and c, the others those of a and b.
    let asked = [("a", 0, "x"), ("c", 2, "x"), ("a", 0, "y"), ("b", 1, "y"), ("a", 0, "z"), ("b", 1, "z")];
    for (name, parent, key) in asked {
        hall.call(name, &parents[parent], key, keyed("p", key)).unwrap();
    }
    for parent in (0..3).rev() {
        hall.wait(names[parent], &parents[parent]);
    }
    let borrowers = [give(&mut hall, "d").1, give(&mut hall, "e").1, give(&mut hall, "f").1];
    let mut hall = hall.restart(Config::default());
    for (name, held) in names.iter().chain(&["d", "e", "f"]).zip(parents.iter().chain(&borrowers)) {
        hall.worker_bringing(name, "", vec![(held.attempt, held.lease)]);
    }
    hall.call("c", &parents[2], "more", job("p")).unwrap();
    hall.wait("c", &parents[2]);
    assert_eq!(taken_by(&mut hall, "g"), [], "three jobs run");
}

#[test]
fn a_limit_that_is_set_during_a_wait_counts_the_older_borrower_on_the_lent_place() {
    let mut hall = Hall::new();
    hall.submit(keyed("p", "shared")).unwrap();
    let (_, older) = give(&mut hall, "a");
    hall.submit(job("p")).unwrap();
    let (_, lender) = give(&mut hall, "b");
    hall.call("b", &lender, "one", keyed("p", "shared")).unwrap();
    let second = hall.call("b", &lender, "two", job("p")).unwrap().id;
    hall.wait("b", &lender);
    limited(&mut hall, 1);
    assert_eq!(taken_by(&mut hall, "c"), [], "job {} runs", older.attempt.job);
    hall.report("a", &older, passed()).unwrap();
    assert_eq!(hall.state(second), StateName::Assigned);
}

#[test]
fn a_rate_that_becomes_a_limit_of_places_counts_the_borrower_on_the_lent_place() {
    let mut hall = Hall::new();
    let rate = Rate { count: 100, per_ms: 1_000, burst: None };
    hall.set_type("p", |config| {
        config.limits = vec![Limit { by: None, concurrency: None, rate: Some(rate) }];
    });
    hall.submit(job("p")).unwrap();
    let (_, lender) = give(&mut hall, "a");
    hall.call("a", &lender, "one", job("p")).unwrap();
    hall.wait("a", &lender);
    let (_, first) = give(&mut hall, "b");
    let second = hall.call("a", &lender, "two", job("p")).unwrap().id;
    hall.wait("a", &lender);
    limited(&mut hall, 1);
    assert_eq!(taken_by(&mut hall, "c"), [], "job {} runs", first.attempt.job);
    hall.report("b", &first, passed()).unwrap();
    assert_eq!(hall.state(second), StateName::Assigned);
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
    let config = QueueConfig { limits: vec![one], ..QueueConfig::default() };
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
    let (held, middle) = two_waiting(&mut hall);
    let first = held.attempt.job;
    give(&mut hall, "c");
    hall.cancel(middle.attempt.job).unwrap();
    hall.report("b", &middle, passed()).unwrap();
    assert_eq!(hall.state(first), StateName::Waiting, "another job has its place");
    hall.set_type("p", |config| config.limits.clear());
    assert_eq!(hall.state(first), StateName::Running);
}

#[test]
fn no_place_is_lent_after_a_restart_to_a_job_that_waits_for_its_lender() {
    let mut hall = Hall::new();
    limited(&mut hall, 1);
    hall.submit(keyed("p", "top")).unwrap();
    let (_, top) = give(&mut hall, "a");
    hall.call("a", &top, "one", job("p")).unwrap();
    hall.wait("a", &top);
    let (_, middle) = give(&mut hall, "b");
    hall.call("b", &middle, "one", job("p")).unwrap();
    hall.wait("b", &middle);
    let (_, last) = give(&mut hall, "c");
    // It asked for the first job, but does not wait for it.
    hall.call("c", &last, "one", keyed("p", "top")).unwrap();
    let mut hall = hall.restart(Config::default());
    let sessions = [("a", &top), ("b", &middle), ("c", &last)]
        .map(|(name, held)| hall.worker_bringing(name, "", vec![(held.attempt, held.lease)]));
    sessions.iter().for_each(|session| hall.credit(*session, 1));
    hall.call("b", &middle, "two", job("p")).unwrap();
    hall.wait("b", &middle);
    let taken = hall.assignments();
    assert!(taken.is_empty(), "job {} has the place: {taken:?}", last.attempt.job);
}
