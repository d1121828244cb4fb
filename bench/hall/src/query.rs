//! CPU time of the server for a query whose value is in memory, compared with an empty JSON route of axum.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::{Connection, request};
use crate::process::Server;
use crate::turn::turn_of;
use crate::{Failed, Options};

/// How many of the stored values are asked for.
pub const ASKED: usize = 1_000;
/// Clients that ask while the values are made, and workers that make them.
const ASKERS: usize = 16;
const WORKERS: usize = 8;
/// Jobs of one vacancy.
const SLOTS: usize = 32;

/// The turns, and the ratios of the CPU time per request of adjacent turns.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let hall = Arc::new(Server::hall(&options.binary, &options.directory.join("hall")).await?);
    let memory_before = hall.memory()?;
    fill(&hall, options.values).await?;
    let memory_after = hall.memory()?;
    let mut empty = Server::echo().await?;
    // Both sides read the same request.
    empty.token.clone_from(&hall.token);
    let step = options.values / ASKED;
    let asked = (0..ASKED).map(|n| request("GET", &format!("/q/value-{}", n * step), &hall, ""));
    let asked: Arc<Vec<Vec<u8>>> = Arc::new(asked.collect());
    let one = |request| Arc::new(vec![request]);
    let mut sides = [
        ("empty", &empty, one(request("GET", "/empty", &empty, ""))),
        ("query", &*hall, asked.clone()),
        ("livez", &*hall, one(request("GET", "/livez", &hall, ""))),
    ];
    // The values come into memory.
    let mut connection = Connection::open(&hall).await?;
    for request in asked.iter() {
        connection.ask(request).await?;
    }
    for (name, server, requests) in &sides {
        turn_of(name, server, requests, &Options { seconds: options.seconds / 4.0, ..options.clone() })
            .await?;
    }
    let (mut turns, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let mut round = Vec::new();
        for (name, server, requests) in &sides {
            round.push(turn_of(name, server, requests, options).await?);
        }
        ratios.push(server_us(&round, "query")? / server_us(&round, "empty")?);
        turns.append(&mut round);
        sides.rotate_left(1);
    }
    ratios.sort_by(f64::total_cmp);
    let at = |quarter: usize| ratios[(ratios.len() - 1) * quarter / 4];
    let ratio = json!({ "min": at(0), "lower": at(1), "median": at(2), "upper": at(3), "max": at(4) });
    let bytes_each = memory_after.saturating_sub(memory_before) / options.values as u64;
    Ok(json!({ "ratio": ratio, "values": options.values, "bytes_each": bytes_each, "turns": turns }))
}

fn server_us(round: &[Value], name: &str) -> Result<f64, Failed> {
    let turn = round.iter().find(|turn| turn["name"] == name);
    turn.and_then(|turn| turn["server_us"].as_f64()).ok_or_else(|| format!("no turn of {name}").into())
}

/// Makes the values of `value-0`, `value-1` and so on.
async fn fill(hall: &Arc<Server>, values: usize) -> Result<(), Failed> {
    let declared = r#"{"commands":{"value":{"version":"1","command":{"run":["x"],"args":[{"name":"n","type":"int"}]}}}}"#;
    Connection::open(hall).await?.ask(&request("PUT", "/api/v1/commands", hall, declared)).await?;
    let (next, made) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..ASKERS {
        tasks.spawn(ask(hall.clone(), next.clone(), values));
    }
    for _ in 0..WORKERS {
        tasks.spawn(work(hall.clone(), made.clone(), values));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn ask(hall: Arc<Server>, next: Arc<AtomicUsize>, values: usize) -> Result<(), Failed> {
    let mut connection = Connection::open(&hall).await?;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= values {
            return Ok(());
        }
        let body = json!({ "query": format!("value-{number}") }).to_string();
        connection.ask(&request("POST", "/api/v1/queries", &hall, &body)).await?;
    }
}

async fn work(hall: Arc<Server>, made: Arc<AtomicUsize>, values: usize) -> Result<(), Failed> {
    let mut connection = Connection::open(&hall).await?;
    let offer = json!({
        "slots": SLOTS, "wait_s": 1, "abilities": "commands=[value@1]", "accepts": "type=q.value",
    });
    let offer = request("POST", "/api/v1/vacancies", &hall, &offer.to_string());
    while made.load(Ordering::Relaxed) < values {
        let given = connection.json(&offer).await?;
        let attempts = given["attempts"].as_array().cloned().unwrap_or_default();
        for attempt in &attempts {
            connection.ask(&outcome(&hall, attempt)?).await?;
            made.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The report of an attempt with its query as the value.
fn outcome(hall: &Server, attempt: &Value) -> Result<Vec<u8>, Failed> {
    let (id, lease) = (attempt["id"].as_str(), attempt["lease"].as_str());
    let (id, lease) = id.zip(lease).ok_or("an assignment without a lease")?;
    let text = attempt["job"]["params"]["query"].as_str().ok_or("an assignment without a query")?;
    let value = json!({ "media_type": "text/plain", "size": text.len(), "text": text });
    let body = json!({ "outcome": "succeeded", "value": value }).to_string();
    let head = format!(
        "POST /api/v1/attempts/{id}/outcome HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nJobhall-Lease: {lease}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        hall.address,
        hall.token,
        body.len()
    );
    Ok(head.into_bytes())
}
