//! What a session has of its own: its lease, whether its process began anew, and the name of its worker.

use crate::rig::{Hall, failed, job, passed, worker};
use jobhall_core::needs::{Abilities, Accepts, Needs, Uses};
use jobhall_core::{AttemptId, JobId, LeaseId, NewJob, QueueName, StateName};
use jobhall_kernel::{Answer, Assignment, Config, Effect, OpenedSession, Rejected, Request, SessionId, Why};

/// Opens a session with this lease.
fn open(
    hall: &mut Hall,
    name: &str,
    attempts: Vec<(AttemptId, LeaseId)>,
    (lease_ms, fresh): (Option<u64>, bool),
) -> Result<OpenedSession, Rejected> {
    let (abilities, accepts) = (Abilities::parse("gpu=2").unwrap(), Accepts::default());
    let worker = worker(name);
    match hall.ask(Request::OpenSession { worker, abilities, accepts, attempts, lease_ms, fresh })? {
        Answer::Session(opened) => Ok(opened),
        other => panic!("{other:?}"),
    }
}

fn short(hall: &mut Hall, name: &str, lease_ms: u64) -> SessionId {
    open(hall, name, Vec::new(), (Some(lease_ms), false)).unwrap().session
}

fn ended(hall: &Hall, session: SessionId) -> bool {
    hall.effects.iter().any(|effect| matches!(effect, Effect::SessionEnded(id) if *id == session))
}

fn using(uses: &str) -> NewJob {
    NewJob { uses: Uses::parse(uses).unwrap(), ..job("t") }
}

fn needing(needs: &str) -> NewJob {
    NewJob { needs: Needs::parse(needs).unwrap(), ..job("t") }
}

/// A worker with one free slot.
fn free(hall: &mut Hall, name: &str) -> SessionId {
    let session = hall.worker(name, "");
    hall.credit(session, 1);
    session
}

fn assigned(hall: &mut Hall) -> Vec<(SessionId, JobId)> {
    hall.assignments().into_iter().map(|(session, given)| (session, given.attempt.job)).collect()
}

#[test]
fn ground_8_a_session_lives_as_long_as_its_own_lease() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let (quick, slow) = (short(&mut hall, "quick", 3_000), short(&mut hall, "slow", 30_000));
    hall.vacancy(quick, 1);
    hall.pass(2_999);
    assert!(!ended(&hall, quick));
    hall.ask(Request::Renew { session: quick }).unwrap();
    hall.pass(2_999);
    assert!(!ended(&hall, quick), "a renewal lasts for the same time");
    hall.pass(1);
    assert!(ended(&hall, quick) && !ended(&hall, slow));
    assert_ne!(hall.state(id), StateName::Assigned, "its lease ended with it");
    hall.pass(24_000);
    assert!(!ended(&hall, slow));
    hall.pass(1);
    assert!(ended(&hall, slow));
}

#[test]
fn ground_8_a_lease_out_of_bounds_is_refused_with_the_bounds() {
    let mut hall = Hall::new();
    for given in [0, 2_999, 30_001, u64::MAX] {
        let refused = open(&mut hall, "w", Vec::new(), (Some(given), true));
        let (least, most) = (3_000, 30_000);
        assert_eq!(refused, Err(Rejected::Bound { field: "lease_ms", given, least, most }));
        assert!(refused.unwrap_err().to_string().contains("lease_ms of"));
    }
    for (asked, lease_ms) in [(None, 30_000), (Some(3_000), 3_000), (Some(30_000), 30_000)] {
        assert_eq!(open(&mut hall, "w", Vec::new(), (asked, false)).unwrap().lease_ms, lease_ms);
    }
    let mut small = Hall::with(Config { lease_ms: 500, ..Config::default() });
    assert_eq!(open(&mut small, "w", Vec::new(), (Some(500), false)).unwrap().lease_ms, 500);
}

#[test]
fn ground_8_a_refused_session_ends_none_of_its_worker() {
    let mut hall = Hall::new();
    let (old, held) = died(&mut hall, true);
    let brought = vec![(held.attempt, held.lease)];
    for given in [2_999, 30_001] {
        open(&mut hall, "w", brought.clone(), (Some(given), true)).unwrap_err();
    }
    assert!(!ended(&hall, old));
    assert_eq!(hall.state(held.attempt.job), StateName::Accepted, "its attempt has not moved either");
    let opened = open(&mut hall, "w", brought, (Some(3_000), true)).unwrap();
    assert_eq!((opened.kept, ended(&hall, old)), (vec![held.attempt], true));
}

#[test]
fn ground_8_silence_is_measured_by_the_lease_of_the_session() {
    let mut hall = Hall::new();
    short(&mut hall, "quick", 6_000);
    short(&mut hall, "slow", 30_000);
    hall.pass(4_000);
    let used = hall.kernel.workers_in_use();
    let silent: Vec<_> =
        used.iter().map(|used| used.silence.as_ref().map(|silence| silence.silent_ms)).collect();
    assert_eq!(silent, [Some(4_000), None]);
}

/// A worker uses all its GPUs for a job, and its process dies; the server has noticed that or not.
fn died(hall: &mut Hall, noticed: bool) -> (SessionId, Assignment) {
    hall.submit(using("gpu=2")).unwrap();
    let session = open(hall, "w", Vec::new(), (None, false)).unwrap().session;
    hall.credit(session, 5);
    let given = hall.assignments().remove(0).1;
    hall.accept("w", &given).unwrap();
    if noticed {
        hall.ask(Request::Disconnect { session }).unwrap();
    }
    (session, given)
}

#[test]
fn ground_8_a_fresh_session_ends_the_disconnected_ones_of_its_worker_at_once() {
    for fresh in [true, false] {
        let mut hall = Hall::new();
        let (old, _) = died(&mut hall, true);
        let other = hall.worker("other", "");
        hall.ask(Request::Disconnect { session: other }).unwrap();
        let new = open(&mut hall, "w", Vec::new(), (None, fresh)).unwrap().session;
        hall.credit(new, 1);
        assert_eq!(ended(&hall, old), fresh);
        assert!(!ended(&hall, other), "another worker is not concerned");
        assert_eq!(assigned(&mut hall).len() == 1, fresh, "its resources are free again");
    }
}

#[test]
fn ground_8_a_fresh_session_ends_no_connected_one_and_none_whose_attempts_it_brings() {
    let mut hall = Hall::new();
    let (old, _) = died(&mut hall, false);
    open(&mut hall, "w", Vec::new(), (None, true)).unwrap();
    assert!(!ended(&hall, old), "it is connected");
    let mut hall = Hall::new();
    let (old, held) = died(&mut hall, true);
    let brought = vec![(held.attempt, held.lease)];
    let opened = open(&mut hall, "w", brought, (None, true)).unwrap();
    assert_eq!((opened.kept, ended(&hall, old)), (vec![held.attempt], true));
    assert_eq!(hall.state(held.attempt.job), StateName::Accepted, "its attempt moved before");
}

#[test]
fn ground_8_a_fresh_session_after_a_restart_of_the_server_ends_the_leases_from_before() {
    for fresh in [true, false] {
        let mut hall = Hall::new();
        let (_, held) = died(&mut hall, false);
        let mut hall = hall.restart(Config::default());
        let new = open(&mut hall, "w", Vec::new(), (None, fresh)).unwrap().session;
        hall.credit(new, 1);
        let claim = hall.show(held.attempt.job).job.status.claim;
        assert_eq!(claim > held.attempt.claim, fresh, "it is assigned again at once");
    }
}

#[test]
fn ground_8_a_job_goes_to_the_workers_that_it_names() {
    let mut hall = Hall::new();
    let (a, b, c) = (free(&mut hall, "a"), free(&mut hall, "b"), free(&mut hall, "c"));
    let only_b = hall.submit(needing("worker=b")).unwrap().id;
    assert_eq!(assigned(&mut hall), [(b, only_b)]);
    let again = hall.submit(needing("worker=b")).unwrap().id;
    let not_a = hall.submit(needing(r#"worker notin ("a","b")"#)).unwrap().id;
    assert_eq!(assigned(&mut hall), [(c, not_a)]);
    let either = hall.submit(needing(r#"worker in ("a","c")"#)).unwrap().id;
    assert_eq!(assigned(&mut hall), [(a, either)], "the first in the line of b does not hold it up");
    hall.credit(b, 2);
    assert_eq!(assigned(&mut hall), [(b, again)]);
}

#[test]
fn ground_8_explain_names_the_worker_that_a_job_needs() {
    let mut hall = Hall::new();
    free(&mut hall, "a");
    let id = hall.submit(needing("worker=b")).unwrap().id;
    let text = hall.explain(id).to_string();
    assert!(text.contains("worker a: worker=b: this worker has the name a"), "{text}");
    let session = hall.worker("b", "");
    assert_eq!(hall.explain(id).why, [Why::NoVacancy(vec![worker("b")])]);
    let takers = |hall: &mut Hall| {
        let name = QueueName::new("default").unwrap();
        match hall.ask(Request::Queue { name }).unwrap() {
            Answer::Queue(Some((_, takers))) => takers.workers,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(takers(&mut hall), 1, "b alone");
    hall.ask(Request::CloseSession { session }).unwrap();
    assert_eq!(takers(&mut hall), 0);
}

#[test]
fn ground_8_a_job_that_avoids_a_worker_waits_only_for_one_that_it_may_go_to() {
    let mut hall = Hall::new();
    let a = free(&mut hall, "a");
    let retry = crate::rig::tries(3).map(|retry| jobhall_core::RetryPolicy {
        backoff: jobhall_core::Backoff::Constant { ms: 0 },
        ..retry
    });
    hall.submit(NewJob { avoid: true, retry, ..needing("worker!=b") }).unwrap();
    let given = hall.assignments().remove(0).1;
    hall.accept("a", &given).unwrap();
    hall.worker("b", "");
    hall.credit(a, 2);
    hall.report("a", &given, failed("no")).unwrap();
    assert_eq!(assigned(&mut hall), [(a, given.attempt.job)], "b is none that it waits for");
}

fn offer(hall: &mut Hall, session: SessionId, abilities: &str, accepts: &str) -> Result<Answer, Rejected> {
    let (abilities, accepts) = (Abilities::parse(abilities).unwrap(), Accepts::parse(accepts).unwrap());
    hall.ask(Request::SetAbilities { session, abilities, accepts })
}

fn of_version(version: &str) -> NewJob {
    needing(&format!("commands=clean@{version}"))
}

#[test]
fn a_session_takes_jobs_of_what_it_offers_now_and_its_attempts_go_on() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "commands=[clean@1]");
    hall.credit(session, 3);
    let first = hall.submit(of_version("1")).unwrap().id;
    let given = hall.assignments();
    assert_eq!(given.iter().map(|given| given.1.attempt.job).collect::<Vec<_>>(), [first]);
    let new = hall.submit(of_version("2")).unwrap().id;
    assert_eq!(assigned(&mut hall), [], "it does not offer this version yet");
    offer(&mut hall, session, "commands=[clean@2]", "").unwrap();
    assert_eq!(assigned(&mut hall), [(session, new)], "without another word of the worker");
    let old = hall.submit(of_version("1")).unwrap().id;
    assert_eq!(assigned(&mut hall), [], "nor does it offer the old one any more");
    hall.accept("w", &given[0].1).unwrap();
    hall.report("w", &given[0].1, passed()).unwrap();
    assert_eq!(hall.state(first), StateName::Succeeded);
    offer(&mut hall, session, "commands=[clean@1]", "").unwrap();
    assert_eq!(assigned(&mut hall), [(session, old)], "a revert, with a slot that was free before");
}

#[test]
fn a_session_that_accepts_other_types_is_filled_with_them() {
    let mut hall = Hall::new();
    let session = hall.worker_with("w", "", "type in (none)");
    hall.vacancy(session, 2);
    hall.credit(session, 1);
    let ids: Vec<JobId> = (0..4).map(|_| hall.submit(job("t")).unwrap().id).collect();
    assert_eq!(assigned(&mut hall), []);
    offer(&mut hall, session, "", "type in (t)").unwrap();
    let taken: Vec<JobId> = assigned(&mut hall).into_iter().map(|(_, id)| id).collect();
    assert_eq!(taken, ids[..3], "each vacancy of the session, as far as it goes");
}

#[test]
fn a_claim_in_flight_was_decided_on_what_the_session_offered_before() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "commands=[clean@1]");
    let id = hall.submit(of_version("1")).unwrap().id;
    hall.hold = true;
    hall.ask_later(Request::Credit { session, total: 1 });
    offer(&mut hall, session, "commands=[clean@2]", "").unwrap();
    hall.let_through();
    assert_eq!(assigned(&mut hall), [(session, id)]);
    hall.credit(session, 2);
    let new = hall.submit(of_version("2")).unwrap().id;
    assert_eq!(assigned(&mut hall), [(session, new)]);
}

#[test]
fn a_job_goes_elsewhere_when_the_worker_that_is_reserved_for_it_no_longer_suits() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "gpu=2, commands=[clean@1]");
    hall.credit(session, 5);
    hall.submit(using("gpu=1")).unwrap();
    let small = hall.assignments().remove(0).1;
    hall.accept("w", &small).unwrap();
    let large = NewJob { uses: Uses::parse("gpu=2").unwrap(), ..of_version("1") };
    let large = hall.submit(large).unwrap().id;
    hall.pass(29_999);
    hall.ask(Request::Renew { session }).unwrap();
    hall.pass(1);
    assert_eq!(hall.kernel.workers_in_use()[0].reserved_for, Some(large));
    offer(&mut hall, session, "gpu=2, commands=[clean@2]", "").unwrap();
    assert_eq!(hall.kernel.workers_in_use()[0].reserved_for, None);
}

#[test]
fn what_a_session_offers_is_replaced_only_while_it_is_connected() {
    let mut hall = Hall::new();
    let session = free(&mut hall, "w");
    hall.ask(Request::Disconnect { session }).unwrap();
    assert_eq!(offer(&mut hall, session, "gpu=1", ""), Err(Rejected::NoSuchSession));
    assert_eq!(offer(&mut hall, SessionId(1), "gpu=1", ""), Err(Rejected::NoSuchSession));
}
