//! One live job per (type, key): join, reject, supersede, run again, reuse, and idempotent submits.

use crate::rig::{Hall, failed, job, keyed, passed, tries};
use jobhall_core::{Disposition, Failure, JobId, Json, NewJob, OnDuplicate, StateName, Submitted, TypeName};
use jobhall_kernel::{Answer, Config, Effect, IdempotencyKey, Rejected, Request, Submit};

fn on(on_duplicate: OnDuplicate, params: &str) -> NewJob {
    NewJob { on_duplicate, params: Json::params(params).unwrap(), ..keyed("t", "k") }
}

fn disposition(submitted: Submitted, id: JobId) -> Disposition {
    assert_eq!(submitted.id, id);
    submitted.disposition
}

#[test]
fn h06_a_second_submit_of_a_live_key_joins_the_first() {
    let mut hall = Hall::new();
    let first = hall.submit(keyed("t", "k")).unwrap();
    assert_eq!(disposition(hall.submit(keyed("t", "k")).unwrap(), first.id), Disposition::Joined);
    assert_eq!(hall.submit(keyed("u", "k")).unwrap().disposition, Disposition::Created, "another type");
    assert_eq!(hall.submit(keyed("t", "l")).unwrap().disposition, Disposition::Created, "another key");
    let assignment = hall.take_one("w");
    assert_eq!(disposition(hall.submit(keyed("t", "k")).unwrap(), first.id), Disposition::Joined);
    hall.report("w", &assignment, passed()).unwrap();
    let next = hall.submit(keyed("t", "k")).unwrap();
    assert_eq!(next.disposition, Disposition::Created, "a completed one holds no key");
    assert_ne!(next.id, first.id);
}

#[test]
fn h06_without_a_key_nothing_is_a_duplicate() {
    let mut hall = Hall::new();
    let ids: Vec<_> = (0..3).map(|_| hall.submit(job("t")).unwrap().id).collect();
    assert!(ids[0] < ids[1] && ids[1] < ids[2]);
}

#[test]
fn reject_names_the_holder_and_writes_nothing() {
    let mut hall = Hall::new();
    let first = hall.submit(keyed("t", "k")).unwrap().id;
    let before = hall.store.all_jobs();
    let refused = hall.submit(on(OnDuplicate::Reject, "{}")).unwrap_err();
    assert_eq!(refused, Rejected::KeyHeld { job_type: TypeName::new("t").unwrap(), holder: first });
    assert_eq!(refused.to_string(), format!("type t with this key is held by job {first}"));
    assert_eq!(hall.store.all_jobs(), before);
}

#[test]
fn supersede_cancels_a_waiting_job_and_takes_its_place() {
    let mut hall = Hall::new();
    let old = hall.submit(keyed("t", "k")).unwrap().id;
    let new = hall.submit(on(OnDuplicate::Supersede, "{}")).unwrap();
    assert_eq!(new.disposition, Disposition::Superseding);
    assert_eq!(hall.state(old), StateName::Cancelled);
    assert_eq!(
        hall.show(old).job.status.state.error(),
        Some(&Failure::new("superseded", format!("superseded by job {}", new.id)))
    );
    assert_eq!(hall.take_one("w").attempt.job, new.id);
}

#[test]
fn supersede_waits_for_the_end_of_a_leased_job() {
    let mut hall = Hall::new();
    let old = hall.submit(keyed("t", "k")).unwrap().id;
    let held = hall.take_one("w");
    hall.progress("w", &held).unwrap();
    let second = hall.submit(on(OnDuplicate::Supersede, "2")).unwrap().id;
    assert_eq!(hall.state(second), StateName::Blocked);
    assert!(hall.effects.iter().any(|e| matches!(e, Effect::Cancel(_, attempt) if *attempt == held.attempt)));
    let third = hall.submit(on(OnDuplicate::Supersede, "3")).unwrap().id;
    assert_eq!(hall.state(second), StateName::Cancelled, "a newer one replaces the one that waits");
    assert_eq!(hall.state(third), StateName::Blocked);
    let joined = hall.submit(keyed("t", "k")).unwrap();
    assert_eq!(disposition(joined, third), Disposition::JoinedOther, "join joins the one that waits");
    let session = hall.worker("w2", "");
    hall.vacancy(session, 5);
    assert!(hall.assignments().is_empty(), "two never overlap");
    let answer = hall.report("w", &held, passed());
    assert_eq!(answer, Ok(Answer::State(StateName::Cancelled)), "a late success of a cancelled job");
    let next = hall.assignments();
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].1.attempt.job, third);
    assert_eq!(hall.state(old), StateName::Cancelled);
}

#[test]
fn a_cancelled_successor_leaves_the_line() {
    let mut hall = Hall::new();
    hall.submit(keyed("t", "k")).unwrap();
    let held = hall.take_one("w");
    let second = hall.submit(on(OnDuplicate::Supersede, "2")).unwrap().id;
    assert_eq!(hall.cancel(second), Ok(Answer::State(StateName::Cancelled)));
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.kernel.open_count(), 0);
    assert_eq!(hall.submit(keyed("t", "k")).unwrap().disposition, Disposition::Created);
}

#[test]
fn a_successor_survives_a_restart() {
    let mut hall = Hall::new();
    hall.submit(keyed("t", "k")).unwrap();
    hall.take_one("w");
    let second = hall.submit(on(OnDuplicate::Supersede, "2")).unwrap().id;
    let mut hall = hall.restart(Config::default());
    assert_eq!(hall.state(second), StateName::Blocked);
    hall.pass(30_000);
    assert_eq!(hall.state(second), StateName::Queued, "the lease of the old one has ended");
}

#[test]
fn run_again_makes_one_follow_up_with_the_latest_params() {
    let mut hall = Hall::new();
    let first = hall.submit(keyed("t", "k")).unwrap().id;
    let held = hall.take_one("w");
    for params in ["1", "2", "3"] {
        let again = hall.submit(on(OnDuplicate::RunAgain, params)).unwrap();
        assert_eq!(disposition(again, first), Disposition::Again);
    }
    hall.report("w", &held, passed()).unwrap();
    let next = hall.take_one("w2");
    assert_ne!(next.attempt.job, first);
    assert_eq!(next.spec.params.as_str(), "3");
    hall.report("w2", &next, passed()).unwrap();
    assert_eq!(hall.kernel.open_count(), 0, "coalesced into one");
}

#[test]
fn run_again_on_a_successor_marks_it_and_it_stays_in_line() {
    let mut hall = Hall::new();
    hall.submit(keyed("t", "k")).unwrap();
    let held = hall.take_one("w");
    let second = hall.submit(on(OnDuplicate::Supersede, "2")).unwrap().id;
    for params in ["3", "4"] {
        let again = hall.submit(on(OnDuplicate::RunAgain, params)).unwrap();
        assert_eq!(disposition(again, second), Disposition::Again);
    }
    assert_eq!(disposition(hall.submit(on(OnDuplicate::Join, "2.0")).unwrap(), second), Disposition::Joined);
    hall.report("w", &held, passed()).unwrap();
    let next = hall.take_one("w2");
    assert_eq!((next.attempt.job, next.spec.params.as_str()), (second, "2"));
    hall.report("w2", &next, passed()).unwrap();
    assert_eq!(hall.take_one("w3").spec.params.as_str(), "4");
}

#[test]
fn run_again_is_dropped_on_cancel() {
    let mut hall = Hall::new();
    let first = hall.submit(keyed("t", "k")).unwrap().id;
    let held = hall.take_one("w");
    hall.submit(on(OnDuplicate::RunAgain, "1")).unwrap();
    hall.cancel(first).unwrap();
    let late = hall.submit(on(OnDuplicate::RunAgain, "2")).unwrap();
    assert_eq!(late.disposition, Disposition::Superseding, "a job being cancelled is followed by a new one");
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.kernel.open_count(), 1);
    assert_eq!(hall.take_one("w2").spec.params.as_str(), "2");
}

#[test]
fn run_again_survives_a_retry_of_the_first() {
    let mut hall = Hall::new();
    hall.submit(NewJob { retry: tries(2), ..keyed("t", "k") }).unwrap();
    let held = hall.take_one("w");
    hall.submit(on(OnDuplicate::RunAgain, "7")).unwrap();
    hall.report("w", &held, failed("x")).unwrap();
    hall.pass(10_000);
    let second = hall.take_one("w2");
    hall.report("w2", &second, failed("x")).unwrap();
    assert_eq!(hall.take_one("w3").spec.params.as_str(), "7");
}

#[test]
fn a_young_success_is_reused_and_an_old_one_is_not() {
    let mut hall = Hall::new();
    let reuse = NewJob { reuse: Some(jobhall_core::Reuse::MaxAge(60_000)), ..keyed("t", "k") };
    let first = hall.submit(reuse.clone()).unwrap();
    assert_eq!(first.disposition, Disposition::Created);
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    hall.pass(59_000);
    assert_eq!(disposition(hall.submit(reuse.clone()).unwrap(), first.id), Disposition::Reused);
    assert_eq!(hall.submit(keyed("t", "k")).unwrap().disposition, Disposition::Created, "only who asks");
    let held = hall.take_one("w2");
    hall.report("w2", &held, failed("x")).unwrap();
    hall.cancel(held.attempt.job).unwrap();
    hall.pass(60_010);
    assert_eq!(hall.submit(reuse).unwrap().disposition, Disposition::Created, "older than asked for");
}

#[test]
fn reuse_is_capped_by_the_window_of_the_type() {
    let mut hall = Hall::new();
    let reuse = NewJob { reuse: Some(jobhall_core::Reuse::MaxAge(3_600_000)), ..keyed("t", "k") };
    let first = hall.submit(reuse.clone()).unwrap();
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    let job_type = TypeName::new("t").unwrap();
    let config =
        jobhall_core::TypeConfig { reuse_window_ms: 10_000, ..(*hall.kernel.type_config(&job_type)).clone() };
    hall.ask(Request::SetType { job_type, config: Some(config), expected: None }).unwrap();
    assert_eq!(disposition(hall.submit(reuse.clone()).unwrap(), first.id), Disposition::Reused);
    hall.pass(10_010);
    assert_eq!(hall.submit(reuse).unwrap().disposition, Disposition::Created);
}

#[test]
fn ground_4_only_a_success_above_the_given_job_is_reused_whatever_its_age() {
    let mut hall = Hall::new();
    hall.set_type("t", |config| config.reuse_window_ms = 0);
    let other = hall.submit(job("other")).unwrap().id;
    hall.cancel(other).unwrap();
    let first = hall.submit(keyed("t", "k")).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    hall.pass(3_600_000);
    let above = |id: u64| {
        let id = JobId::new(id).unwrap();
        NewJob { reuse: Some(jobhall_core::Reuse::Above(id)), ..keyed("t", "k") }
    };
    let below = hall.submit(above(other.get())).unwrap();
    assert_eq!((below.id, below.disposition), (first, Disposition::Reused));
    let new = hall.submit(above(first.get())).unwrap();
    assert_eq!(new.disposition, Disposition::Created, "a success of that job itself does not answer");
    assert_eq!(hall.submit(above(new.id.get())).unwrap().disposition, Disposition::Joined, "it is pending");
    let held = hall.take_one("v");
    hall.report("v", &held, passed()).unwrap();
    let newest = hall.submit(above(first.get())).unwrap();
    assert_eq!((newest.id, newest.disposition), (new.id, Disposition::Reused));
    let unkeyed = NewJob { key: None, ..above(other.get()) };
    assert_eq!(hall.submit(unkeyed).unwrap().disposition, Disposition::Created, "it has no key");
}

#[test]
fn any_success_is_reused_whatever_its_number_and_its_age() {
    let mut hall = Hall::new();
    hall.set_type("t", |config| config.reuse_window_ms = 0);
    let any = || NewJob { reuse: Some(jobhall_core::Reuse::Any), ..keyed("t", "k") };
    let first = hall.submit(any()).unwrap();
    assert_eq!((first.id.get(), first.disposition), (1, Disposition::Created), "no number is lower");
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    hall.pass(48 * 3_600_000);
    let second = hall.submit(any()).unwrap();
    assert_eq!((second.id, second.disposition), (first.id, Disposition::Reused));
}

#[test]
fn many_jobs_are_made_all_or_nothing() {
    let mut hall = Hall::new();
    hall.submit(keyed("t", "held")).unwrap();
    let before = hall.store.all_jobs().len();
    let reject = NewJob { on_duplicate: OnDuplicate::Reject, ..keyed("t", "held") };
    assert!(matches!(hall.submit_all(vec![job("a"), reject, job("b")]), Err(Rejected::KeyHeld { .. })));
    assert_eq!(hall.store.all_jobs().len(), before);
    let answers =
        hall.submit_all(vec![job("a"), keyed("t", "held"), keyed("t", "new"), keyed("t", "new")]).unwrap();
    let dispositions: Vec<_> = answers.iter().map(|answer| answer.disposition).collect();
    assert_eq!(
        dispositions,
        [Disposition::Created, Disposition::Joined, Disposition::Created, Disposition::Joined]
    );
    assert_eq!(answers[2].id, answers[3].id);
}

#[test]
fn a_join_says_whether_the_params_differ_as_values() {
    let mut hall = Hall::new();
    let first = hall.submit(on(OnDuplicate::Join, r#"{"a":1,"b":[2]}"#)).unwrap().id;
    for (params, expected) in [
        (r#"{ "b": [2.0], "a": 1e0 }"#, Disposition::Joined),
        (r#"{"a":1,"b":[2,3]}"#, Disposition::JoinedOther),
        ("{}", Disposition::JoinedOther),
    ] {
        let joined = hall.submit(on(OnDuplicate::Join, params)).unwrap();
        assert_eq!(disposition(joined, first), expected, "{params}");
    }
    assert_eq!(hall.show(first).job.spec.params.as_str(), r#"{"a":1,"b":[2]}"#);
    assert_eq!(hall.store.all_jobs().len(), 1);
}

#[test]
fn each_job_of_a_submit_says_whether_its_params_differ() {
    let mut hall = Hall::new();
    hall.submit(on(OnDuplicate::Join, "1")).unwrap();
    let like = |key: &str, params: &str| NewJob { params: Json::params(params).unwrap(), ..keyed("t", key) };
    let jobs = vec![
        like("k", "1"),
        like("k", "2"),
        like("new", "1"),
        like("new", "2"),
        like("new", "1.0"),
        job("t"),
    ];
    let answers = hall.submit_all(jobs).unwrap();
    let differ: Vec<_> = answers.iter().map(|answer| answer.disposition.params_differ()).collect();
    assert_eq!(differ, [false, true, false, true, false, false]);
    let jobs = vec![like("k", "2"), like("k", "2"), like("k", "1")];
    let answers = hall.submit_all(jobs).unwrap();
    let differ: Vec<_> = answers.iter().map(|answer| answer.disposition.params_differ()).collect();
    assert_eq!(
        differ,
        [true, true, false],
        "compared with the job that is joined, not with the first of them"
    );
}

#[test]
fn the_params_of_a_joined_successor_are_read_if_they_are_not_in_memory() {
    let config = || Config { spec_bytes: 0, ..Config::default() };
    let mut hall = Hall::with(config());
    hall.submit(on(OnDuplicate::Join, "1")).unwrap();
    hall.take_one("w");
    let second = hall.submit(on(OnDuplicate::Supersede, "2")).unwrap().id;
    let mut hall = hall.restart(config());
    for (params, expected) in [("2", Disposition::Joined), ("1", Disposition::JoinedOther)] {
        let joined = hall.submit(on(OnDuplicate::Join, params)).unwrap();
        assert_eq!(disposition(joined, second), expected, "{params}");
    }
}

#[test]
fn one_key_twice_in_a_submit_must_join() {
    let mut hall = Hall::new();
    let supersede = NewJob { on_duplicate: OnDuplicate::Supersede, ..keyed("t", "k") };
    let refused = hall.submit_all(vec![job("a"), keyed("t", "k"), supersede]).unwrap_err();
    assert_eq!(refused, Rejected::KeyTwice { first: 1, second: 2 });
    assert!(hall.store.all_jobs().is_empty());
}

fn named(key: &str, body: u128, jobs: Vec<NewJob>) -> Request {
    let name = IdempotencyKey { scope: "token-1".to_owned(), key: key.to_owned(), body };
    Request::Submit { submit: Submit { jobs, name: Some(name), ..Submit::default() } }
}

#[test]
fn a_repeated_idempotency_key_gives_the_first_answer() {
    let mut hall = Hall::new();
    let first = hall.ask(named("a", 1, vec![job("t"), keyed("t", "k")])).unwrap();
    let Answer::Submitted(submitted) = &first else { panic!("{first:?}") };
    assert_eq!(submitted.len(), 2);
    assert_eq!(hall.ask(named("a", 1, vec![job("t"), keyed("t", "k")])).unwrap(), first);
    assert_eq!(hall.store.all_jobs().len(), 2);
    assert_eq!(hall.ask(named("a", 2, vec![job("t")])), Err(Rejected::IdempotencyKeyReused));
    let mut hall = hall.restart(Config::default());
    assert_eq!(
        hall.ask(named("a", 1, vec![job("t"), keyed("t", "k")])).unwrap(),
        first,
        "also after a restart"
    );
    hall.pass(24 * 3_600_000 + 1);
    assert_ne!(
        hall.ask(named("a", 2, vec![job("t")])),
        Err(Rejected::IdempotencyKeyReused),
        "forgotten after a day"
    );
}

#[test]
fn a_repeated_idempotency_key_answers_alike_even_if_everything_was_joined() {
    let mut hall = Hall::new();
    let holder = hall.submit(keyed("t", "k")).unwrap().id;
    let joined = Ok(Answer::Submitted(vec![Submitted { id: holder, disposition: Disposition::Joined }]));
    assert_eq!(hall.ask(named("a", 1, vec![keyed("t", "k")])), joined);
    hall.cancel(holder).unwrap();
    assert_eq!(hall.ask(named("a", 1, vec![keyed("t", "k")])), joined, "as at first, though it has ended");
    let holder = hall.submit(keyed("t", "k")).unwrap().id;
    let other = || vec![on(OnDuplicate::Join, "2")];
    let joined = Ok(Answer::Submitted(vec![Submitted { id: holder, disposition: Disposition::JoinedOther }]));
    assert_eq!(hall.ask(named("b", 1, other())), joined);
    hall.cancel(holder).unwrap();
    assert_eq!(hall.ask(named("b", 1, other())), joined, "other params are still said to differ");
}

#[test]
fn h06_racing_submits_of_one_key_get_one_id() {
    let mut hall = Hall::new();
    hall.hold = true;
    let request = || Request::Submit { submit: Submit { jobs: vec![keyed("t", "k")], ..Submit::default() } };
    let tickets: Vec<_> = (0..64).map(|_| hall.ask_later(request())).collect();
    hall.let_through();
    let ids: Vec<_> = tickets
        .iter()
        .map(|ticket| match hall.answers.remove(ticket) {
            Some(Ok(Answer::Submitted(submitted))) => submitted[0],
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(ids.iter().all(|submitted| submitted.id == ids[0].id));
    let created = ids.iter().filter(|submitted| submitted.disposition == Disposition::Created).count();
    assert_eq!((created, hall.store.all_jobs().len()), (1, 1));
}
