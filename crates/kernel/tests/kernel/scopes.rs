//! A submit with a scope does not reach jobs in other queues through a key: neither the holder nor its successor.

use crate::rig::{Hall, job, keyed};
use jobhall_core::{Disposition, JobId, Json, NewJob, OnDuplicate, QueueName, Scope, StateName};
use jobhall_kernel::{Answer, Assignment, Config, Rejected, Request, Submit};

const WAYS: [OnDuplicate; 4] =
    [OnDuplicate::Join, OnDuplicate::Reject, OnDuplicate::Supersede, OnDuplicate::RunAgain];

fn in_queue(queue: &str, job: NewJob) -> NewJob {
    NewJob { queue: QueueName::new(queue).unwrap(), ..job }
}

/// A job with the key in queue `a`, by a caller that reaches queue `a` only.
fn limited(on_duplicate: OnDuplicate) -> NewJob {
    let scope = Scope::new(&["a"]).unwrap();
    let params = Json::params("\"mine\"").unwrap();
    in_queue("a", NewJob { on_duplicate, scope, params, ..keyed("t", "k") })
}

/// A job that supersedes the holder of the key from queue `b`, by a caller that reaches all queues.
fn successor() -> NewJob {
    in_queue("b", NewJob { on_duplicate: OnDuplicate::Supersede, ..keyed("t", "k") })
}

/// A hall in which a job in queue `a` holds the key and runs.
fn held() -> (Hall, Assignment) {
    let mut hall = Hall::with(Config { cached: 1, ..Config::default() });
    hall.submit(in_queue("a", keyed("t", "k"))).unwrap();
    let held = hall.take_one("w");
    hall.progress("w", &held).unwrap();
    (hall, held)
}

fn key_held(refused: &Rejected, by: JobId) -> bool {
    matches!(refused, Rejected::KeyHeld { holder, .. } if *holder == by)
}

#[test]
fn audit_m2_the_successor_of_a_key_is_held_to_the_scope_in_every_way() {
    let (mut hall, _) = held();
    let far = hall.submit(successor()).unwrap().id;
    let before = hall.store.all_jobs();
    for way in WAYS {
        let refused = hall.submit(limited(way)).unwrap_err();
        assert!(key_held(&refused, far), "{way:?}: {refused}");
        assert_eq!(hall.store.all_jobs(), before, "{way:?} changed something");
    }
}

#[test]
fn audit_m2_the_scope_is_checked_again_when_a_plan_waited_for_a_busy_job() {
    for way in [OnDuplicate::Supersede, OnDuplicate::RunAgain] {
        let (mut hall, held) = held();
        hall.hold = true;
        let submit = |job| Request::Submit { submit: Submit { jobs: vec![job], ..Submit::default() } };
        let wide = hall.ask_later(submit(successor()));
        let narrow = hall.ask_later(submit(limited(way)));
        hall.let_through();
        let far = match hall.answers.remove(&wide) {
            Some(Ok(Answer::Submitted(made))) => made[0].id,
            other => panic!("{other:?}"),
        };
        let refused = hall.answers.remove(&narrow).unwrap().unwrap_err();
        assert!(key_held(&refused, far), "{way:?}: {refused}");
        assert_eq!(hall.state(far), StateName::Blocked, "{way:?} changed the successor");
        let again =
            hall.stored(far).status.again.is_some() || hall.stored(held.attempt.job).status.again.is_some();
        assert!(!again, "{way:?} marked a job");
    }
}

#[test]
fn a_successor_within_the_scope_is_joined() {
    let (mut hall, _) = held();
    let near = hall.submit(in_queue("a", successor())).unwrap().id;
    let joined = hall.submit(limited(OnDuplicate::Join)).unwrap();
    assert_eq!((joined.id, joined.disposition), (near, Disposition::JoinedOther));
    let marked = hall.submit(limited(OnDuplicate::RunAgain)).unwrap();
    assert_eq!((marked.id, marked.disposition), (near, Disposition::Again));
    let replaced = hall.submit(limited(OnDuplicate::Supersede)).unwrap();
    assert_eq!(replaced.disposition, Disposition::Superseding);
    assert_eq!(hall.state(near), StateName::Cancelled);
}

#[test]
fn audit_l2_a_copy_of_a_job_outside_the_scope_is_a_copy_of_no_job() {
    let mut hall = Hall::new();
    let far = hall.submit(in_queue("b", job("t"))).unwrap().id;
    let copy = |of| {
        let scope = Scope::new(&["a"]).unwrap();
        in_queue("a", NewJob { copy_of: Some(of), scope, ..job("t") })
    };
    let nobody = hall.submit(copy(JobId::new(999_999).unwrap())).unwrap_err();
    let foreign = hall.submit(copy(far)).unwrap_err();
    assert_eq!(foreign, nobody);
    let near = hall.submit(in_queue("a", job("t"))).unwrap().id;
    assert!(hall.submit(copy(near)).is_ok());
}
