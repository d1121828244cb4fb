//! The run: load and faults, and then a calm phase in which everything must end.

use std::collections::BTreeSet;
use std::time::Duration;

use jobhall_client::{Client, JobFilter, LogRange};
use jobhall_core::AttemptId;
use jobhall_protocol::{Change, Code};
use jobhall_sim::Stored;
use jobhall_tests::{Process, Signal};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::clients::Customer;
use super::ground::Ground;
use super::record::{Book, Record, state};
use super::work;
use super::work::Traces;
use super::workers::Hand;

const CUSTOMERS: u64 = 4;

/// The result of a run.
#[derive(Clone)]
pub struct Aftermath {
    pub book: Book,
    pub stored: Stored,
    pub traces: Traces,
    /// Every job as shown by the API after the run, and again after another restart.
    pub shown: Vec<serde_json::Value>,
    /// The log of every attempt that ended by a report of a worker process, as read from the API.
    pub logs: Vec<(AttemptId, Vec<u8>)>,
}

/// Injects this many faults under load, lets everything end, and reads the result.
pub async fn storm<G: Ground>(mut ground: G, seed: u64, blows: u64) -> Aftermath {
    let mut random = StdRng::seed_from_u64(seed);
    let record = Record::new();
    let (calm, calming) = watch::channel(false);
    let (over, ending) = watch::channel(false);
    let watcher = tokio::spawn(watch_events(client(&ground, 0), record.clone()));
    let (mut customers, mut hands) = (JoinSet::new(), JoinSet::new());
    for number in 0..CUSTOMERS {
        let random = StdRng::seed_from_u64(seed ^ (number + 1) << 32);
        let (client, folder) = (client(&ground, number), ground.folder().to_owned());
        let (record, calm) = (record.clone(), calming.clone());
        customers.spawn(Customer { number, client, record, random, folder, calm, count: 0 }.run());
    }
    for number in 0..G::HANDS {
        let random = StdRng::seed_from_u64(seed ^ (number + 101) << 32);
        let (calm, over, client) = (calming.clone(), ending.clone(), client(&ground, number));
        hands.spawn(Hand { client, record: record.clone(), random, calm, over }.run());
    }
    let file = work::worker_file(ground.folder()).display().to_string();
    let mut workers: Vec<Process> = (0..G::PROCESSES).map(|at| ground.worker(at, &file)).collect();
    for turn in 1..=blows {
        ground.strike(turn, &mut random, &record).await;
        if random.random_range(0..8) == 0 {
            let at = random.random_range(0..G::PROCESSES);
            workers[at].kill();
            workers[at] = ground.worker(at, &file);
            record.count("worker processes killed");
        }
        ground.heal(&record).await;
        still_at_work(&mut customers, &mut hands).await;
    }
    println!("{:>6} ms  calm", record.now() / 1_000);
    calm.send_replace(true);
    while let Some(ended) = customers.join_next().await {
        ended.unwrap();
    }
    drained(&client(&ground, 0)).await;
    println!("{:>6} ms  drained", record.now() / 1_000);
    over.send_replace(true);
    while let Some(ended) = hands.join_next().await {
        ended.unwrap();
    }
    for worker in &mut workers {
        worker.signal(Signal::TERM);
        assert!(worker.wait().success(), "the worker stops with success");
    }
    every_end_was_told(&ids(&client(&ground, 0)).await, &watcher, &record).await;
    watcher.abort();
    read(ground, record).await
}

/// A client with the administrator's token; each number starts at a different address.
fn client(ground: &impl Ground, number: u64) -> Client {
    let number = usize::try_from(number).unwrap();
    Client::new(&ground.places(number), Some(&ground.token())).unwrap()
}

/// The event stream had no gap over all restarts.
async fn every_end_was_told(ids: &[u64], watcher: &JoinHandle<()>, record: &Record) {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let told = |id: u64| record.book().events.contains_key(&id);
        let untold: Vec<_> = ids.iter().filter(|id| !told(**id)).collect();
        if untold.is_empty() {
            return;
        }
        let waits = !watcher.is_finished() && tokio::time::Instant::now() < end;
        assert!(waits, "ends without an event: {untold:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A client or worker that found an error has panicked: fail now rather than at the end.
async fn still_at_work(customers: &mut JoinSet<()>, hands: &mut JoinSet<()>) {
    for set in [customers, hands] {
        if let Some(ended) = set.try_join_next() {
            ended.unwrap();
            panic!("a client or worker ended during the run");
        }
    }
}

/// Waits until no job is open.
async fn drained(client: &Client) {
    let open = ["scheduled", "queued", "blocked", "assigned", "accepted", "running", "retrying"];
    let filter = JobFilter { states: open.map(str::to_owned).to_vec(), ..JobFilter::default() };
    let end = tokio::time::Instant::now() + Duration::from_secs(180);
    loop {
        let left = client.jobs(&filter, None).await.unwrap().items;
        if left.is_empty() {
            return;
        }
        let states: Vec<_> = left.iter().map(|job| (job.id, &job.job_type, &job.state)).collect();
        assert!(tokio::time::Instant::now() < end, "I7: still open: {states:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Follows the events over all restarts. A reported end must be final.
async fn watch_events(client: Client, record: Record) {
    let mut events = client.events(None, Some("0"));
    while let Some(event) = events.next().await.expect("a stream that survives restarts") {
        let change: Change = serde_json::from_str(&event.data).expect("the stream has only changes");
        record.count("events");
        if state(&change.state).is_terminal() {
            let told = record.book().events.insert(change.id, change.state.clone());
            assert!(told.is_none_or(|told| told == change.state), "job {} ended twice", change.id);
        }
    }
}

/// Reads everything through the API, twice, and then the store.
async fn read<G: Ground>(mut ground: G, record: Record) -> Aftermath {
    let client = client(&ground, 0);
    let shown = all(&client).await;
    ground.stop();
    ground.start();
    let again = all(&client).await;
    assert_eq!(shown, again, "completed jobs are the same after another restart");
    let traces = Traces::read(ground.folder());
    let mut logs = Vec::new();
    for &attempt in traces.ended.keys() {
        if let Some(log) = log(&client, attempt).await {
            logs.push((attempt, log));
        }
    }
    // Whether a job exists is checked by the judge.
    let there: BTreeSet<u64> = shown.iter().filter_map(|job| job["id"].as_u64()).collect();
    let own: Vec<_> = record.book().logs.keys().copied().collect();
    for attempt in own.into_iter().filter(|attempt| there.contains(&attempt.job.get())) {
        let log = log(&client, attempt).await;
        let wanted = record.book().logs.get(&attempt).cloned();
        assert_eq!(log, wanted, "{attempt}: the log is exactly what was acknowledged");
    }
    ground.stop();
    let stored = ground.stored().await;
    println!("{:>6} ms  read", record.now() / 1_000);
    let book = record.book().clone();
    Aftermath { book, stored, traces, shown, logs }
}

async fn ids(client: &Client) -> Vec<u64> {
    let mut jobs = client.all_jobs(JobFilter { limit: Some(200), ..JobFilter::default() });
    let mut ids = Vec::new();
    while let Some(job) = jobs.next().await.unwrap() {
        ids.push(job.id);
    }
    ids
}

async fn all(client: &Client) -> Vec<serde_json::Value> {
    let mut all = Vec::new();
    for id in ids(client).await {
        all.push(serde_json::to_value(client.job(id).await.unwrap()).unwrap());
    }
    all
}

/// The log of an attempt; none if the server has no record of the attempt, because its accept was never received.
async fn log(client: &Client, attempt: AttemptId) -> Option<Vec<u8>> {
    let mut reader = client.read_log(attempt.job.get(), Some(&attempt.to_string()), LogRange::All);
    let mut log = Vec::new();
    loop {
        match reader.next().await {
            Ok(Some(bytes)) => log.extend_from_slice(&bytes),
            Ok(None) => return Some(log),
            Err(error) if error.code() == Some(Code::NotFound) => return None,
            Err(error) => panic!("{attempt}: {error}"),
        }
    }
}
