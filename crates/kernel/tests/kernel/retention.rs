//! Which completed jobs are removed: the rules of types, queues and the server.

use crate::rig::{Hall, job, keyed, passed};
use jobhall_core::{JobId, NewJob, QueueConfig, QueueName, Retention};
use jobhall_kernel::{Answer, Config, Rejected, Request, StoreReply, StoreRequest};
use jobhall_store::CommitError;

const HOUR: u64 = 3_600_000;

fn in_queue(name: &str, queue: &str) -> NewJob {
    NewJob { queue: QueueName::new(queue).unwrap(), ..job(name) }
}

fn complete(hall: &mut Hall, wanted: NewJob) -> JobId {
    let id = hall.submit(wanted).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    id
}

fn set_server(hall: &mut Hall, keep_ms: Option<u64>, keep_count: Option<u64>) {
    let rule = Retention { keep_ms, keep_count };
    hall.ask(Request::SetRetention { rule, expected: None }).unwrap();
}

fn set_queue(hall: &mut Hall, name: &str, keep_ms: Option<u64>, keep_count: Option<u64>) {
    let config = Some(QueueConfig { keep_ms, keep_count, ..QueueConfig::default() });
    hall.ask(Request::SetQueue { queue: QueueName::new(name).unwrap(), config, expected: None }).unwrap();
}

fn left(hall: &Hall) -> Vec<JobId> {
    hall.store.all_jobs().iter().map(|job| job.id).collect()
}

#[test]
fn the_first_number_that_is_set_counts() {
    let mut hall = Hall::with(Config { reserved: crate::reserved::RESERVED, ..Config::default() });
    set_server(&mut hall, Some(HOUR), None);
    set_queue(&mut hall, "long", Some(10 * HOUR), None);
    hall.set_type("longest", |config| config.keep_ms = Some(100 * HOUR));
    let plain = complete(&mut hall, job("t"));
    let long = complete(&mut hall, in_queue("t", "long"));
    let longest = complete(&mut hall, in_queue("longest", "long"));
    let application = crate::reserved::complete(&mut hall, in_queue("app.step", "long"));
    assert_eq!(left(&hall), [plain, long, longest, application]);
    hall.pass(3 * HOUR);
    assert_eq!(left(&hall), [long, longest, application]);
    hall.pass(12 * HOUR);
    assert_eq!(left(&hall), [longest, application]);
    hall.pass(120 * HOUR);
    assert_eq!(left(&hall), [application], "only its own rule counts");
    hall.set_type("app.step", |config| config.keep_ms = Some(HOUR));
    hall.pass(2 * HOUR);
    assert!(left(&hall).is_empty());
}

#[test]
fn the_number_of_a_queue_counts_its_jobs_of_each_type() {
    let mut hall = Hall::new();
    set_server(&mut hall, None, Some(3));
    set_queue(&mut hall, "few", None, Some(1));
    let in_few: Vec<_> = (0..3).map(|_| complete(&mut hall, in_queue("t", "few"))).collect();
    let others: Vec<_> = (0..4).map(|_| complete(&mut hall, job("t"))).collect();
    let of_other = complete(&mut hall, in_queue("u", "few"));
    hall.pass(2 * HOUR);
    assert_eq!(left(&hall), [in_few[2], others[1], others[2], others[3], of_other]);
}

#[test]
fn the_rule_of_the_server_is_stored_with_its_revision() {
    let mut hall = Hall::new();
    assert_eq!(hall.kernel.retention(), (0, Retention::default()));
    let set = |hall: &mut Hall, keep_ms, expected| {
        hall.ask(Request::SetRetention { rule: Retention { keep_ms, keep_count: None }, expected })
    };
    assert_eq!(set(&mut hall, Some(7), Some(0)), Ok(Answer::Rev(1)));
    assert_eq!(set(&mut hall, Some(8), Some(0)), Err(Rejected::RetentionChanged { rev: 1 }));
    let refused = set(&mut hall, Some(u64::MAX), None).unwrap_err();
    assert_eq!(refused.to_string(), "keep_ms of 18446744073709551615 is outside 0 to 3153600000000");
    assert_eq!(set(&mut hall, None, None), Ok(Answer::Rev(2)));
    let hall = hall.restart(Config::default());
    assert_eq!(hall.kernel.retention(), (2, Retention::default()), "a rule without numbers is stored");
}

/// Lets an hour pass, and returns how many completed jobs retention has read.
fn hour(hall: &mut Hall) -> usize {
    hall.now.wall = hall.now.wall.plus_ms(HOUR);
    hall.now.mono = hall.now.mono.plus_ms(HOUR);
    hall.kernel.tick(hall.now);
    let mut read = 0;
    loop {
        let requests = hall.kernel.take_store_requests();
        if requests.is_empty() {
            hall.pump();
            return read;
        }
        for request in requests {
            let reply = hall.serve(request);
            if let StoreReply::Completed(Ok(page)) = &reply {
                read += page.jobs.len();
            }
            hall.kernel.store_replied(hall.now, reply);
        }
    }
}

fn small_steps() -> Hall {
    Hall::with(Config { retention_step: 5, cached: 2, ..Config::default() })
}

#[test]
fn a_pass_ends_at_the_first_job_that_is_young_enough() {
    let mut hall = small_steps();
    set_server(&mut hall, Some(3 * HOUR), None);
    for _ in 0..50 {
        complete(&mut hall, job("t"));
    }
    hall.pass(2 * HOUR);
    for _ in 0..50 {
        complete(&mut hall, job("t"));
    }
    assert!(hour(&mut hall) <= 5, "all are young enough");
    let read = hour(&mut hall);
    assert_eq!(left(&hall).len(), 50);
    assert!((50..=55).contains(&read), "{read} for 50 that are removed");
    assert!(hour(&mut hall) <= 5);
}

#[test]
fn jobs_with_a_longer_rule_are_not_read_in_each_pass() {
    let mut hall = small_steps();
    set_server(&mut hall, Some(2 * HOUR), None);
    hall.set_type("long", |config| config.keep_ms = Some(100 * HOUR));
    let mut reads = Vec::new();
    for _ in 0..20 {
        for _ in 0..10 {
            complete(&mut hall, job("t"));
            complete(&mut hall, job("long"));
        }
        reads.push(hour(&mut hall));
    }
    assert!(reads.iter().all(|read| *read <= 80), "{reads:?}");
    let long = hall.store.all_jobs().iter().filter(|job| job.spec.job_type.as_str() == "long").count();
    assert_eq!(long, 200);
    hall.pass(110 * HOUR);
    assert!(left(&hall).is_empty(), "they go when their time has come");
}

#[test]
fn a_job_that_ends_in_a_range_that_was_left_is_removed_in_time() {
    let mut hall = small_steps();
    hall.set_type("long", |config| config.keep_ms = Some(1_000 * HOUR));
    hall.set_type("short", |config| config.keep_ms = Some(HOUR));
    let far = Some(hall.now.wall.plus_ms(900 * HOUR));
    let late = hall.submit(NewJob { run_at: far, ..job("short") }).unwrap().id;
    let long: Vec<_> = (0..12).map(|_| complete(&mut hall, job("long"))).collect();
    let read = hour(&mut hall) + hour(&mut hall);
    assert_eq!(read, 12, "they are too old for the shorter rule");
    assert_eq!(hour(&mut hall), 0, "and are read once");
    hall.cancel(late).unwrap();
    hour(&mut hall);
    assert_eq!(left(&hall).len(), 13);
    hour(&mut hall);
    assert_eq!(left(&hall), long);
}

#[test]
fn the_oldest_jobs_beyond_the_number_are_removed_with_few_reads() {
    let mut hall = small_steps();
    set_server(&mut hall, None, Some(50));
    hall.set_type("all", |config| config.keep_count = Some(1_000_000));
    let mut ids = Vec::new();
    let mut reads = Vec::new();
    for _ in 0..20 {
        for _ in 0..10 {
            ids.push(complete(&mut hall, job("t")));
            complete(&mut hall, job("all"));
        }
        reads.push(hour(&mut hall));
    }
    let kept: Vec<_> = hall.store.all_jobs().into_iter().collect();
    let (of_t, others): (Vec<_>, Vec<_>) = kept.iter().partition(|job| job.spec.job_type.as_str() == "t");
    assert_eq!(of_t.iter().map(|job| job.id).collect::<Vec<_>>(), ids[150..]);
    assert_eq!(others.len(), 200);
    assert!(reads.iter().all(|read| *read <= 40), "{reads:?}");
}

#[test]
fn a_success_that_can_be_reused_does_not_take_the_place_of_a_newer_job() {
    let mut hall = small_steps();
    set_server(&mut hall, None, Some(3));
    let spared: Vec<_> = (0..4).map(|n| complete(&mut hall, keyed("t", &format!("k{n}")))).collect();
    let plain: Vec<_> = (0..5).map(|_| complete(&mut hall, job("t"))).collect();
    hour(&mut hall);
    let newest = [&spared[..], &plain[2..]].concat();
    assert_eq!(left(&hall), newest, "the newest three, and what can be reused");
    let next = complete(&mut hall, job("t"));
    hour(&mut hall);
    assert_eq!(left(&hall), [&spared[..], &plain[3..], &[next]].concat());
    hall.pass(25 * HOUR);
    assert_eq!(left(&hall), [plain[3], plain[4], next], "until the reuse window is over");
}

#[test]
fn completed_jobs_are_counted_after_a_start_and_change_with_the_jobs() {
    let mut hall = small_steps();
    let ids: Vec<_> = (0..7).map(|_| complete(&mut hall, job("t"))).collect();
    complete(&mut hall, in_queue("u", "other"));
    let open = hall.submit(job("t")).unwrap().id;
    let of = |hall: &Hall| hall.kernel.kept(5).map(|(all, types)| (all, types.first().map(|first| first.1)));
    assert_eq!(of(&hall), Some((8, Some(7))));
    let mut hall = hall.restart(Config::default());
    hall.pass(1);
    assert_eq!(of(&hall), Some((8, Some(7))));
    hall.ask(Request::Remove { ids: vec![ids[0], ids[1]] }).unwrap();
    assert_eq!(of(&hall), Some((6, Some(5))));
    let held = hall.take_one("w");
    assert_eq!(held.attempt.job, open);
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(of(&hall), Some((7, Some(6))));
}

#[test]
fn jobs_that_end_or_go_while_the_store_counts_are_counted_once() {
    let mut hall = small_steps();
    let done: Vec<_> = (0..4).map(|_| complete(&mut hall, job("t"))).collect();
    hall.submit(job("t")).unwrap();
    let mut hall = hall.restart(Config::default());
    set_queue(&mut hall, "elsewhere", None, Some(9));
    set_queue(&mut hall, "elsewhere", None, None);
    // A change of the rules counts again; the reply to the count is held back.
    let config = Some(QueueConfig { keep_count: Some(8), ..QueueConfig::default() });
    let queue = QueueName::new("elsewhere").unwrap();
    let ask = Request::SetQueue { queue, config, expected: None };
    hall.kernel.ask(hall.now, ask.typed(77));
    let (number, units) = hall.kernel.take_commit().unwrap();
    let committed = hall.store.commit_now(units);
    hall.kernel.store_replied(hall.now, StoreReply::Committed(number, Ok(committed)));
    let counts = hall.kernel.take_store_requests();
    assert!(matches!(counts[..], [StoreRequest::Count { .. }]), "{counts:?}");
    assert_eq!(hall.kernel.kept(0), None);
    let replies: Vec<_> = counts.into_iter().map(|request| hall.serve(request)).collect();
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    hall.ask(Request::Remove { ids: vec![done[0]] }).unwrap();
    for reply in replies {
        hall.kernel.store_replied(hall.now, reply);
    }
    hall.pump();
    assert_eq!(hall.kernel.kept(0).map(|(all, _)| all), Some(4), "five completed, one removed");
}

#[test]
fn a_rule_that_is_changed_counts_from_the_next_pass() {
    let mut hall = small_steps();
    set_server(&mut hall, Some(1_000 * HOUR), Some(1_000));
    let ids: Vec<_> = (0..12).map(|_| complete(&mut hall, job("t"))).collect();
    hour(&mut hall);
    assert_eq!(left(&hall).len(), 12);
    set_queue(&mut hall, "default", None, Some(4));
    hour(&mut hall);
    assert_eq!(left(&hall), ids[8..]);
    hall.set_type("t", |config| config.keep_count = Some(2));
    hour(&mut hall);
    assert_eq!(left(&hall), ids[10..]);
    set_server(&mut hall, Some(HOUR), None);
    hour(&mut hall);
    assert!(left(&hall).is_empty());
}

#[test]
fn a_failed_removal_is_repeated_in_the_next_pass() {
    let mut hall = small_steps();
    set_server(&mut hall, None, Some(2));
    let ids: Vec<_> = (0..9).map(|_| complete(&mut hall, job("t"))).collect();
    hall.now.wall = hall.now.wall.plus_ms(HOUR);
    hall.now.mono = hall.now.mono.plus_ms(HOUR);
    hall.kernel.tick(hall.now);
    let error = CommitError::NotCommitted { full: true, message: "disk full".to_owned() };
    let mut failed = 0;
    while let Some(request) = hall.kernel.take_store_requests().pop() {
        let reply = match request {
            StoreRequest::Prune(prune) if !prune.jobs.is_empty() => {
                failed += 1;
                StoreReply::Pruned(prune.jobs, Err(error.clone()))
            }
            request => hall.serve(request),
        };
        hall.kernel.store_replied(hall.now, reply);
    }
    assert_eq!((failed, left(&hall).len()), (1, 9));
    hour(&mut hall);
    assert_eq!(left(&hall), ids[7..]);
}
