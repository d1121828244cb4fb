//! `/bin/true`, many times: on a worker with two slots, and with `xargs -P2`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use jobhall_bench_raw_store::machine::Sample;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::http::{Connection, request};
use crate::process::{Server, worker};
use crate::{Failed, Options};

/// Number of jobs per request.
const BULK: usize = 500;

/// One result per turn.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let hall = Server::hall(&options.binary, &options.directory.join("hall")).await?;
    let _worker = worker(&options.binary, &hall)?;
    let mut client = Connection::open(&hall).await?;
    ours(&hall, &mut client, 100).await?;
    let mut turns = Vec::new();
    for _ in 0..options.rounds {
        let before = Sample::now()?;
        let seconds = theirs(options.jobs).await?;
        turns.push(turn("xargs", options.jobs, seconds, &before)?);
        let before = Sample::now()?;
        let seconds = ours(&hall, &mut client, options.jobs).await?;
        turns.push(turn("hall", options.jobs, seconds, &before)?);
    }
    Ok(json!({ "turns": turns }))
}

fn turn(name: &str, jobs: usize, seconds: f64, before: &Sample) -> Result<Value, Failed> {
    let used = Sample::now()?.since(before);
    Ok(json!({ "name": name, "per_second": jobs as f64 / seconds, "steal_percent": used.steal_percent }))
}

/// The time from the first submit to the end of the last job.
async fn ours(hall: &Server, client: &mut Connection, jobs: usize) -> Result<f64, Failed> {
    let began = Instant::now();
    let mut ids = Vec::new();
    for bulk in (0..jobs).step_by(BULK) {
        let many = vec![json!({"type": "exec", "params": {"argv": ["/bin/true"]}}); BULK.min(jobs - bulk)];
        let submit = request("POST", "/api/v1/jobs", hall, &serde_json::to_string(&many)?);
        let made = client.json(&submit).await?;
        let made = made.as_array().ok_or("a submit without jobs")?;
        ids.extend(made.iter().filter_map(|job| job["id"].as_u64()));
    }
    // Two slots: the last jobs end at about the same time, so waiting for one after the other waits for the last.
    for id in ids.iter().rev().take(10).rev() {
        completed(hall, client, *id).await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    for id in ids {
        completed(hall, client, id).await?;
    }
    Ok(seconds)
}

async fn completed(hall: &Server, client: &mut Connection, id: u64) -> Result<(), Failed> {
    let show = request("GET", &format!("/api/v1/jobs/{id}"), hall, "");
    loop {
        let job = client.json(&show).await?;
        match job["state"].as_str() {
            Some("succeeded") => return Ok(()),
            Some("failed" | "crashed" | "cancelled") => {
                return Err(format!("a job failed: {job}").into());
            }
            _ => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

async fn theirs(jobs: usize) -> Result<f64, Failed> {
    let mut command = Command::new("xargs");
    command.args(["-P2", "-n1", "/bin/true"]).stdin(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn()?;
    let lines: String = (0..jobs).map(|number| format!("{number}\n")).collect();
    let mut input = child.stdin.take().ok_or("xargs without input")?;
    input.write_all(lines.as_bytes()).await?;
    drop(input);
    let status = child.wait().await?;
    let seconds = began.elapsed().as_secs_f64();
    if status.success() { Ok(seconds) } else { Err(format!("xargs ended with {status}").into()) }
}
