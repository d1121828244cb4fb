//! Jobs that would rather go to another worker than to one that had them before.

use crate::rig::{Hall, failed, job, tries, worker};
use std::sync::Arc;

use jobhall_core::{Backoff, Job, JobId, JobSpec, JobStatus, NewJob, RetryPolicy, StateName};
use jobhall_kernel::{Answer, Assignment, Config, Edit, Noted, Request, SessionId, Why};
use jobhall_store::{Change, Unit};

/// Retried at once, elsewhere if possible.
fn avoiding() -> NewJob {
    let retry = RetryPolicy { backoff: Backoff::Constant { ms: 0 }, ..tries(5).unwrap() };
    NewJob { avoid: true, retry: Some(retry), ..job("t") }
}

fn credit(hall: &mut Hall, name: &str) -> SessionId {
    let session = hall.worker(name, "");
    assert_eq!(hall.ask(Request::Credit { session, total: 100 }), Ok(Answer::Noted(Noted)));
    session
}

/// The one assignment since the last look, accepted by whoever got it.
fn one(hall: &mut Hall, names: &[(SessionId, &str)]) -> (String, Assignment) {
    let mut given = hall.assignments();
    assert_eq!(given.len(), 1, "one assignment");
    let (session, assignment) = given.remove(0);
    let name = names.iter().find(|(known, _)| *known == session).unwrap().1;
    hall.accept(name, &assignment).unwrap();
    (name.to_owned(), assignment)
}

fn fail(hall: &mut Hall, (name, assignment): &(String, Assignment)) {
    hall.report(name, assignment, failed("no")).unwrap();
}

#[test]
fn a_retry_goes_to_a_worker_that_did_not_have_it() {
    let mut hall = Hall::new();
    let names: Vec<_> = ["a", "b", "c"].into_iter().map(|name| (credit(&mut hall, name), name)).collect();
    hall.submit(avoiding()).unwrap();
    let mut had = Vec::new();
    for _ in 0..3 {
        let given = one(&mut hall, &names);
        assert!(!had.contains(&given.0), "{} had it before", given.0);
        fail(&mut hall, &given);
        had.push(given.0);
    }
    let again = one(&mut hall, &names);
    assert!(had.contains(&again.0), "all had it, so any will do, at once");
}

#[test]
fn a_worker_that_is_alone_gets_it_again_at_once() {
    let mut hall = Hall::new();
    let names = [(credit(&mut hall, "a"), "a")];
    let id = hall.submit(avoiding()).unwrap().id;
    for attempt in 1..=4 {
        let given = one(&mut hall, &names);
        assert_eq!(given.1.number, attempt);
        fail(&mut hall, &given);
    }
    assert_eq!(one(&mut hall, &names).1.attempt.job, id);
}

#[test]
fn it_waits_for_another_that_is_busy_and_holds_up_nobody() {
    let mut hall = Hall::new();
    let a = credit(&mut hall, "a");
    let id = hall.submit(avoiding()).unwrap().id;
    let given = one(&mut hall, &[(a, "a")]);
    // Another worker is there, without a vacancy.
    let b = hall.worker("b", "");
    fail(&mut hall, &given);
    assert!(hall.assignments().is_empty());
    assert_eq!(hall.explain(id).why, [Why::NoVacancy(vec![worker("b")]), Why::Avoids(vec![worker("a")])]);
    let text = hall.explain(id).to_string();
    assert!(text.contains("it avoids workers that it was assigned to before: a"), "{text}");
    let behind = hall.submit(job("t")).unwrap().id;
    assert_eq!(one(&mut hall, &[(a, "a")]).1.attempt.job, behind, "the one behind it is not held up");
    hall.ask(Request::Credit { session: b, total: 1 }).unwrap();
    assert_eq!(one(&mut hall, &[(b, "b")]).1.attempt.job, id);
}

#[test]
fn it_goes_back_when_the_other_has_gone() {
    for close in [true, false] {
        let mut hall = Hall::new();
        let a = credit(&mut hall, "a");
        let id = hall.submit(avoiding()).unwrap().id;
        let given = one(&mut hall, &[(a, "a")]);
        let b = hall.worker("b", "");
        fail(&mut hall, &given);
        assert!(hall.assignments().is_empty());
        let gone =
            if close { Request::CloseSession { session: b } } else { Request::Disconnect { session: b } };
        hall.ask(gone).unwrap();
        assert_eq!(one(&mut hall, &[(a, "a")]).1.attempt.job, id);
    }
}

#[test]
fn a_worker_that_does_not_suit_is_no_other() {
    let mut hall = Hall::new();
    let a = credit(&mut hall, "a");
    hall.worker_with("b", "", "type=other");
    hall.submit(avoiding()).unwrap();
    let given = one(&mut hall, &[(a, "a")]);
    fail(&mut hall, &given);
    one(&mut hall, &[(a, "a")]);
}

#[test]
fn without_the_wish_it_goes_to_whoever_waits() {
    let mut hall = Hall::new();
    let a = credit(&mut hall, "a");
    let id = hall.submit(NewJob { avoid: false, ..avoiding() }).unwrap().id;
    let given = one(&mut hall, &[(a, "a")]);
    hall.worker("b", "");
    fail(&mut hall, &given);
    assert_eq!(one(&mut hall, &[(a, "a")]).1.attempt.job, id);
}

#[test]
fn a_restart_remembers_who_had_it() {
    let mut hall = Hall::new();
    let a = credit(&mut hall, "a");
    let id = hall.submit(avoiding()).unwrap().id;
    hall.worker("b", "");
    let given = one(&mut hall, &[(a, "a")]);
    fail(&mut hall, &given);
    let mut hall = hall.restart(Config::default());
    assert_eq!(hall.state(id), StateName::Retrying);
    let b = hall.worker("b", "");
    credit(&mut hall, "a");
    assert!(hall.assignments().is_empty());
    hall.ask(Request::Credit { session: b, total: 1 }).unwrap();
    assert_eq!(one(&mut hall, &[(b, "b")]).1.attempt.job, id);
}

#[test]
fn a_copy_avoids_whoever_has_the_original() {
    let mut hall = Hall::new();
    let a = credit(&mut hall, "a");
    let original: JobId = hall.submit(job("t")).unwrap().id;
    one(&mut hall, &[(a, "a")]);
    let b = hall.worker("b", "");
    let copy = hall.submit(NewJob { copy_of: Some(original), ..avoiding() }).unwrap().id;
    assert!(hall.assignments().is_empty(), "not to the one that is at it");
    hall.ask(Request::Credit { session: b, total: 1 }).unwrap();
    assert_eq!(one(&mut hall, &[(b, "b")]).1.attempt.job, copy);
}

fn edit_avoid(hall: &mut Hall, id: JobId, avoid: bool) {
    let edit = Edit { avoid: Some(avoid), ..Edit::default() };
    hall.ask(Request::Edit { id, edit: Box::new(edit) }).unwrap();
}

#[test]
fn ground_9_an_edit_that_stops_avoiding_takes_effect_at_once() {
    let mut hall = Hall::new();
    let a = credit(&mut hall, "a");
    let id = hall.submit(avoiding()).unwrap().id;
    let given = one(&mut hall, &[(a, "a")]);
    hall.worker("b", "");
    fail(&mut hall, &given);
    assert!(hall.assignments().is_empty(), "it waits for b");
    edit_avoid(&mut hall, id, false);
    assert_eq!(one(&mut hall, &[(a, "a")]).1.attempt.job, id);
}

#[test]
fn ground_9_an_edit_that_begins_to_avoid_counts_attempts_before_it() {
    for restart in [false, true] {
        let mut hall = Hall::new();
        let a = credit(&mut hall, "a");
        let retry = RetryPolicy { backoff: Backoff::Constant { ms: 5_000 }, ..tries(5).unwrap() };
        let plain = NewJob { avoid: false, retry: Some(retry), ..avoiding() };
        let id = hall.submit(plain).unwrap().id;
        let given = one(&mut hall, &[(a, "a")]);
        fail(&mut hall, &given);
        edit_avoid(&mut hall, id, true);
        if restart {
            hall = hall.restart(Config::default());
            credit(&mut hall, "a");
        }
        let b = hall.worker("b", "");
        hall.pass(5_000);
        assert!(hall.assignments().is_empty(), "a had it before the edit, restart: {restart}");
        hall.ask(Request::Credit { session: b, total: 1 }).unwrap();
        assert_eq!(one(&mut hall, &[(b, "b")]).1.attempt.job, id);
    }
}

#[test]
fn audit_m4_a_restart_remembers_all_who_had_it() {
    let mut hall = Hall::new();
    let retry = RetryPolicy { backoff: Backoff::Constant { ms: 0 }, ..tries(9).unwrap() };
    let id = hall.submit(NewJob { retry: Some(retry), ..avoiding() }).unwrap().id;
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        let session = credit(&mut hall, name);
        let given = one(&mut hall, &[(session, name)]);
        // Another one is there, so that it does not go back at once.
        hall.worker("other", "");
        fail(&mut hall, &given);
        hall.ask(Request::CloseSession { session }).unwrap();
    }
    let mut hall = hall.restart(Config::default());
    let other = hall.worker("other", "");
    for name in names {
        credit(&mut hall, name);
    }
    assert!(hall.assignments().is_empty(), "all of them had it");
    hall.ask(Request::Credit { session: other, total: 1 }).unwrap();
    assert_eq!(one(&mut hall, &[(other, "other")]).1.attempt.job, id);
}

/// A job that avoids a, which is free, and b, which is connected and has no vacancy; a had it.
fn waiting_for_b(hall: &mut Hall) -> (SessionId, SessionId, JobId) {
    let a = credit(hall, "a");
    let id = hall.submit(avoiding()).unwrap().id;
    let given = one(hall, &[(a, "a")]);
    let b = hall.worker("b", "");
    fail(hall, &given);
    assert!(hall.assignments().is_empty(), "it waits for b");
    (a, b, id)
}

#[test]
fn ground_9_it_waits_for_another_only_for_a_bounded_time() {
    for (expected_ms, patience) in [(None, 10_000), (Some(300), 1_000), (Some(4_000), 4_000)] {
        let mut hall = Hall::new();
        hall.set_type("t", |config| config.expected_ms = expected_ms);
        let (a, b, id) = waiting_for_b(&mut hall);
        keep_alive(&mut hall, &[a, b], patience - 1);
        assert!(hall.assignments().is_empty(), "before {patience} ms");
        keep_alive(&mut hall, &[a, b], 1);
        let again = one(&mut hall, &[(a, "a")]);
        assert_eq!(again.1.attempt.job, id, "after {patience} ms");
        fail(&mut hall, &again);
        keep_alive(&mut hall, &[a, b], patience - 1);
        assert!(hall.assignments().is_empty(), "its next wait is as long");
        keep_alive(&mut hall, &[a, b], 1);
        assert_eq!(one(&mut hall, &[(a, "a")]).1.attempt.job, id);
    }
}

/// Lets time pass in which these sessions do not end.
fn keep_alive(hall: &mut Hall, sessions: &[SessionId], ms: u64) {
    for &session in sessions {
        hall.ask(Request::Renew { session }).unwrap();
    }
    hall.pass(ms);
}

#[test]
fn ground_9_the_patience_begins_when_it_is_ready_and_a_look_does_not_begin_it_again() {
    let mut hall = Hall::new();
    let (a, b, id) = waiting_for_b(&mut hall);
    keep_alive(&mut hall, &[a, b], 9_000);
    let edit = Edit { priority: Some(7), ..Edit::default() };
    hall.ask(Request::Edit { id, edit: Box::new(edit) }).unwrap();
    keep_alive(&mut hall, &[a, b], 999);
    assert!(hall.assignments().is_empty());
    hall.ask(Request::Hold { id }).unwrap();
    keep_alive(&mut hall, &[a, b], 5_000);
    hall.ask(Request::Release { id }).unwrap();
    keep_alive(&mut hall, &[a, b], 9_999);
    assert!(hall.assignments().is_empty(), "it was not ready while it was held");
    keep_alive(&mut hall, &[a, b], 1);
    assert_eq!(one(&mut hall, &[(a, "a")]).1.attempt.job, id);
}

#[test]
fn ground_9_a_copy_that_has_waited_takes_the_worker_of_the_original() {
    let mut hall = Hall::new();
    let a = credit(&mut hall, "a");
    let original = hall.submit(job("t")).unwrap().id;
    one(&mut hall, &[(a, "a")]);
    let b = hall.worker("b", "");
    let copy = hall.submit(NewJob { copy_of: Some(original), ..avoiding() }).unwrap().id;
    keep_alive(&mut hall, &[a, b], 9_999);
    assert!(hall.assignments().is_empty());
    keep_alive(&mut hall, &[a, b], 1);
    assert_eq!(one(&mut hall, &[(a, "a")]).1.attempt.job, copy);
}

#[test]
fn ground_9_a_read_of_those_who_had_it_that_fails_is_repeated() {
    let mut hall = Hall::new();
    let (_, _, id) = waiting_for_b(&mut hall);
    hall.failing_reads = 3;
    let mut hall = hall.restart(Config::default());
    let (a, b) = (credit(&mut hall, "a"), hall.worker("b", ""));
    keep_alive(&mut hall, &[a, b], 5_000);
    assert_eq!(hall.failing_reads, 0);
    assert!(hall.assignments().is_empty(), "a had it before the restart");
    hall.ask(Request::Credit { session: b, total: 1 }).unwrap();
    assert_eq!(one(&mut hall, &[(b, "b")]).1.attempt.job, id);
}

#[test]
fn ground_9_a_stored_spec_that_differs_from_memory_decides_who_is_avoided() {
    for avoid in [true, false] {
        let mut hall = Hall::new();
        let a = credit(&mut hall, "a");
        let retry = RetryPolicy { backoff: Backoff::Constant { ms: 5_000 }, ..tries(5).unwrap() };
        let id = hall.submit(NewJob { avoid: !avoid, retry: Some(retry), ..avoiding() }).unwrap().id;
        let given = one(&mut hall, &[(a, "a")]);
        fail(&mut hall, &given);
        let b = hall.worker("b", "");
        let Job { spec, status, .. } = hall.stored(id);
        let spec = Some(Arc::new(JobSpec { avoid, ..(*spec).clone() }));
        let (rev, updated_at) = (status.rev + 1, status.updated_at.plus_ms(1));
        let (expected, status) = (status.rev, JobStatus { rev, updated_at, ..status });
        let change = Change { id, expected, status, spec, past: None, want_spec: false };
        hall.store.commit_now(vec![Unit { changes: vec![change], ..Unit::default() }]);
        // A step of the job conflicts with the stored row, which is read and used.
        hall.ask(Request::Hold { id }).unwrap();
        hall.ask(Request::Release { id }).unwrap();
        keep_alive(&mut hall, &[a, b], 5_000);
        assert_eq!(hall.assignments().is_empty(), avoid, "avoid: {avoid}");
    }
}
