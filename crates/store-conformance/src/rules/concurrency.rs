//! The most important rules with many threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use jobhall_core::{Event, Job, JobId};
use jobhall_store::{Conflict, RecordFilter, SettingKind, SettingWrite, Store, Unit};

use crate::fixture::wait;
use crate::rules::blocks::take;
use crate::rules::records;
use crate::samples::{at, change_of, changing, claim, decide, failure, id, insert, inserting, queued, spec};

const CLIENTS: usize = 64;
const ROUNDS: usize = 200;

fn one(store: &dyn Store, unit: Unit) -> Result<(), Vec<Conflict>> {
    let committed = wait(store.commit(vec![unit])).expect("a commit that works");
    committed.results.into_iter().next().expect("one unit has one result").map(drop)
}

/// A client's result in one round: the id, and whether the client created the job.
type Told = (JobId, bool);

fn submit(store: &dyn Store, job: &Job) -> Told {
    match one(store, inserting(job.clone())) {
        Ok(()) => (job.id, true),
        Err(conflicts) => match &conflicts[..] {
            [Conflict::KeyHeld { id, job: holder }] if *id == job.id => (holder.id, false),
            other => panic!("a client of a held key received {other:?}"),
        },
    }
}

/// An error in a round is reported at the end: a client that left would block the others at the barrier.
fn round(store: &dyn Store, job: &Job, end: &Barrier) -> Option<Told> {
    let told = catch_unwind(AssertUnwindSafe(|| submit(store, job))).ok();
    end.wait();
    if !told?.1 {
        return told;
    }
    let step = decide(job, &Event::Cancel(&failure("round over")), job.spec.created_at);
    let ended = catch_unwind(AssertUnwindSafe(|| one(store, changing([change_of(job, step)]))));
    told.filter(|_| matches!(ended, Ok(Ok(()))))
}

/// In every round all clients submit a job of the same key concurrently: one job is created, and all other clients
/// receive its id. Then the job ends, and the next round begins.
pub fn h06_g4_sixty_four_clients_on_one_key_get_one_job(store: &dyn Store) {
    let first = take(store, (CLIENTS * ROUNDS) as u64).first.get();
    let (start, end) = (Barrier::new(CLIENTS), Barrier::new(CLIENTS));
    let told: Vec<Mutex<Vec<Option<Told>>>> = (0..ROUNDS).map(|_| Mutex::default()).collect();
    let client = |number: usize| {
        for (n, told) in told.iter().enumerate() {
            let now = at(n as u64 * 1_000);
            let job = queued(id(first + (n * CLIENTS + number) as u64), spec("t", Some("k"), now));
            start.wait();
            let answer = round(store, &job, &end);
            told.lock().expect("no client has panicked").push(answer);
        }
    };
    thread::scope(|scope| (0..CLIENTS).for_each(|number| drop(scope.spawn(move || client(number)))));
    check_rounds(store, told);
}

/// In every round many nodes process the same tick of a schedule concurrently: one of them creates the job.
pub fn a_tick_that_many_see_to_has_one_job(store: &dyn Store) {
    const NODES: usize = 8;
    let first = take(store, (NODES * ROUNDS) as u64).first.get();
    let start = Barrier::new(NODES);
    let made: Vec<AtomicUsize> = (0..ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    let node = |number: usize| {
        for (n, made) in made.iter().enumerate() {
            let job = queued(id(first + (n * NODES + number) as u64), spec("t", None, at(n as u64)));
            let expected = u32::try_from(n).expect("few rounds");
            let (kind, name) = (SettingKind::Schedule, "nightly".to_owned());
            let write = SettingWrite { kind, name, expected, value: Some(n.to_string()) };
            start.wait();
            let result = catch_unwind(AssertUnwindSafe(|| {
                one(store, Unit { settings: vec![write], ..inserting(job) })
            }));
            made.fetch_add(usize::from(matches!(result, Ok(Ok(())))), Ordering::Relaxed);
            start.wait();
        }
    };
    thread::scope(|scope| (0..NODES).for_each(|number| drop(scope.spawn(move || node(number)))));
    for (round, made) in made.iter().enumerate() {
        assert_eq!(made.load(Ordering::Relaxed), 1, "round {round}");
    }
    let open = wait(store.open_jobs(None, NODES * ROUNDS)).expect("open jobs can be read");
    assert_eq!(open.len(), ROUNDS);
}

/// Many writers count in few records: each decides again on the record that a refusal returns, and no count is lost.
pub fn sixty_four_writers_on_sixteen_records_lose_no_write(store: &dyn Store) {
    const RECORDS: usize = 16;
    const WRITES: usize = 25;
    let start = Barrier::new(CLIENTS);
    let writer = |number: usize| {
        start.wait();
        for n in 0..WRITES {
            let name = format!("r{}", (number + n) % RECORDS);
            let (mut expected, mut count) = (0, 0);
            loop {
                let write = records::write(&name, expected, &(count + 1).to_string());
                match one(store, records::writing([write])) {
                    Ok(()) => break,
                    Err(conflicts) => match &conflicts[..] {
                        [Conflict::Record { write: 0, stored: Some(stored) }] => {
                            (expected, count) = (stored.rev, stored.value.parse::<u64>().expect("a count"));
                        }
                        other => panic!("a writer received {other:?}"),
                    },
                }
            }
        }
    };
    thread::scope(|scope| (0..CLIENTS).for_each(|number| drop(scope.spawn(move || writer(number)))));
    let filter = RecordFilter::of(records::kind("q.pin"));
    let page = wait(store.record_page(filter, None, RECORDS + 1)).expect("records can be read");
    assert_eq!(page.records.len(), RECORDS);
    for record in page.records {
        assert_eq!(record.value, (CLIENTS * WRITES / RECORDS).to_string(), "{}", record.key);
        assert_eq!(record.rev.to_string(), record.value);
    }
}

fn check_rounds(store: &dyn Store, told: Vec<Mutex<Vec<Option<Told>>>>) {
    let mut made = Vec::new();
    for (round, told) in told.into_iter().enumerate() {
        let told = told.into_inner().expect("no client has panicked");
        let ids: Vec<JobId> = told.iter().flatten().filter(|(_, own)| *own).map(|(id, _)| *id).collect();
        assert_eq!(ids.len(), 1, "round {round} made {ids:?}: {told:?}");
        assert_eq!(told.len(), CLIENTS);
        let same = |told: &Option<Told>| told.is_some_and(|(id, _)| id == ids[0]);
        assert!(told.iter().all(same), "round {round} returned {told:?}");
        made.extend(ids);
    }
    let completed = wait(store.completed(None, ROUNDS + 1)).expect("completed jobs can be read");
    let mut completed: Vec<JobId> = completed.jobs.iter().map(|job| job.id).collect();
    completed.sort_unstable();
    made.sort_unstable();
    assert_eq!(completed, made, "exactly the acknowledged jobs are stored");
}

const CLAIMERS: usize = 32;
const JOBS: usize = 20_000;
const BATCH: usize = 20;
/// How far ahead in the shared order a claimer looks: small enough for collisions.
const WINDOW: usize = 1_500;

/// Shared between the claimers: a hint of which jobs are left. The store decides.
struct Order {
    jobs: Vec<Job>,
    gone: Vec<AtomicBool>,
    front: AtomicUsize,
    lost_races: AtomicUsize,
}

impl Order {
    /// The next positions to try, at random in the window.
    fn pick(&self, random: &mut u64) -> Vec<usize> {
        let mut front = self.front.load(Ordering::Relaxed);
        while front < JOBS && self.gone[front].load(Ordering::Relaxed) {
            front += 1;
        }
        self.front.fetch_max(front, Ordering::Relaxed);
        let window: Vec<usize> = (front..JOBS.min(front + WINDOW))
            .filter(|&position| !self.gone[position].load(Ordering::Relaxed))
            .collect();
        let Some(last) = window.len().checked_sub(1) else { return Vec::new() };
        let mut picked: Vec<usize> =
            (0..BATCH).map(|_| window[usize::from(next(random)) % (last + 1)]).collect();
        picked.sort_unstable();
        picked.dedup();
        picked
    }
}

/// A small generator of random numbers (xorshift).
fn next(state: &mut u64) -> u16 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    u16::try_from(*state & 0xffff).expect("sixteen bits")
}

fn claimed(job: &Job, claimer: usize) -> Unit {
    let event = claim(claimer as u128, &format!("w{claimer}"));
    changing([change_of(job, decide(job, &event, at(60_000)))])
}

/// Claims until no jobs are left; returns the positions it claimed. All claimers pick their first jobs before any of
/// them claims, so that they meet however the threads are scheduled.
fn claimer(store: &dyn Store, order: &Order, number: usize, start: &Barrier) -> Vec<usize> {
    let mut random = 0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1) << 7;
    let mut won = Vec::new();
    let mut picked = order.pick(&mut random);
    start.wait();
    while !picked.is_empty() {
        let units = picked.iter().map(|&position| claimed(&order.jobs[position], number)).collect();
        let results = wait(store.commit(units)).expect("a commit that works").results;
        assert_eq!(results.len(), picked.len());
        for (position, result) in picked.into_iter().zip(results) {
            if result.is_ok() {
                won.push(position);
            } else {
                order.lost_races.fetch_add(1, Ordering::Relaxed);
            }
            order.gone[position].store(true, Ordering::Relaxed);
        }
        thread::yield_now();
        picked = order.pick(&mut random);
    }
    won
}

fn stored_order(store: &dyn Store) -> Order {
    let first = take(store, JOBS as u64).first.get();
    let jobs: Vec<Job> = (0..JOBS as u64).map(|n| queued(id(first + n), spec("t", None, at(0)))).collect();
    for chunk in jobs.chunks(1_000) {
        let units = chunk
            .chunks(100)
            .map(|jobs| Unit { inserts: jobs.iter().cloned().map(insert).collect(), ..Unit::default() });
        let committed = wait(store.commit(units.collect())).expect("a commit that works");
        assert!(committed.results.iter().all(Result::is_ok));
    }
    let gone = (0..JOBS).map(|_| AtomicBool::new(false)).collect();
    Order { jobs, gone, front: AtomicUsize::new(0), lost_races: AtomicUsize::new(0) }
}

/// Claimers race for the same jobs, picked at random from a shared order: every job is claimed by exactly one of
/// them, the store records that one, and every claimer gets a job.
pub fn l14_no_double_claim_and_no_starved_claimer(store: &dyn Store) {
    let order = Arc::new(stored_order(store));
    let start = Barrier::new(CLAIMERS);
    let won: Vec<Vec<usize>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..CLAIMERS)
            .map(|number| {
                let (order, start) = (&order, &start);
                scope.spawn(move || claimer(store, order, number, start))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no claimer panics")).collect()
    });
    let shares: Vec<usize> = won.iter().map(Vec::len).collect();
    assert!(shares.iter().all(|&share| share > 0), "a claimer starved: {shares:?}");
    assert_eq!(shares.iter().sum::<usize>(), JOBS, "every job once: {shares:?}");
    assert!(order.lost_races.load(Ordering::Relaxed) > 0, "the claimers never met");
    check_owners(store, &order, &won);
}

fn check_owners(store: &dyn Store, order: &Order, won: &[Vec<usize>]) {
    for (number, positions) in won.iter().enumerate() {
        let ids = positions.iter().map(|&position| order.jobs[position].id).collect();
        for job in wait(store.jobs(ids)).expect("jobs can be read") {
            let job = job.expect("a claimed job is there");
            let lease = job.status.state.lease().expect("it is held");
            assert_eq!(lease.id.0, number as u128, "job {} was claimed twice", job.id);
            assert_eq!((job.status.rev, job.status.claim), (2, 1));
        }
    }
}
