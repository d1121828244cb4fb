//! What an attempt that waits for sub-jobs gives back or lends meanwhile: resources, its slot, places of limits.

use crate::rig::{Hall, job, passed, worker};
use crate::slots::{Slots, answered, over, running};
use jobhall_core::limits::Limit;
use jobhall_core::{NewJob, StateName};
use jobhall_kernel::{Request, Why};

fn needs(text: &str) -> jobhall_core::needs::Needs {
    jobhall_core::needs::Needs::parse(text).unwrap()
}

#[test]
fn a_waiting_attempt_gives_back_what_it_uses_and_takes_it_again_before_others() {
    let mut hall = Hall::new();
    let uses = || jobhall_core::needs::Uses::parse("gpu=1").unwrap();
    let parent = hall.submit(NewJob { uses: uses(), ..job("p") }).unwrap().id;
    let session = hall.worker("w", "gpu=1");
    hall.credit(session, 4);
    let held = hall.assignments().remove(0).1;
    hall.accept("w", &held).unwrap();
    let child = hall.call("w", &held, "one", NewJob { uses: uses(), ..job("c") }).unwrap().id;
    let other = hall.submit(NewJob { uses: uses(), ..job("x") }).unwrap().id;
    assert_eq!(hall.assignments().len(), 0, "its gpu is in use");
    let ticket = hall.wait("w", &held);
    let running = hall.assignments().remove(0).1;
    assert_eq!(running.attempt.job, child, "the sub-job has it now");
    hall.accept("w", &running).unwrap();
    hall.report("w", &running, passed()).unwrap();
    assert_eq!(over(&mut hall, ticket), Some(vec![child]));
    assert_eq!((hall.state(parent), hall.state(other)), (StateName::Running, StateName::Queued));
    assert_eq!(hall.kernel.workers_in_use()[0].taken.to_string(), "gpu=1");
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.state(other), StateName::Assigned);
}

#[test]
fn an_attempt_that_was_about_to_go_on_and_asks_for_more_waits_for_that_too() {
    let mut hall = Hall::new();
    let parent = hall.submit(job("p")).unwrap().id;
    let mut slots = Slots::new(&mut hall, 1);
    let held = slots.busy[&parent].clone();
    hall.call("w", &held, "one", NewJob { needs: needs("gpu"), ..job("c") }).unwrap();
    let other = hall.submit(job("x")).unwrap().id;
    hall.wait("w", &held);
    slots.look(&mut hall);
    let gpu = hall.worker("gpu", "gpu=1");
    hall.vacancy(gpu, 1);
    let done = hall.assignments().remove(0).1;
    hall.report("gpu", &done, passed()).unwrap();
    assert_eq!(hall.explain(parent).why, [Why::WaitsForRoom(worker("w"))]);
    let second = hall.call("w", &held, "two", NewJob { needs: needs("gpu"), ..job("c") }).unwrap().id;
    let ticket = hall.wait("w", &held);
    slots.end(&mut hall, other);
    assert_eq!(
        (hall.state(parent), answered(&mut hall, ticket)),
        (StateName::Waiting, None),
        "job {second} is open"
    );
}

#[test]
fn a_limit_of_one_is_lent_down_fifty_levels_and_to_one_at_a_time() {
    let mut hall = Hall::new();
    hall.set_type("p", |config| {
        config.limits = vec![Limit { by: None, concurrency: Some(1), rate: None }];
    });
    let first = hall.submit(job("p")).unwrap().id;
    let outside = hall.submit(job("p")).unwrap().id;
    let mut slots = Slots::new(&mut hall, 200);
    let (mut line, mut tickets) = (vec![first], Vec::new());
    for level in 0..50 {
        let held = slots.busy[&line[level]].clone();
        let next = hall.call("w", &held, "next", job("p")).unwrap().id;
        let beside = hall.call("w", &held, "beside", job("p")).unwrap().id;
        tickets.push((hall.wait("w", &held), beside));
        slots.look(&mut hall);
        assert_eq!(running(&mut hall, &slots), 1, "one user of a lent place at a time");
        assert_eq!(hall.state(outside), StateName::Queued, "who is not waited for has no part in it");
        line.push(next);
    }
    while let Some(last) = line.pop() {
        slots.end(&mut hall, last);
        if let Some((ticket, beside)) = tickets.pop() {
            assert_eq!((running(&mut hall, &slots), answered(&mut hall, ticket)), (1, None));
            slots.end(&mut hall, beside);
            assert!(over(&mut hall, ticket).is_some(), "all that it waited for is over");
            assert_eq!(running(&mut hall, &slots), 1);
        }
    }
    assert_eq!((hall.state(first), slots.has()), (StateName::Succeeded, vec![outside]));
}

#[test]
fn a_place_is_lent_to_what_an_awaited_job_comes_after() {
    let mut hall = Hall::new();
    hall.set_type("p", |config| {
        config.limits = vec![Limit { by: None, concurrency: Some(1), rate: None }];
    });
    let first = hall.submit(job("p")).unwrap().id;
    let before = hall.submit(job("p")).unwrap().id;
    let mut slots = Slots::new(&mut hall, 9);
    let held = slots.busy[&first].clone();
    let after = vec![jobhall_core::After::Job(before)];
    let child = hall.call("w", &held, "one", NewJob { after, ..job("c") }).unwrap().id;
    assert_eq!((hall.state(before), hall.state(child)), (StateName::Queued, StateName::Blocked));
    let ticket = hall.wait("w", &held);
    slots.look(&mut hall);
    assert_eq!(hall.state(before), StateName::Accepted, "it uses the place that the waiting job lends");
    slots.end(&mut hall, before);
    slots.end(&mut hall, child);
    assert_eq!(over(&mut hall, ticket), Some(vec![child]));
    slots.end(&mut hall, first);
    assert_eq!(hall.state(first), StateName::Succeeded);
}

#[test]
fn a_lender_whose_own_lease_is_ending_lends_nothing() {
    let mut hall = Hall::new();
    let give = |hall: &mut Hall, name: &str| {
        let session = hall.worker(name, "");
        hall.vacancy(session, 1);
        let held = hall.assignments().remove(0).1;
        hall.accept(name, &held).unwrap();
        (session, held)
    };
    hall.submit(job("p")).unwrap();
    let (lender, held) = give(&mut hall, "lender");
    let other = hall.submit(job("p")).unwrap().id;
    let (_, busy) = give(&mut hall, "busy");
    let child = hall.call("lender", &held, "one", job("p")).unwrap().id;
    hall.wait("lender", &held);
    let (borrower, _) = give(&mut hall, "borrower");
    // Three are leased under a limit of one, on two places: it was lowered.
    hall.set_type("p", |config| {
        config.limits = vec![Limit { by: None, concurrency: Some(1), rate: None }];
    });
    hall.hold = true;
    hall.ask_later(Request::CloseSession { session: borrower });
    hall.ask_later(Request::CloseSession { session: lender });
    let idle = hall.worker("idle", "");
    hall.vacancy(idle, 2);
    hall.let_through();
    assert_eq!(hall.state(child), StateName::Retrying, "the limit is taken by job {other}");
    hall.report("busy", &busy, passed()).unwrap();
    let next = hall.assignments();
    assert_eq!(next.len(), 1, "one at a time from now on: {next:?}");
}
