//! What the kernel counts is what a recount finds, whatever happened before.

use std::collections::BTreeMap;

use crate::rig::{Hall, failed, job, keyed, passed, tries};
use jobhall_core::needs::Needs;
use jobhall_core::{JobId, NewJob, OnDuplicate, Outcome, QueueName, Scope, StateName, Time};
use jobhall_kernel::{Answer, Assignment, Config, Counts, Rates, Request, TROUBLE_MS, Tally};
use jobhall_store::CommitError;

fn counts(hall: &mut Hall) -> Counts {
    match hall.ask(Request::Counts {}).unwrap() {
        Answer::Counts(counts) => *counts,
        other => panic!("{other:?}"),
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// Open jobs by queue and state, told job by job.
fn recount(hall: &mut Hall) -> BTreeMap<(QueueName, StateName), u64> {
    let mut found = BTreeMap::new();
    for stored in hall.store.open_jobs_now(None, usize::MAX) {
        let state = hall.state(stored.id);
        *found.entry((stored.spec.queue.clone(), state)).or_default() += 1;
    }
    found
}

fn told(counts: &Counts) -> BTreeMap<(QueueName, StateName), u64> {
    let all = counts.queues.iter().flat_map(|(name, tally)| tally.states().map(move |count| (name, count)));
    all.filter(|(_, (_, n))| *n > 0).map(|(name, (state, n))| ((name.clone(), state), n)).collect()
}

/// Since when each queue's oldest ready job waits, and how many are ready, told from the stored rows.
fn ready(hall: &Hall) -> BTreeMap<QueueName, (u64, Option<Time>)> {
    let mut found: BTreeMap<_, (u64, Option<Time>)> = BTreeMap::new();
    for job in hall.store.open_jobs_now(None, usize::MAX) {
        if job.status.state.name() == StateName::Queued && job.status.run_at <= hall.now.wall {
            let since = job.status.run_at.max(job.status.updated_at);
            let (n, oldest) = found.entry(job.spec.queue.clone()).or_default();
            *n += 1;
            *oldest = Some(oldest.map_or(since, |known| known.min(since)));
        }
    }
    found
}

fn check(hall: &mut Hall) {
    let counts = counts(hall);
    assert_eq!(told(&counts), recount(hall));
    let waiting: BTreeMap<_, _> = counts
        .queues
        .iter()
        .filter(|(_, tally)| tally.ready > 0)
        .collect::<Vec<_>>()
        .into_iter()
        .map(|(name, tally)| (name.clone(), (tally.ready, tally.oldest_ready)))
        .collect();
    assert_eq!(waiting, ready(hall));
    assert_eq!(counts.open.open(), hall.kernel.open_count() as u64);
    assert_eq!(counts.submitted, counts.completed.sum() + counts.open.open(), "each is open or completed");
}

/// A few random bits after another.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn random_job(random: &mut Random, hall: &Hall) -> NewJob {
    let on_duplicate = match random.below(4) {
        0 => OnDuplicate::Supersede,
        1 => OnDuplicate::RunAgain,
        _ => OnDuplicate::Join,
    };
    let base = if random.below(3) == 0 { keyed("a", &random.below(3).to_string()) } else { job("a") };
    let run_at = match random.below(4) {
        0 => Some(hall.now.wall.plus_ms(random.below(3_000))),
        1 => Some(hall.now.wall.minus_ms(random.below(3_000))),
        _ => None,
    };
    let queue = queue(["red", "green", "blue"][usize::try_from(random.below(3)).unwrap()]);
    let priority = i32::try_from(random.below(3)).unwrap();
    NewJob { queue, priority, run_at, on_duplicate, retry: tries(3), ..base }
}

/// One thing that may happen in a hall. What is refused is fine: it must not be counted.
fn act(hall: &mut Hall, random: &mut Random, live: &mut Vec<(String, Assignment)>, made: &mut u64) {
    match random.below(12) {
        0..=3 => {
            let job = random_job(random, hall);
            if let Ok(submitted) = hall.submit(job) {
                *made = (*made).max(submitted.id.get());
            }
        }
        4..=5 => {
            let name = format!("w{}", random.below(4));
            let session = hall.worker(&name, "");
            hall.vacancy(session, u32::try_from(random.below(3)).unwrap() + 1);
        }
        6 if !live.is_empty() => {
            let at = usize::try_from(random.below(live.len() as u64)).unwrap();
            let (name, given) = live[at].clone();
            let _ =
                if random.below(2) == 0 { hall.accept(&name, &given) } else { hall.progress(&name, &given) };
        }
        7..=8 if !live.is_empty() => {
            let at = usize::try_from(random.below(live.len() as u64)).unwrap();
            let (name, given) = live.swap_remove(at);
            let report = if random.below(2) == 0 { passed() } else { failed("no") };
            let _ = hall.report(&name, &given, report);
        }
        9 if *made > 0 => {
            let _ = hall.cancel(JobId::new(random.below(*made) + 1).unwrap());
        }
        10 => hall.fail = Some(CommitError::NotCommitted { full: true, message: "full".to_owned() }),
        _ => hall.pass(random.below(2_500)),
    }
    for (_, given) in hall.assignments() {
        let stored = hall.stored(given.attempt.job);
        let worker = stored.status.state.leased().map(|held| held.lease.worker.to_string());
        live.extend(worker.map(|worker| (worker, given)));
    }
}

#[test]
fn counts_equal_a_recount_after_random_operations() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let mut hall = Hall::new();
        let (mut live, mut made) = (Vec::new(), 0);
        for _ in 0..150 {
            act(&mut hall, &mut random, &mut live, &mut made);
            check(&mut hall);
        }
        let before = counts(&mut hall);
        assert!(before.submitted > 10 && before.wait.count > 3, "seed {seed} did little");
        let config = Config::default();
        let mut hall = hall.restart(config);
        assert_eq!(told(&counts(&mut hall)), recount(&mut hall), "seed {seed}, after a restart");
    }
}

#[test]
fn what_came_and_went_is_counted_once() {
    let mut hall = Hall::new();
    let first = hall.submit(NewJob { retry: tries(2), ..job("a") }).unwrap().id;
    hall.pass(700);
    let given = hall.take_one("w");
    hall.pass(30);
    hall.accept("w", &given).unwrap();
    hall.pass(250);
    hall.report("w", &given, failed("no")).unwrap();
    hall.report("w", &given, failed("no")).unwrap();
    let counted = counts(&mut hall);
    assert_eq!((counted.submitted, counted.completed.sum(), counted.attempts.sum()), (1, 0, 1));
    assert_eq!((counted.wait.count, counted.wait.sum), (1, 700));
    assert_eq!((counted.run.count, counted.run.sum), (1, 250), "from accepted to its end");
    assert_eq!(counted.open.of(StateName::Retrying), 1);
    hall.cancel(first).unwrap();
    hall.cancel(first).unwrap();
    let counted = counts(&mut hall);
    let cancelled: Vec<_> = counted.completed.iter().filter(|(_, n)| *n > 0).collect();
    assert_eq!(cancelled, [(Outcome::Cancelled, 1)]);
    assert_eq!((counted.open.open(), counted.attempts.sum(), counted.run.count), (0, 1, 1));
    let minute = Rates { minute: 1, five_minutes: 1 };
    assert_eq!((counted.submitted_lately, counted.completed_lately), (minute, minute));
    hall.pass(120_000);
    assert_eq!(counts(&mut hall).completed_lately, Rates { minute: 0, five_minutes: 1 });
}

#[test]
fn a_job_handed_over_at_once_has_waited_no_time_and_a_claim_taken_back_is_no_attempt() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    let early = Some(hall.now.wall.minus_ms(3_600_000));
    hall.submit(NewJob { run_at: early, ..job("a") }).unwrap();
    let counted = counts(&mut hall);
    assert_eq!(
        (counted.wait.count, counted.wait.sum),
        (1, 1),
        "no wait but the millisecond between two stamps"
    );
    assert_eq!(
        (counted.workforce.busy, counted.workforce.busy_slots, counted.workforce.free_slots),
        (1, 1, 0)
    );
    hall.pass(5_000);
    let counted = counts(&mut hall);
    assert_eq!((counted.attempts.sum(), counted.run.count), (0, 0), "nobody accepted it");
    assert_eq!((counted.open.of(StateName::Queued), counted.open.ready), (1, 1));
    assert_eq!(counted.workforce.idle, 1);
}

#[test]
fn workers_known_by_their_leases_alone_are_awaited() {
    let mut hall = Hall::new();
    hall.submit(job("a")).unwrap();
    let given = hall.take_one("w");
    hall.accept("w", &given).unwrap();
    let mut hall = hall.restart(Config::default());
    let force = counts(&mut hall).workforce;
    assert_eq!((force.awaited, force.busy, force.idle, force.busy_slots), (1, 0, 0, 1));
}

#[test]
fn beyond_a_hundred_queues_the_rest_is_told_together() {
    let mut hall = Hall::new();
    for n in 0..130 {
        hall.submit(NewJob { queue: queue(&format!("q{n:03}")), ..job("a") }).unwrap();
        hall.pass(1);
    }
    let counted = counts(&mut hall);
    assert_eq!((counted.queues.len(), counted.others.open(), counted.others.ready), (100, 30, 30));
    assert_eq!((counted.open.open(), counted.open.ready), (130, 130));
    let oldest = |tally: &Tally| hall.now.wall.since(tally.oldest_ready.unwrap());
    assert_eq!((oldest(&counted.open), oldest(&counted.others)), (130, 30));
    let page = |hall: &mut Hall, after: Option<&str>, limit| match hall
        .ask(Request::Queues { after: after.map(queue), scope: Scope::default(), limit })
        .unwrap()
    {
        Answer::Queues(found) => found.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(page(&mut hall, None, 2), ["q000", "q001"]);
    assert_eq!(page(&mut hall, Some("q127"), 50), ["q128", "q129"]);
    assert!(page(&mut hall, Some("q129"), 50).is_empty());
}

#[test]
fn the_oldest_ready_job_is_found_among_many_that_were_taken() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    let last = hall.submit(NewJob { priority: 1_000, ..job("a") }).unwrap().id;
    let since = hall.now.wall;
    for _ in 0..40 {
        hall.pass(10);
        hall.submit_all(vec![job("a"); 100]).unwrap();
        hall.vacancy(session, 100);
    }
    assert_eq!(hall.assignments().len(), 4_000);
    let counted = counts(&mut hall);
    assert_eq!((counted.open.ready, counted.open.oldest_ready), (1, Some(since)));
    hall.cancel(last).unwrap();
    assert_eq!(counts(&mut hall).open.oldest_ready, None);
}

#[test]
fn a_failed_write_is_told_until_the_next_one_succeeds_or_for_a_while() {
    let mut hall = Hall::new();
    assert_eq!(counts(&mut hall).storage_trouble, None);
    hall.fail = Some(CommitError::NotCommitted { full: true, message: "no room".to_owned() });
    hall.submit(job("a")).unwrap_err();
    assert!(counts(&mut hall).storage_trouble.unwrap().contains("no room"));
    hall.submit(job("a")).unwrap();
    assert_eq!(counts(&mut hall).storage_trouble, None);
    hall.fail = Some(CommitError::NotCommitted { full: true, message: "no room".to_owned() });
    hall.submit(job("a")).unwrap_err();
    hall.pass(TROUBLE_MS - 1);
    assert!(counts(&mut hall).storage_trouble.is_some());
    hall.pass(1);
    assert_eq!(counts(&mut hall).storage_trouble, None, "who writes nothing cannot know better");
}

#[test]
fn a_queue_tells_who_could_take_its_jobs() {
    let mut hall = Hall::new();
    let takers = |hall: &mut Hall, name: &str| match hall.ask(Request::Queue { name: queue(name) }).unwrap() {
        Answer::Queue(found) => found.map(|(_, takers)| (takers.workers, takers.free_slots)),
        other => panic!("{other:?}"),
    };
    assert_eq!(takers(&mut hall, "big"), None);
    let needs = Needs::parse("gpu>=1").unwrap();
    hall.submit(NewJob { queue: queue("big"), needs: needs.clone(), ..job("a") }).unwrap();
    hall.submit(NewJob { queue: queue("big"), needs, ..job("b") }).unwrap();
    assert_eq!(takers(&mut hall, "big"), Some((0, 0)));
    let plain = hall.worker("plain", "");
    hall.vacancy(plain, 2);
    let picky = hall.worker_with("picky", "gpu=1", "queue=small");
    hall.vacancy(picky, 2);
    assert_eq!(takers(&mut hall, "big"), Some((0, 0)), "one cannot, one does not want to");
    let able = hall.worker("able", "gpu=1");
    hall.vacancy(able, 5);
    assert_eq!(takers(&mut hall, "big"), Some((1, 3)), "two of five slots are taken");
    hall.ask(Request::Disconnect { session: able }).unwrap();
    assert_eq!(takers(&mut hall, "big"), Some((0, 0)));
}

#[test]
fn a_job_whose_time_has_just_come_counts_as_ready_before_any_tick() {
    let mut hall = Hall::new();
    let run_at = Some(hall.now.wall.plus_ms(50));
    hall.submit(NewJob { run_at, ..job("a") }).unwrap();
    let counted = counts(&mut hall).open;
    assert_eq!((counted.of(StateName::Scheduled), counted.ready), (1, 0));
    hall.now.wall = hall.now.wall.plus_ms(50);
    let counted = counts(&mut hall).open;
    assert_eq!((counted.of(StateName::Scheduled), counted.of(StateName::Queued), counted.ready), (0, 1, 1));
}

#[test]
fn slots_of_a_worker_that_left_are_not_free() {
    let mut hall = Hall::new();
    hall.submit(job("a")).unwrap();
    let session = hall.worker("w", "");
    hall.hold = true;
    hall.vacancy(session, 3);
    assert_eq!(counts(&mut hall).workforce.free_slots, 2, "one is on its way to be filled");
    hall.ask(Request::Disconnect { session }).unwrap();
    assert_eq!(counts(&mut hall).workforce.free_slots, 0);
    hall.let_through();
    assert_eq!(counts(&mut hall).open.ready, 1, "it was taken back");
}
