//! Waiting long polls: their memory, and the time until one of them receives a job.

use std::time::{Duration, Instant};

use jobhall_bench_raw_store::machine::{Sample, fdatasync_us, percentile};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::http::{Connection, request};
use crate::process::Server;
use crate::{Failed, Options};

/// Time for the server to settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(3);
/// Number of connections that are opened and closed before the measurement.
const WARM: usize = 100;
/// Number of wake-ups.
const WAKES: usize = 200;

/// Memory before and after, and the times of wake-ups compared with those of an echo.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let hall = Server::hall(&options.binary, &options.directory.join("hall")).await?;
    let echo = Server::echo().await?;
    let before = Sample::now()?;
    warm(&hall).await?;
    let empty = hall.memory()?;
    let (woken, mut wakes) = mpsc::unbounded_channel();
    let vacancy = request("POST", "/api/v1/vacancies", &hall, r#"{"slots":1,"wait_s":60}"#);
    for _ in 0..options.polls {
        let mut connection = Connection::open(&hall).await?;
        connection.send(&vacancy).await?;
        let woken = woken.clone();
        tokio::spawn(async move {
            let answer = connection.answer().await.map(|(_, body)| body.to_vec());
            let _ = woken.send((Instant::now(), answer));
        });
    }
    let parked = parked(&hall, options.polls).await?;
    // The server may release memory that it needed only for the setup.
    tokio::time::sleep(SETTLE).await;
    let full = hall.memory()?;
    let mut client = Connection::open(&hall).await?;
    let mut echoer = Connection::open(&echo).await?;
    let (mut heard, mut echoed) = (Vec::new(), Vec::new());
    let submit = request("POST", "/api/v1/jobs", &hall, r#"{"type":"noop"}"#);
    let post = request("POST", "/echo", &echo, r#"{"type":"noop"}"#);
    for _ in 0..WAKES {
        let began = Instant::now();
        client.ask(&submit).await?;
        let (at, answer) = wakes.recv().await.ok_or("no poll is left")?;
        heard.push(at.saturating_duration_since(began));
        outcome(&hall, &mut client, &answer?).await?;
        let began = Instant::now();
        echoer.ask(&post).await?;
        echoed.push(began.elapsed());
    }
    let us = |times: &[Duration], percent| percentile(times.to_vec(), percent).as_secs_f64() * 1e6;
    Ok(json!({
        "polls": parked,
        "memory_before": empty,
        "memory_after": full,
        "bytes_each": (full - empty) as f64 / parked as f64,
        "wake_us_p50": us(&heard, 50),
        "wake_us_p99": us(&heard, 99),
        "echo_us_p50": us(&echoed, 50),
        "fdatasync_us": fdatasync_us(&options.directory)?,
        "steal_percent": Sample::now()?.since(&before).steal_percent,
    }))
}

/// Uses everything that a poll uses, so that memory which the server keeps permanently is not counted as a poll's:
/// caches of the store, arenas of the allocator.
async fn warm(hall: &Server) -> Result<(), Failed> {
    let submit = request("POST", "/api/v1/jobs", hall, r#"{"type":"warm"}"#);
    let vacancy =
        request("POST", "/api/v1/vacancies", hall, r#"{"slots":1,"wait_s":0,"accepts":"type=none"}"#);
    let mut connections = Vec::new();
    for _ in 0..WARM {
        let mut connection = Connection::open(hall).await?;
        let id = connection.json(&submit).await?["id"].clone();
        connection.ask(&request("POST", &format!("/api/v1/jobs/{id}/cancel"), hall, "")).await?;
        connection.ask(&vacancy).await?;
        connections.push(connection);
    }
    drop(connections);
    tokio::time::sleep(SETTLE).await;
    Ok(())
}

/// Waits until the server shows that all of them wait.
async fn parked(hall: &Server, polls: usize) -> Result<u64, Failed> {
    let mut connection = Connection::open(hall).await?;
    let workers = request("GET", "/api/v1/workers", hall, "");
    for _ in 0..600 {
        let page = connection.json(&workers).await?;
        let slots =
            page["items"].as_array().map(|items| items.iter().filter_map(|one| one["slots"].as_u64()));
        let slots: u64 = slots.map_or(0, Iterator::sum);
        if slots >= polls as u64 {
            return Ok(slots);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err("not every poll is waiting".into())
}

/// Ends an assigned job, so that it is not assigned to another poll.
pub async fn outcome(hall: &Server, client: &mut Connection, assignments: &[u8]) -> Result<(), Failed> {
    let assigned: Value = serde_json::from_slice(assignments)?;
    let attempt = &assigned["attempts"][0];
    let (id, lease) = (attempt["id"].as_str(), attempt["lease"].as_str());
    let (id, lease) = id.zip(lease).ok_or("an assignment without a lease")?;
    let body = r#"{"outcome":"succeeded"}"#;
    let head = format!(
        "POST /api/v1/attempts/{id}/outcome HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nJobhall-Lease: {lease}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        hall.address,
        hall.token,
        body.len()
    );
    client.ask(head.as_bytes()).await?;
    Ok(())
}
