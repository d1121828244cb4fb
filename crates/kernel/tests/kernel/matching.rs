//! Who gets which job, and in which order; and why a job waits.

use crate::rig::{Hall, failed, job, keyed, passed, tries};
use jobhall_core::limits::Limit;
use jobhall_core::needs::Needs;
use jobhall_core::{Failure, Json, NewJob, OnDuplicate, QueueName, StateName};
use jobhall_kernel::{Answer, Config, Rejected, Request, Why};

fn needing(needs: &str) -> NewJob {
    NewJob { needs: Needs::parse(needs).unwrap(), ..job("t") }
}

#[test]
fn l13_a_worker_that_does_not_suit_never_gets_the_job() {
    let mut hall = Hall::new();
    let gpu = hall.submit(needing("gpu>=1, os=linux")).unwrap().id;
    for (name, abilities) in [("a", ""), ("b", "gpu=1"), ("c", "gpu=0, os=linux"), ("d", "gpu=1, os=mac")] {
        let session = hall.worker(name, abilities);
        hall.vacancy(session, 1);
    }
    let picky = hall.worker_with("e", "gpu=8, os=linux", "type=other");
    hall.vacancy(picky, 1);
    assert!(hall.assignments().is_empty());
    let second = hall.submit(needing("gpu>=1, os=linux")).unwrap().id;
    assert!(hall.assignments().is_empty());
    let session = hall.worker("f", "gpu=2, os=linux, spot");
    hall.vacancy(session, 5);
    let given: Vec<_> = hall.assignments().iter().map(|(session, a)| (*session, a.attempt.job)).collect();
    assert_eq!(given, [(session, gpu), (session, second)]);
}

#[test]
fn l16_the_order_is_priority_then_time_then_id() {
    let mut hall = Hall::new();
    let start = hall.now.wall;
    let with = |priority, ms| NewJob { priority, run_at: Some(start.minus_ms(ms)), ..job("t") };
    let wanted = [with(100, 0), with(100, 0), with(5, 0), with(100, 9), with(-1, 0)];
    let ids: Vec<_> = wanted.into_iter().map(|job| hall.submit(job).unwrap().id).collect();
    let session = hall.worker("w", "");
    hall.vacancy(session, 10);
    let order: Vec<_> = hall.assignments().iter().map(|(_, a)| a.attempt.job).collect();
    assert_eq!(order, [ids[4], ids[2], ids[3], ids[0], ids[1]]);
}

#[test]
fn h15_priority_matters_only_when_there_is_more_work_than_room() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    hall.vacancy(session, 2);
    let low = hall.submit(NewJob { priority: 900, ..job("t") }).unwrap().id;
    let usual = hall.submit(job("t")).unwrap().id;
    assert_eq!(hall.show(usual).job.spec.priority, 100);
    let taken: Vec<_> = hall.assignments().iter().map(|(_, a)| a.attempt.job).collect();
    assert_eq!(taken, [low, usual], "there is room for both, so nobody waits");
    let ids = [100, 900, 5].map(|priority| hall.submit(NewJob { priority, ..job("t") }).unwrap().id);
    for next in [ids[2], ids[0], ids[1]] {
        hall.vacancy(session, 1);
        let given: Vec<_> = hall.assignments().iter().map(|(_, a)| a.attempt.job).collect();
        assert_eq!(given, [next], "the lower number goes first");
    }
}

#[test]
fn l16_the_order_holds_across_classes() {
    let mut hall = Hall::new();
    let mut ids = Vec::new();
    for n in 0..30 {
        let queue = QueueName::new(&format!("q{}", n % 7)).unwrap();
        ids.push(hall.submit(NewJob { queue, ..needing(["", "os=linux"][n % 2]) }).unwrap().id);
    }
    let session = hall.worker("w", "os=linux");
    for id in ids {
        hall.vacancy(session, 1);
        let given = hall.assignments();
        assert_eq!((given.len(), given[0].1.attempt.job), (1, id));
    }
}

#[test]
fn l14_of_two_vacancies_exactly_one_gets_the_job_and_the_other_waits_out_its_time() {
    let mut hall = Hall::new();
    let (first, second) = (hall.worker("a", ""), hall.worker("b", ""));
    hall.ask(Request::Vacancy { session: first, slots: 1, wait_ms: 20_000 }).unwrap();
    hall.ask(Request::Vacancy { session: second, slots: 1, wait_ms: 20_000 }).unwrap();
    hall.pass(15_000);
    hall.submit(job("t")).unwrap();
    let given = hall.assignments();
    assert_eq!((given.len(), given[0].0), (1, first), "the one that waited longer");
    hall.report("a", &given[0].1, passed()).unwrap();
    hall.pass(4_999);
    hall.submit(job("t")).unwrap();
    let given = hall.assignments();
    assert_eq!((given.len(), given[0].0), (1, second), "still there for its remaining time");
    hall.report("b", &given[0].1, passed()).unwrap();
    let third = hall.worker("c", "");
    hall.ask(Request::Vacancy { session: third, slots: 1, wait_ms: 20_000 }).unwrap();
    hall.pass(20_000);
    hall.submit(job("u")).unwrap();
    assert!(hall.assignments().is_empty(), "and not longer");
}

#[test]
fn l14_a_job_has_one_assignment_however_many_vacancies_race() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    hall.hold = true;
    for n in 0..8 {
        let session = hall.worker(&format!("w{n}"), "");
        hall.ask_later(Request::Vacancy { session, slots: 1, wait_ms: 30_000 });
    }
    hall.let_through();
    assert_eq!(hall.assignments().len(), 1);
    assert_eq!(hall.stored(id).status.claim, 1);
}

#[test]
fn a_job_never_starts_early_and_starts_when_its_time_comes() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    hall.ask(Request::Vacancy { session, slots: 2, wait_ms: 1_000_000 }).unwrap();
    let run_at = hall.now.wall.plus_ms(20_000);
    let id = hall.submit(NewJob { run_at: Some(run_at), ..job("t") }).unwrap().id;
    assert_eq!(hall.state(id), StateName::Scheduled);
    hall.pass(19_999);
    assert!(hall.assignments().is_empty());
    hall.pass(1);
    assert_eq!(hall.assignments().len(), 1);
    let default = hall.submit(job("t")).unwrap().id;
    assert_eq!(hall.show(default).job.status.run_at, hall.now.wall, "the default is now");
}

#[test]
fn a_wall_clock_that_goes_back_makes_a_job_wait_for_its_time_again() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    hall.now.wall = hall.now.wall.minus_ms(60_000);
    let session = hall.worker("w", "");
    hall.ask(Request::Vacancy { session, slots: 1, wait_ms: 1_000_000 }).unwrap();
    assert!(hall.assignments().is_empty());
    hall.pass(25_000);
    hall.ask(Request::Renew { session }).unwrap();
    hall.pass(25_000);
    hall.ask(Request::Renew { session }).unwrap();
    hall.pass(10_000);
    assert_eq!(hall.assignments()[0].1.attempt.job, id);
}

#[test]
fn specs_that_do_not_fit_into_memory_are_read_back() {
    let mut hall = Hall::with(Config { spec_bytes: 1_000, ..Config::default() });
    let params = |n: usize| Json::params(&format!("[{n}]")).unwrap();
    let ids: Vec<_> =
        (0..20).map(|n| hall.submit(NewJob { params: params(n), ..job("t") }).unwrap().id).collect();
    assert_eq!(hall.show(ids[19]).job.spec.params, params(19));
    assert_eq!(hall.cancel(ids[18]), Ok(Answer::State(StateName::Cancelled)));
    let session = hall.worker("w", "");
    hall.vacancy(session, 20);
    let given = hall.assignments();
    assert_eq!(given.len(), 19);
    for (n, (_, assignment)) in given.iter().take(18).enumerate() {
        assert_eq!((assignment.attempt.job, &assignment.spec.params), (ids[n], &params(n)));
    }
}

#[test]
fn slots_are_bounded() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    for slots in [0, 10_001] {
        let refused = hall.ask(Request::Vacancy { session, slots, wait_ms: 1 }).unwrap_err();
        assert_eq!(refused.to_string(), format!("slots of {slots} is outside 1 to 10000"));
    }
}

#[test]
fn every_reason_to_wait_is_explained() {
    let mut hall = Hall::new();
    let why = |hall: &mut Hall, id| hall.explain(id).why;
    let id = hall.submit(needing("gpu>=4")).unwrap().id;
    assert!(matches!(&why(&mut hall, id)[..], [Why::NoWorkers(_)]));
    let small = hall.worker("small", "gpu=2");
    let words = hall.explain(id).to_string();
    assert_eq!(
        words,
        format!(
            "job {id} is queued\nno connected worker matches\n  worker small: gpu>=4: this worker has gpu=2"
        )
    );
    let picky = hall.worker_with("picky", "gpu=8", "type=other");
    let text = hall.explain(id).to_string();
    assert!(text.contains("worker picky: type=other: this job has type=t"), "{text}");
    let mut other = Hall::new();
    let unknown = other.submit(job("foo")).unwrap().id;
    other.worker_with("local", "", "type in (exec,mail)");
    other.worker_with("small", "", "type=mail");
    let expected = "no worker runs jobs of type foo (local runs: exec, mail; small runs: mail)";
    assert_eq!(other.explain(unknown).to_string(), format!("job {unknown} is queued\n{expected}"));
    let both = other.submit(NewJob { job_type: job("foo").job_type, ..needing("gpu>=4") }).unwrap().id;
    let lacks = |worker| format!("\n  worker {worker}: gpu>=4: this worker has no gpu");
    let expected = format!("{expected}{}{}", lacks("local"), lacks("small"));
    assert_eq!(other.explain(both).to_string(), format!("job {both} is queued\n{expected}"));
    hall.worker("large", "gpu=4");
    assert_eq!(why(&mut hall, id), [Why::NoVacancy(vec![crate::rig::worker("large")])]);
    let words = hall.explain(id).to_string();
    assert_eq!(words, format!("job {id} is queued\nno matching worker has a free slot: large"));
    let later = hall.now.wall.plus_ms(1_000);
    let scheduled = hall.submit(NewJob { run_at: Some(later), ..job("t") }).unwrap().id;
    assert_eq!(why(&mut hall, scheduled), [Why::NotDue(later)]);
    let retried = hall.submit(NewJob { retry: tries(2), priority: 1, ..job("r") }).unwrap().id;
    let held = hall.take_one("w");
    assert_eq!(why(&mut hall, retried), [Why::NotAccepted(crate::rig::worker("w"))]);
    hall.accept("w", &held).unwrap();
    assert_eq!(why(&mut hall, retried), [Why::Running(crate::rig::worker("w"))]);
    hall.report("w", &held, failed("boom")).unwrap();
    assert!(matches!(&why(&mut hall, retried)[..], [Why::Backoff { error, .. }] if error.reason == "boom"));
    let key = NewJob { priority: 0, ..keyed("k", "k") };
    let holder = hall.submit(key.clone()).unwrap().id;
    let held = hall.take_one("w2");
    let next = NewJob { on_duplicate: OnDuplicate::Supersede, ..key };
    let next = hall.submit(next).unwrap().id;
    assert!(matches!(&why(&mut hall, next)[..], [Why::KeyHeld(blocker)] if blocker.job == holder));
    assert_eq!(why(&mut hall, holder), [Why::Cancelling(crate::rig::worker("w2"))]);
    hall.report("w2", &held, passed()).unwrap();
    assert!(matches!(&why(&mut hall, holder)[..], [Why::Ended(end)] if end.state == StateName::Cancelled));
    assert_ne!(small, picky);
}

#[test]
fn a_job_on_its_way_says_so() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    let id = hall.submit(job("t")).unwrap().id;
    hall.hold = true;
    hall.ask_later(Request::Vacancy { session, slots: 1, wait_ms: 1_000 });
    let ticket = hall.ask_later(Request::Explain { id });
    assert!(!hall.answers.contains_key(&ticket), "it waits in line for the claim");
    hall.let_through();
    let Some(Ok(Answer::Explained(explanation))) = hall.answers.remove(&ticket) else { panic!("no answer") };
    assert_eq!(explanation.why, [Why::NotAccepted(crate::rig::worker("w"))]);
}

#[test]
fn a_job_released_by_a_limit_takes_no_slot_before_a_better_one() {
    let mut hall = Hall::new();
    let limit = Limit { by: None, concurrency: Some(2), rate: None };
    hall.set_type("limited", |config| config.limits = vec![limit]);
    let session = hall.worker("w", "");
    hall.credit(session, 10);
    let with = |job_type, priority| NewJob { priority, ..job(job_type) };
    let submit = |hall: &mut Hall, wanted| hall.submit(wanted).unwrap().id;
    submit(&mut hall, with("limited", 100));
    submit(&mut hall, with("limited", 100));
    let running = hall.assignments();
    let (first, last) = (submit(&mut hall, with("limited", 1)), submit(&mut hall, with("limited", 200)));
    hall.credit(session, 2);
    let second = submit(&mut hall, with("other", 100));
    for (_, assignment) in &running {
        hall.report("w", assignment, passed()).unwrap();
    }
    assert!(hall.assignments().is_empty(), "no slot is free");
    hall.credit(session, 4);
    let given: Vec<_> = hall.assignments().iter().map(|(_, a)| a.attempt.job).collect();
    assert_eq!(given, [first, second]);
    hall.credit(session, 5);
    let given: Vec<_> = hall.assignments().iter().map(|(_, a)| a.attempt.job).collect();
    assert_eq!(given, [last]);
}

#[test]
fn bad_numbers_are_refused_by_name_and_nothing_is_written() {
    let mut hall = Hall::with(Config { open_jobs: 3, ..Config::default() });
    assert!(matches!(hall.submit_all(Vec::new()), Err(Rejected::Bound { field: "jobs", given: 0, .. })));
    let many = vec![job("t"); 10_001];
    let refused = hall.submit_all(many).unwrap_err();
    assert_eq!(refused.to_string(), "jobs of 10001 is outside 1 to 10000");
    let refused = hall.submit(NewJob { retry: tries(0), ..job("t") }).unwrap_err();
    assert_eq!(refused.to_string(), "max_attempts of 0 is outside 1 to 1000");
    let refused = hall
        .submit(NewJob { reuse: Some(jobhall_core::Reuse::MaxAge(u64::MAX)), ..keyed("t", "k") })
        .unwrap_err();
    assert!(
        refused.to_string().starts_with("reuse max_age of 18446744073709551615 is outside 0 to "),
        "{refused}"
    );
    assert!(hall.store.all_jobs().is_empty());
    hall.submit_all(vec![job("t"); 3]).unwrap();
    assert_eq!(hall.submit(job("t")).unwrap_err().to_string(), "the hall has 3 open jobs; the limit is 3");
}

#[test]
fn audit_l11_one_queue_cannot_take_all_open_jobs() {
    let mut hall = Hall::with(Config { open_jobs: 4, open_jobs_per_queue: 2, ..Config::default() });
    let on = |queue: &str| NewJob { queue: QueueName::new(queue).unwrap(), ..job("t") };
    hall.submit_all(vec![on("red"), on("red")]).unwrap();
    assert_eq!(
        hall.submit_all(vec![on("blue"), on("red")]).unwrap_err().to_string(),
        "queue red has 2 open jobs; the limit of one queue is 2"
    );
    assert_eq!(
        hall.submit_all(vec![on("blue"); 3]).unwrap_err().to_string(),
        "the hall has 2 open jobs; the limit is 4"
    );
    hall.submit(on("blue")).unwrap();
    assert_eq!(hall.store.all_jobs().len(), 3, "a refused submit writes nothing");
    let red = hall.store.all_jobs()[0].id;
    hall.ask(Request::Cancel { id: red, failure: Failure::new("cancelled", "") }).unwrap();
    hall.submit(on("red")).unwrap();
}
