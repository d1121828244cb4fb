//! The life of one job, from submit to its end.

use crate::rig::{Hall, failed, job, passed, tries};
use jobhall_core::{Disposition, NewJob, StateName};
use jobhall_kernel::{Answer, Request};

#[test]
fn l15_a_job_that_waits_is_given_to_the_vacancy_that_comes() {
    let mut hall = Hall::new();
    let submitted = hall.submit(job("t")).unwrap();
    assert_eq!(submitted.disposition, Disposition::Created);
    assert_eq!(hall.state(submitted.id), StateName::Queued);
    let assignment = hall.take_one("w");
    assert_eq!(assignment.attempt.job, submitted.id);
    assert_eq!(hall.stored(submitted.id).status.state.name(), StateName::Assigned);
    let answer = hall.report("w", &assignment, passed());
    assert_eq!(answer, Ok(Answer::State(StateName::Succeeded)));
    assert_eq!(hall.stored(submitted.id).status.state.name(), StateName::Succeeded);
    assert_eq!(hall.kernel.open_count(), 0);
}

#[test]
fn l15_a_new_job_wakes_a_waiting_vacancy_at_once_in_one_write() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    assert!(hall.assignments().is_empty());
    let submitted = hall.submit(job("t")).unwrap();
    let assignments = hall.assignments();
    assert_eq!(assignments.len(), 1);
    assert_eq!((assignments[0].0, assignments[0].1.attempt.job), (session, submitted.id));
    let stored = hall.stored(submitted.id);
    assert_eq!(stored.status.state.name(), StateName::Assigned);
    assert_eq!(hall.store.feed_now(0, 100).rows.len(), 1, "insert and claim are one commit");
}

#[test]
fn h02_h05_a_failed_attempt_is_tried_again_after_its_backoff() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(2), ..job("t") }).unwrap().id;
    let assignment = hall.take_one("w1");
    assert_eq!(hall.report("w1", &assignment, failed("no")), Ok(Answer::State(StateName::Retrying)));
    let shown = hall.show(id);
    assert_eq!((shown.job.status.attempt, hall.past(id).len()), (1, 1));
    let session = hall.worker("w2", "");
    hall.vacancy(session, 1);
    assert!(hall.assignments().is_empty(), "not before its backoff is over");
    hall.pass(5_001);
    let assignments = hall.assignments();
    assert_eq!(assignments.len(), 1);
    assert_eq!(assignments[0].1.number, 2);
    let answer = hall.report("w2", &assignments[0].1, failed("no"));
    assert_eq!(answer, Ok(Answer::State(StateName::Failed)));
    assert_eq!(hall.show(id).job.status.attempt, 2);
}

#[test]
fn a_start_is_dated_by_what_the_worker_reported_and_survives_a_restart() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let assignment = hall.take_one("w");
    hall.pass(50);
    assert_eq!(hall.accept("w", &assignment), Ok(Answer::State(StateName::Accepted)));
    hall.pass(50);
    assert_eq!(hall.progress("w", &assignment), Ok(Answer::State(StateName::Running)));
    let started_at = |hall: &mut Hall| hall.show(id).job.status.state.lease().unwrap().started_at;
    let lease = hall.show(id).job.status.state.lease().unwrap().clone();
    let started = started_at(&mut hall).expect("a start");
    // The claim is dated a millisecond after the submit, so that its time is later.
    assert_eq!((started.since(lease.assigned_at), started.since(lease.accepted_at.unwrap())), (99, 50));
    hall.pass(5_000);
    let mut hall = hall.restart(jobhall_kernel::Config::default());
    assert_eq!((hall.state(id), started_at(&mut hall)), (StateName::Running, Some(started)));
    hall.come_back("w", &[&assignment]);
    hall.report("w", &assignment, passed()).unwrap();
    assert_eq!(started_at(&mut hall), Some(started));
}

#[test]
fn an_attempt_that_reports_only_its_end_has_a_start_and_a_run_time() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let assignment = hall.take_one("w");
    hall.pass(15);
    hall.report("w", &assignment, passed()).unwrap();
    let status = hall.show(id).job.status;
    let lease = status.state.lease().unwrap();
    let (started, ended) = (lease.started_at.expect("a start"), status.state.ended_at().unwrap());
    assert_eq!(
        (lease.accepted_at, ended.since(started)),
        (Some(started), 14),
        "the claim is dated a millisecond late"
    );
    let Ok(Answer::Counts(counts)) = hall.ask(Request::Counts {}) else { panic!("the counts") };
    assert_eq!((counts.run.count, counts.run.sum), (1, 14));
}
