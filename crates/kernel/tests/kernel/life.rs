//! The life of one job, from submit to its end.

use crate::rig::{Hall, failed, job, passed, tries};
use jobhall_core::{Disposition, NewJob, StateName};
use jobhall_kernel::Answer;

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
    assert_eq!((shown.job.status.attempt, shown.past.len()), (1, 1));
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
