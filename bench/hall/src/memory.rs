//! Queued jobs: the memory that they take in the server, and how long a restart on them takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobhall_bench_raw_store::machine::Sample;
use jobhall_bench_raw_store::rows::params;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::http::{Connection, request};
use crate::process::Server;
use crate::{Failed, Options};

/// Free memory goes back to the system within a second; checkpoints and upkeep have ended by then, too.
const SETTLE: Duration = Duration::from_secs(5);
/// How often the server is asked whether it is ready, at most.
const POLL: Duration = Duration::from_millis(2);
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// Memory of the empty server, with all jobs queued, and after each restart.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let before = Sample::now()?;
    let (mut server, _) = start(options).await?;
    sleep(SETTLE).await;
    let empty = server.memory()?;
    let submit_seconds = fill(&server, options).await?;
    sleep(SETTLE).await;
    let (full, peak) = (server.memory()?, server.peak_memory()?);
    let mut restarts = Vec::new();
    for _ in 0..options.rounds {
        let began = Instant::now();
        server.stop().await?;
        let stop_seconds = began.elapsed().as_secs_f64();
        let (again, ready_seconds) = start(options).await?;
        server = again;
        let ready_cpu_seconds = server.cpu_seconds()?;
        sleep(SETTLE).await;
        restarts.push(json!({
            "stop_seconds": stop_seconds,
            "ready_seconds": ready_seconds,
            "ready_cpu_seconds": ready_cpu_seconds,
            "memory": server.memory()?,
            "peak": server.peak_memory()?,
        }));
    }
    check(&server, options.jobs).await?;
    Ok(json!({
        "jobs": options.jobs,
        "submit_seconds": submit_seconds,
        "memory_empty": empty,
        "memory_full": full,
        "memory_peak": peak,
        "bytes_each": full.saturating_sub(empty) as f64 / options.jobs as f64,
        "restarts": restarts,
        "steal_percent": Sample::now()?.since(&before).steal_percent,
    }))
}

/// Starts the server and waits until it is ready; returns the seconds that this took.
async fn start(options: &Options) -> Result<(Server, f64), Failed> {
    let began = Instant::now();
    let server = Server::hall(&options.binary, &options.directory.join("hall")).await?;
    let mut connection = Connection::open(&server).await?;
    let ready = request("GET", "/readyz", &server, "");
    loop {
        connection.send(&ready).await?;
        if connection.answer().await?.0 == 200 {
            return Ok((server, began.elapsed().as_secs_f64()));
        }
        if began.elapsed() > READY_TIMEOUT {
            return Err("the server did not become ready".into());
        }
        sleep(POLL).await;
    }
}

/// Submits all jobs, `bulk` in one request; returns the seconds that this took.
async fn fill(server: &Server, options: &Options) -> Result<f64, Failed> {
    let (began, left) = (Instant::now(), Arc::new(AtomicUsize::new(options.jobs)));
    let mut clients = JoinSet::new();
    for _ in 0..options.submitters {
        let (mut connection, left, bulk) = (Connection::open(server).await?, left.clone(), options.bulk);
        let whole = submit(server, bulk);
        let part = submit(server, options.jobs % bulk);
        clients.spawn(async move {
            loop {
                let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    (left > 0).then(|| left.saturating_sub(bulk))
                });
                match taken {
                    Err(_) => return Ok::<(), Failed>(()),
                    Ok(left) => connection.ask(if left >= bulk { &whole } else { &part }).await?,
                };
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    Ok(began.elapsed().as_secs_f64())
}

fn submit(server: &Server, jobs: usize) -> Vec<u8> {
    let job = format!("{{\"type\":\"noop\",\"params\":{}}}", params());
    request("POST", "/api/v1/jobs", server, &format!("[{}]", vec![job; jobs].join(",")))
}

/// Every job must still be queued.
async fn check(server: &Server, jobs: usize) -> Result<(), Failed> {
    let mut connection = Connection::open(server).await?;
    let stats = connection.json(&request("GET", "/api/v1/stats", server, "")).await?;
    let queued = stats["jobs"]["queued"].as_u64();
    if queued == Some(jobs as u64) {
        return Ok(());
    }
    Err(format!("{jobs} jobs were submitted, but the server shows {stats}").into())
}
