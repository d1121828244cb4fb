//! The last progress of an attempt is stored with its end.

use jobhall_core::{Failure, Indicator, NewJob, State, StateName};
use jobhall_kernel::{Effect, Request};

use crate::rig::{Hall, failed, job, passed, tries};

/// The stored progress of the attempt that ended a job.
fn last(hall: &Hall, id: jobhall_core::JobId) -> Vec<Indicator> {
    hall.stored(id).status.state.lease().unwrap().progress.to_vec()
}

#[test]
fn a_failed_attempt_and_the_one_that_ended_the_job_keep_their_last_progress() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(2), ..job("t") }).unwrap().id;
    let held = hall.take_one("w");
    hall.at_step("w", &held, 1);
    let first = hall.at_step("w", &held, 3);
    let commits = hall.store.feed_now(0, usize::MAX).rows.len();
    hall.report("w", &held, failed("boom")).unwrap();
    assert_eq!(hall.store.feed_now(0, usize::MAX).rows.len(), commits + 1, "one commit for all of it");
    assert_eq!(hall.past(id)[0].progress[..], [first]);
    assert!(hall.show(id).progress.is_empty(), "no attempt is active");
    hall.pass(60_000);
    let held = hall.take_one("w");
    let second = hall.at_step("w", &held, 5);
    hall.report("w", &held, passed()).unwrap();
    assert_eq!((hall.state(id), last(&hall, id)), (StateName::Succeeded, vec![second]));
    assert_eq!(hall.past(id).len(), 1);
}

#[test]
fn a_lost_attempt_keeps_what_the_server_has_heard() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    let heard = hall.at_step("w", &held, 2);
    hall.pass(30_000);
    assert_eq!(hall.state(id), StateName::Retrying);
    assert_eq!(hall.past(id)[0].progress[..], [heard]);
}

#[test]
fn a_cancelled_attempt_keeps_its_progress_and_one_without_any_has_none() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    let heard = hall.at_step("w", &held, 4);
    hall.ask(Request::Cancel { id, failure: Failure::new("cancelled", "") }).unwrap();
    hall.report("w", &held, jobhall_core::Report::Cancelled).unwrap();
    assert!(matches!(hall.stored(id).status.state, State::Cancelled(_)));
    assert_eq!(last(&hall, id), [heard]);
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    assert!(last(&hall, id).is_empty());
    assert!(hall.stored(id).status.is_plain(), "it is written by the short path");
}

#[test]
fn ground_14_each_report_of_progress_is_told_and_a_bare_sign_of_life_is_not() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    let told = |hall: &Hall| hall.effects.iter().filter(|effect| **effect == Effect::Progress(id)).count();
    hall.progress("w", &held).unwrap();
    assert_eq!(told(&hall), 0);
    hall.at_step("w", &held, 1);
    let last = hall.at_step("w", &held, 2);
    assert_eq!(told(&hall), 2);
    assert_eq!(hall.kernel.progress(id), Some(&[last][..]));
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.kernel.progress(id), None, "it has ended");
}
