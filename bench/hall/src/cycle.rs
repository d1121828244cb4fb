//! The full cycle of no-op jobs: submitted in batches over HTTP, executed over sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobhall_bench_raw_store::machine::Sample;
use jobhall_bench_raw_store::rows::params;
use jobhall_client::{Client, SessionReceiver, SessionSender};
use jobhall_protocol::{Hello, Outcome, OutcomeReport, ToServer, ToWorker};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::http::{Connection, request};
use crate::process::Server;
use crate::{Failed, Options};

/// Maximum number of submitted and not completed jobs: clients wait when workers are behind, as in the engine's
/// benchmark.
pub const ROOM: usize = 4_096;
/// Number of jobs that one worker accepts at once.
const CREDIT: u64 = 1_024;
const WARMUP: Duration = Duration::from_millis(500);
/// Interval between two renewals; a lease lives for 30 s.
pub const RENEW_AFTER: Duration = Duration::from_secs(5);

struct Shared {
    stop: AtomicBool,
    submitted: AtomicU64,
    completed: AtomicU64,
    /// One permit for each job that may still be submitted.
    room: Semaphore,
}

/// Job life cycles per second, and their CPU cost for the server and for this program.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let nodes = Server::nodes(options, options.nodes).await?;
    let nodes: Vec<Arc<Server>> = nodes.into_iter().map(Arc::new).collect();
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        submitted: AtomicU64::new(0),
        completed: AtomicU64::new(0),
        room: Semaphore::new(ROOM),
    });
    let mut workers = JoinSet::new();
    for (_, node) in (0..options.workers).zip(nodes.iter().cycle()) {
        let client = Client::new(&format!("http://{}", node.address), Some(&node.token))?;
        let hello = Hello { accepts: "type=noop".to_owned(), ..Hello::default() };
        let (sender, receiver) = client.session(hello).await?.split();
        workers.spawn(work(sender, receiver, shared.clone()));
    }
    let mut clients = JoinSet::new();
    for (_, node) in (0..options.submitters).zip(nodes.iter().cycle()) {
        clients.spawn(submit(node.clone(), options.bulk, shared.clone()));
    }
    tokio::time::sleep(WARMUP).await;
    let (machine, cpu, lives) = look(&nodes, &shared)?;
    tokio::time::sleep(Duration::from_secs_f64(options.seconds)).await;
    let (machine_after, cpu_after, lives_after) = look(&nodes, &shared)?;
    shared.stop.store(true, Ordering::Relaxed);
    while let Some(done) = clients.join_next().await {
        done??;
    }
    drain(&shared, &mut workers).await?;
    let (used, lives) = (machine_after.since(&machine), (lives_after - lives) as f64);
    Ok(json!({
        "lives_per_second": lives / used.seconds,
        "hall_us": (cpu_after - cpu) * 1e6 / lives,
        "load_us": used.cpu_seconds * 1e6 / lives,
        "all_lives": shared.completed.load(Ordering::Relaxed),
        "steal_percent": used.steal_percent,
    }))
}

fn look(nodes: &[Arc<Server>], shared: &Shared) -> Result<(Sample, f64, u64), Failed> {
    let cpu = nodes.iter().map(|node| node.cpu_seconds()).sum::<Result<f64, Failed>>()?;
    Ok((Sample::now()?, cpu, shared.completed.load(Ordering::Relaxed)))
}

/// Waits until every submitted job has ended.
async fn drain(shared: &Shared, workers: &mut JoinSet<Result<(), Failed>>) -> Result<(), Failed> {
    let began = Instant::now();
    while shared.completed.load(Ordering::Relaxed) < shared.submitted.load(Ordering::Relaxed) {
        if let Some(ended) = workers.try_join_next() {
            ended??;
        }
        if began.elapsed() > Duration::from_secs(30) {
            return Err("jobs were left open".into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    workers.abort_all();
    Ok(())
}

/// Submits and waits for the response, repeatedly.
async fn submit(hall: Arc<Server>, bulk: usize, shared: Arc<Shared>) -> Result<(), Failed> {
    let job = format!("{{\"type\":\"noop\",\"params\":{}}}", params());
    let body = format!("[{}]", vec![job; bulk].join(","));
    let post = request("POST", "/api/v1/jobs", &hall, &body);
    let mut connection = Connection::open(&hall).await?;
    while !shared.stop.load(Ordering::Relaxed) {
        shared.room.acquire_many(u32::try_from(bulk)?).await?.forget();
        connection.ask(&post).await?;
        shared.submitted.fetch_add(bulk as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Reports success for each job immediately. A life cycle counts when that was answered.
async fn work(
    mut sender: SessionSender,
    mut receiver: SessionReceiver,
    shared: Arc<Shared>,
) -> Result<(), Failed> {
    let (mut total, mut renewed, mut words) = (CREDIT, Instant::now(), Vec::new());
    sender.send(&[ToServer::Credit { total: total.cast_signed() }]).await?;
    loop {
        let mut ended = 0;
        for message in receiver.next().await? {
            match message {
                ToWorker::Assign { attempt, lease, .. } => {
                    words.push(ToServer::Outcome { attempt, lease, report: passed() });
                }
                ToWorker::Moved { .. } => ended += 1,
                ToWorker::Renewed {} => {}
                other => return Err(format!("a worker received {other:?}").into()),
            }
        }
        shared.completed.fetch_add(ended, Ordering::Relaxed);
        shared.room.add_permits(usize::try_from(ended)?);
        if !words.is_empty() {
            total += words.len() as u64;
            words.push(ToServer::Credit { total: total.cast_signed() });
        }
        if renewed.elapsed() > RENEW_AFTER {
            renewed = Instant::now();
            words.push(ToServer::Renew {});
        }
        if !words.is_empty() {
            sender.send(&words).await?;
            words.clear();
        }
    }
}

/// The shortest report.
pub fn passed() -> OutcomeReport {
    OutcomeReport { outcome: Outcome::Succeeded, value: None, error: None, retry: None, params: None }
}
