//! What jobs use of their workers: never more than there is, given back exactly, and shared fairly with large jobs.

use std::collections::VecDeque;

use crate::rig::{Hall, failed, job, passed, tries};
use jobhall_core::needs::Uses;
use jobhall_core::{JobId, NewJob, QueueConfig, QueueName, StateName};
use jobhall_kernel::{Answer, Assignment, AttemptRef, Config, Noted, Request, SessionId, Why, WorkerUse};
use jobhall_store::CommitError;

fn using(uses: &str) -> NewJob {
    NewJob { uses: Uses::parse(uses).unwrap(), ..job("t") }
}

fn submit(hall: &mut Hall, uses: &str) -> JobId {
    hall.submit(using(uses)).unwrap().id
}

fn jobs(given: &[(SessionId, Assignment)]) -> Vec<JobId> {
    given.iter().map(|(_, assignment)| assignment.attempt.job).collect()
}

fn workers(hall: &mut Hall) -> Vec<WorkerUse> {
    match hall.ask(Request::Workers {}).unwrap() {
        Answer::Workers(workers) => workers,
        other => panic!("{other:?}"),
    }
}

/// What is in use of a worker, as it would be written.
fn taken(hall: &mut Hall, name: &str) -> String {
    let found = workers(hall).into_iter().find(|worker| worker.worker.as_str() == name).unwrap();
    found.taken.to_string()
}

/// What was assigned since the last look, accepted by this worker.
fn accepted(hall: &mut Hall, name: &str) -> Vec<Assignment> {
    let given: Vec<_> = hall.assignments().into_iter().map(|(_, assignment)| assignment).collect();
    for assignment in &given {
        hall.accept(name, assignment).unwrap();
    }
    given
}

fn credit(hall: &mut Hall, session: SessionId, total: i64) {
    assert_eq!(hall.ask(Request::Credit { session, total }), Ok(Answer::Noted(Noted)));
}

#[test]
fn a_worker_gets_no_more_than_it_has_and_the_next_when_one_ends() {
    let mut hall = Hall::new();
    let ids: Vec<_> = (0..5).map(|_| submit(&mut hall, "gpu=1, mem_gb=0.5")).collect();
    let session = hall.worker("w", "gpu=2, mem_gb=64");
    hall.vacancy(session, 10);
    let given = hall.assignments();
    assert_eq!(jobs(&given), ids[..2]);
    assert_eq!(taken(&mut hall, "w"), "gpu=2, mem_gb=1");
    hall.report("w", &given[1].1, passed()).unwrap();
    let next = hall.assignments();
    assert_eq!(jobs(&next), ids[2..3], "into the slots that were left, without another word of the worker");
    for assignment in [&given[0].1, &next[0].1] {
        hall.report("w", assignment, passed()).unwrap();
    }
    let last = hall.assignments();
    assert_eq!(jobs(&last), ids[3..]);
    for (_, assignment) in &last {
        hall.report("w", assignment, passed()).unwrap();
    }
    assert_eq!(taken(&mut hall, "w"), "", "all is given back");
}

#[test]
fn credit_and_hand_over_count_alike() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "gpu=2");
    credit(&mut hall, session, 10);
    let ids: Vec<_> = (0..3).map(|_| submit(&mut hall, "gpu=1")).collect();
    let given = hall.assignments();
    assert_eq!(jobs(&given), ids[..2], "handed over at once, up to what there is");
    assert_eq!(hall.state(ids[2]), StateName::Queued);
    let plain = hall.submit(job("t")).unwrap().id;
    assert_eq!(jobs(&hall.assignments()), [plain], "a job that uses nothing only needs a slot");
    hall.report("w", &given[0].1, passed()).unwrap();
    assert_eq!(jobs(&hall.assignments()), ids[2..]);
}

#[test]
fn what_does_not_fit_is_passed_over_in_order() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "gpu=4");
    hall.vacancy(session, 10);
    let first = submit(&mut hall, "gpu=3");
    let large = submit(&mut hall, "gpu=2");
    let small = submit(&mut hall, "gpu=1");
    let given = hall.assignments();
    assert_eq!(jobs(&given), [first, small]);
    assert_eq!(hall.state(large), StateName::Queued);
    let later = submit(&mut hall, "gpu=1");
    hall.report("w", &given[0].1, passed()).unwrap();
    assert_eq!(jobs(&hall.assignments()), [large, later], "in order again");
}

#[test]
fn sessions_of_one_worker_share_what_it_has() {
    let mut hall = Hall::new();
    let (first, second) = (hall.worker("w", "gpu=2"), hall.worker("w", "gpu=2"));
    hall.vacancy(first, 5);
    hall.vacancy(second, 5);
    let other = hall.worker("other", "gpu=1");
    hall.vacancy(other, 5);
    let ids: Vec<_> = (0..5).map(|_| submit(&mut hall, "gpu=1")).collect();
    let given = hall.assignments();
    assert_eq!(jobs(&given), ids[..3]);
    assert_eq!((taken(&mut hall, "w"), taken(&mut hall, "other")), ("gpu=2".to_owned(), "gpu=1".to_owned()));
}

#[test]
fn everything_that_ends_an_attempt_gives_back() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "gpu=1");
    credit(&mut hall, session, 100);
    // Nobody accepts it.
    submit(&mut hall, "gpu=1");
    let given = hall.assignments();
    hall.pass(5_000);
    let again = hall.assignments();
    assert_eq!(jobs(&again), jobs(&given), "taken back, and given once more");
    assert_eq!(taken(&mut hall, "w"), "gpu=1");
    // Cancelled.
    let id = again[0].1.attempt.job;
    hall.accept("w", &again[0].1).unwrap();
    hall.cancel(id).unwrap();
    assert_eq!(taken(&mut hall, "w"), "gpu=1", "the worker has not obeyed yet");
    hall.report("w", &again[0].1, passed()).unwrap();
    assert_eq!((hall.state(id), taken(&mut hall, "w")), (StateName::Cancelled, String::new()));
    // Failed, to be retried later.
    hall.submit(NewJob { retry: tries(2), ..using("gpu=1") }).unwrap();
    let given = hall.assignments();
    hall.report("w", &given[0].1, failed("no")).unwrap();
    assert_eq!(taken(&mut hall, "w"), "");
    hall.pass(20_000);
    hall.ask(Request::Renew { session }).unwrap();
    assert_eq!(taken(&mut hall, "w"), "gpu=1", "tried again");
    // The session ends.
    hall.pass(30_000);
    assert!(workers(&mut hall).is_empty(), "nothing is left of the worker");
}

#[test]
fn a_claim_that_is_not_stored_gives_back() {
    let mut hall = Hall::new();
    let id = submit(&mut hall, "gpu=1");
    let session = hall.worker("w", "gpu=1");
    hall.fail = Some(CommitError::NotCommitted { full: true, message: "no room".to_owned() });
    hall.vacancy(session, 5);
    assert!(hall.assignments().is_empty());
    assert_eq!(taken(&mut hall, "w"), "");
    hall.pass(1_000);
    assert_eq!(jobs(&hall.assignments()), [id]);
    // The same for a job that would have been handed over.
    let given = taken(&mut hall, "w");
    hall.fail = Some(CommitError::NotCommitted { full: true, message: "no room".to_owned() });
    let other = hall.worker("x", "gpu=1");
    hall.vacancy(other, 1);
    hall.submit(using("gpu=1")).unwrap_err();
    assert_eq!((taken(&mut hall, "w"), taken(&mut hall, "x")), (given, String::new()));
}

#[test]
fn a_worker_that_is_gone_before_its_claim_is_stored_holds_nothing() {
    let mut hall = Hall::new();
    let id = submit(&mut hall, "gpu=1");
    let session = hall.worker("w", "gpu=1");
    hall.hold = true;
    hall.ask_later(Request::Vacancy { session, slots: 1, wait_ms: 30_000 });
    assert_eq!(taken(&mut hall, "w"), "gpu=1", "a claim on its way has its allocation");
    hall.ask_later(Request::CloseSession { session });
    hall.let_through();
    hall.pump();
    assert!(workers(&mut hall).is_empty());
    assert_eq!(hall.state(id), StateName::Queued);
}

#[test]
fn a_restart_finds_what_is_in_use() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "gpu=3");
    credit(&mut hall, session, 10);
    submit(&mut hall, "gpu=2");
    let given = hall.assignments();
    hall.accept("w", &given[0].1).unwrap();
    let mut hall = hall.restart(Config::default());
    assert_eq!(taken(&mut hall, "w"), "gpu=2", "before the worker is back");
    let (large, small) = (submit(&mut hall, "gpu=2"), submit(&mut hall, "gpu=1"));
    let Assignment { attempt, lease, .. } = given[0].1;
    let session = hall.worker_bringing("w", "gpu=3", vec![(attempt, lease)]);
    credit(&mut hall, session, 10);
    assert_eq!(jobs(&hall.assignments()), [small], "beside what it brought along");
    assert_eq!(taken(&mut hall, "w"), "gpu=3");
    hall.report("w", &given[0].1, passed()).unwrap();
    assert_eq!(jobs(&hall.assignments()), [large]);
}

#[test]
fn a_worker_that_forgot_its_attempts_gets_its_resources_back_with_their_leases() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "gpu=1");
    credit(&mut hall, session, 10);
    let id = submit(&mut hall, "gpu=1");
    let given = hall.assignments();
    hall.accept("w", &given[0].1).unwrap();
    // It was killed, and begins anew before its leases are over.
    hall.ask(Request::Disconnect { session }).unwrap();
    let session = hall.worker("w", "gpu=1");
    credit(&mut hall, session, 10);
    assert!(hall.assignments().is_empty(), "the attempt may still be running");
    hall.pass(15_000);
    hall.ask(Request::Renew { session }).unwrap();
    hall.pass(15_000);
    hall.ask(Request::Renew { session }).unwrap();
    assert_eq!(jobs(&hall.assignments()), [id], "lost, and tried again");
    assert_eq!(taken(&mut hall, "w"), "gpu=1");
}

/// Four small jobs run on a worker of four, each ends in turn, and there is always another: a job that needs all four
/// must start once it is old, when those that ran at that moment have ended.
fn completions_until_the_large_one_starts(aging_ms: u64, others: &str) -> Option<usize> {
    let mut hall = Hall::with(Config { aging_ms, ..Config::default() });
    let session = hall.worker("w", "gpu=4, cpu=4");
    credit(&mut hall, session, 10_000);
    for _ in 0..8 {
        submit(&mut hall, others);
    }
    let mut running = VecDeque::from(accepted(&mut hall, "w"));
    assert_eq!(running.len(), 4);
    let large = submit(&mut hall, "gpu=4");
    let aged = usize::try_from(aging_ms / 1_000).unwrap();
    for completed in 0..200_usize {
        submit(&mut hall, others);
        hall.pass(1_000);
        hall.ask(Request::Renew { session }).unwrap();
        let next = running.pop_front().unwrap();
        hall.report("w", &next, passed()).unwrap();
        running.extend(accepted(&mut hall, "w"));
        if running.iter().any(|assignment| assignment.attempt.job == large) {
            return Some(completed.saturating_sub(aged));
        }
    }
    None
}

#[test]
fn packing_does_not_starve_a_large_job() {
    let completions = completions_until_the_large_one_starts(30_000, "gpu=1").unwrap();
    assert!(completions <= 4, "{completions} completions after it was old");
    assert_eq!(
        completions_until_the_large_one_starts(u64::MAX / 2_000_000, "gpu=1").map(|_| ()),
        None,
        "without it"
    );
}

#[test]
fn a_worker_is_kept_for_one_old_job_only_and_takes_what_is_not_contested() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "gpu=4, cpu=9");
    credit(&mut hall, session, 1_000);
    submit(&mut hall, "gpu=1");
    accepted(&mut hall, "w");
    let large = submit(&mut hall, "gpu=4, cpu=1");
    let larger = submit(&mut hall, "gpu=4");
    hall.pass(29_999);
    hall.ask(Request::Renew { session }).unwrap();
    assert_eq!(workers(&mut hall)[0].reserved_for, None);
    hall.pass(1);
    assert_eq!(workers(&mut hall)[0].reserved_for, Some(large));
    let (small, beside, too_much) =
        (submit(&mut hall, "gpu=1"), submit(&mut hall, "cpu=8"), submit(&mut hall, "cpu=0.001"));
    let first = hall.submit(NewJob { priority: 1, ..using("gpu=1") }).unwrap().id;
    let given = hall.assignments();
    assert!(jobs(&given).contains(&beside), "the last processor is left for the large one");
    assert!(jobs(&given).contains(&first), "what goes before it by priority still does");
    assert!(!jobs(&given).contains(&small) && !jobs(&given).contains(&too_much));
    hall.cancel(large).unwrap();
    assert!(jobs(&hall.assignments()).contains(&small), "nobody waits for it any more");
    hall.pass(25_000);
    hall.ask(Request::Renew { session }).unwrap();
    hall.pass(5_000);
    assert_eq!(workers(&mut hall)[0].reserved_for, Some(larger));
}

#[test]
fn no_worker_is_kept_for_a_queue_that_is_paused() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "gpu=2");
    credit(&mut hall, session, 100);
    submit(&mut hall, "gpu=1");
    accepted(&mut hall, "w");
    let queue = QueueName::new("large").unwrap();
    let large = hall.submit(NewJob { queue: queue.clone(), ..using("gpu=2") }).unwrap().id;
    let wait = |hall: &mut Hall| {
        for _ in 0..3 {
            hall.pass(10_000);
            hall.ask(Request::Renew { session }).unwrap();
        }
    };
    wait(&mut hall);
    assert_eq!(workers(&mut hall)[0].reserved_for, Some(large));
    let pause = |hall: &mut Hall, paused| {
        let config = Some(QueueConfig { paused, ..QueueConfig::default() });
        hall.ask(Request::SetQueue { queue: queue.clone(), config, expected: None }).unwrap();
    };
    pause(&mut hall, true);
    let small = submit(&mut hall, "gpu=1");
    wait(&mut hall);
    assert_eq!(jobs(&hall.assignments()), [small], "it does not wait for what is paused");
    assert_eq!(workers(&mut hall)[0].reserved_for, None);
    pause(&mut hall, false);
    wait(&mut hall);
    assert_eq!(workers(&mut hall)[0].reserved_for, Some(large), "and waits again when it goes on");
}

#[test]
fn no_worker_is_kept_that_lacks_nothing_but_a_slot() {
    let mut hall = Hall::new();
    let sessions = ["a", "b"].map(|name| hall.worker(name, "gpu=2"));
    // The first has one slot, which is taken for long; the second always has something small.
    credit(&mut hall, sessions[0], 1);
    hall.submit(job("t")).unwrap();
    accepted(&mut hall, "a");
    credit(&mut hall, sessions[1], 10_000);
    for _ in 0..3 {
        submit(&mut hall, "gpu=1");
    }
    let mut running = VecDeque::from(accepted(&mut hall, "b"));
    let large = submit(&mut hall, "gpu=2");
    for _ in 0..40 {
        submit(&mut hall, "gpu=1");
        hall.pass(1_000);
        for session in sessions {
            hall.ask(Request::Renew { session }).unwrap();
        }
        hall.report("b", &running.pop_front().unwrap(), passed()).unwrap();
        running.extend(accepted(&mut hall, "b"));
        if running.iter().any(|assignment| assignment.attempt.job == large) {
            return;
        }
    }
    panic!("it waits for the slot of a worker that has enough: {:?}", workers(&mut hall));
}

#[test]
fn another_worker_is_kept_when_the_first_has_gone() {
    let mut hall = Hall::new();
    let sessions = ["a", "b"].map(|name| hall.worker(name, "gpu=2"));
    for session in sessions {
        credit(&mut hall, session, 10);
    }
    for name in ["a", "b"] {
        submit(&mut hall, "gpu=1");
        assert_eq!(accepted(&mut hall, name).len(), 1, "they take turns");
    }
    let large = submit(&mut hall, "gpu=2");
    hall.pass(29_000);
    for session in sessions {
        hall.ask(Request::Renew { session }).unwrap();
    }
    hall.pass(1_000);
    let kept = |hall: &mut Hall| -> Vec<_> {
        let all = workers(hall).into_iter().filter(|worker| worker.reserved_for == Some(large));
        all.map(|worker| worker.worker.to_string()).collect()
    };
    let first = kept(&mut hall);
    assert_eq!(first.len(), 1);
    let gone = usize::from(first == ["b"]);
    hall.ask(Request::CloseSession { session: sessions[gone] }).unwrap();
    assert_eq!(kept(&mut hall), [["b", "a"][gone]]);
    hall.ask(Request::CloseSession { session: sessions[1 - gone] }).unwrap();
    assert!(kept(&mut hall).is_empty());
}

#[test]
fn no_worker_is_kept_that_came_back_with_too_little() {
    let mut hall = Hall::new();
    let first = hall.worker("w", "gpu=2");
    credit(&mut hall, first, 10);
    let running = submit(&mut hall, "gpu=1");
    accepted(&mut hall, "w");
    let large = submit(&mut hall, "gpu=2");
    hall.pass(29_000);
    hall.ask(Request::Renew { session: first }).unwrap();
    hall.pass(1_000);
    assert_eq!(workers(&mut hall)[0].reserved_for, Some(large));
    let second = hall.worker("w", "gpu=1");
    credit(&mut hall, second, 10);
    let small = submit(&mut hall, "gpu=1");
    assert_eq!(workers(&mut hall)[0].reserved_for, Some(large), "the first session may still take it");
    hall.cancel(running).unwrap();
    hall.ask(Request::CloseSession { session: first }).unwrap();
    assert_eq!(workers(&mut hall)[0].reserved_for, None);
    assert_eq!(jobs(&hall.assignments()), [small]);
}

#[test]
fn an_attempt_that_waits_for_others_uses_nothing() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "gpu=1");
    credit(&mut hall, session, 10);
    let parent = submit(&mut hall, "gpu=1");
    accepted(&mut hall, "w");
    // As a restart finds it, while its sub-jobs run.
    let mut job = hall.stored(parent);
    let jobhall_core::State::Assigned(held) = job.status.state else { panic!("{:?}", job.status.state) };
    let (on, since) = (jobhall_core::WaitFor::Jobs, hall.now.wall);
    job.status.state =
        jobhall_core::State::Waiting(Box::new(jobhall_core::Waiting { held: *held, on, since }));
    hall.kernel = jobhall_kernel::Kernel::new(Config::default(), hall.now, crate::rig::chance());
    hall.kernel.restore(job);
    hall.kernel.begin();
    hall.pump();
    assert_eq!(taken(&mut hall, "w"), "");
}

#[test]
fn every_reason_of_resources_is_explained() {
    let mut hall = Hall::new();
    let large = submit(&mut hall, "gpu=8, mem_gb=1");
    let session = hall.worker("small", "gpu=2, mem_gb=8");
    hall.worker("tiny", "gpu=1, mem_gb=4");
    hall.worker_with("picky", "gpu=100, mem_gb=100", "type=other");
    let text = hall.explain(large).to_string();
    let beginning = format!(
        "job {large} is queued\nit uses more than any worker has\n  gpu=8: the largest worker, small, has gpu=2\n\
         no connected worker matches\n"
    );
    assert!(text.starts_with(&beginning), "{text}");
    assert!(text.contains("\n  worker tiny: gpu=8: this worker has gpu=1"), "{text}");
    assert!(text.contains("\n  worker picky: type=other: this job has type=t"), "{text}");
    let nothing = submit(&mut hall, "disk=1");
    let text = hall.explain(nothing).to_string();
    assert!(text.contains("disk=1: no worker has a number of disk"), "{text}");

    credit(&mut hall, session, 100);
    let users = [submit(&mut hall, "gpu=1"), submit(&mut hall, "gpu=1, mem_gb=1")];
    assert_eq!(accepted(&mut hall, "small").len(), 2);
    let waiting = submit(&mut hall, "gpu=2");
    let text = hall.explain(waiting).to_string();
    let [first, second] = users;
    let expected = format!(
        "job {waiting} is queued\nother jobs use what it would use\n  \
         worker small: gpu=2: 0 of 2 left; used by jobs {first}, {second}"
    );
    assert!(text.starts_with(&expected), "{text}");

    hall.pass(25_000);
    hall.ask(Request::Renew { session }).unwrap();
    hall.pass(5_000);
    let text = hall.explain(waiting).to_string();
    let kept =
        "\nworker small is reserved for it, because it has waited long: later jobs leave enough for it\n";
    assert!(text.contains(kept), "{text}");
    let assignment = Request::Cancel { id: first, failure: jobhall_core::Failure::new("cancelled", "") };
    hall.ask(assignment).unwrap();
    let held = hall.show(first).job.status.state.leased().unwrap().lease.id;
    let attempt = jobhall_core::AttemptId { job: first, claim: 1 };
    let report = Request::Report {
        of: AttemptRef { worker: crate::rig::worker("small"), attempt, lease: held },
        report: passed(),
        records: Vec::new(),
    };
    hall.ask(report).unwrap();
    let behind = submit(&mut hall, "gpu=1");
    let why = hall.explain(behind).why;
    assert!(
        why.contains(&Why::ReservedForOther { worker: crate::rig::worker("small"), job: waiting }),
        "{why:?}"
    );
    let text = hall.explain(behind).to_string();
    assert!(text.contains(&format!("reserved for job {waiting}, which has waited long")), "{text}");
}
