//! `GET /jobs/{id}` compared with an empty JSON route: the same connections, in turns.

use jobhall_bench_raw_store::rows::params;
use serde_json::{Value, json};

use crate::http::{Connection, request};
use crate::polls::outcome;
use crate::process::Server;
use crate::turn::turn;
use crate::{Failed, Options};

/// One result per turn.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let hall = Server::hall(&options.binary, &options.directory.join("hall")).await?;
    let echo = Server::echo().await?;
    let (cancelled, succeeded) = (cancelled(&hall).await?, succeeded(&hall).await?);
    let queued = submit(&hall).await?;
    let sides = [
        ("empty", &echo, request("GET", "/empty", &echo, "")),
        ("queued", &hall, request("GET", &format!("/api/v1/jobs/{queued}"), &hall, "")),
        ("cancelled", &hall, request("GET", &format!("/api/v1/jobs/{cancelled}"), &hall, "")),
        ("succeeded", &hall, request("GET", &format!("/api/v1/jobs/{succeeded}"), &hall, "")),
    ];
    let mut turns = Vec::new();
    for _ in 0..options.rounds {
        for (name, server, request) in &sides {
            turns.push(turn(name, server, request, options).await?);
        }
    }
    Ok(json!({ "turns": turns }))
}

/// A job that stays in its queue.
async fn submit(hall: &Server) -> Result<u64, Failed> {
    let body = format!("{{\"type\":\"noop\",\"params\":{}}}", params());
    let job = Connection::open(hall).await?.json(&request("POST", "/api/v1/jobs", hall, &body)).await?;
    job["id"].as_u64().ok_or_else(|| "a job without a number".into())
}

/// A job that a worker has completed without a value: its result might be an artifact, which the server looks up.
async fn succeeded(hall: &Server) -> Result<u64, Failed> {
    let id = submit(hall).await?;
    let mut connection = Connection::open(hall).await?;
    let poll = request("POST", "/api/v1/vacancies", hall, r#"{"slots":1,"wait_s":20}"#);
    let assigned = connection.ask(&poll).await?.to_vec();
    outcome(hall, &mut connection, &assigned).await?;
    Ok(id)
}

/// A job that never ran.
async fn cancelled(hall: &Server) -> Result<u64, Failed> {
    let id = submit(hall).await?;
    let cancel = request("POST", &format!("/api/v1/jobs/{id}/cancel"), hall, "");
    Connection::open(hall).await?.ask(&cancel).await?;
    Ok(id)
}
