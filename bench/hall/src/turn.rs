//! One turn of a comparison: persistent connections repeat one request, and the CPU time of the server is measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobhall_bench_raw_store::machine::Sample;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::process::Server;
use crate::{Failed, Options};

/// Sends the request over all connections for the time of one turn.
pub async fn turn(name: &str, server: &Server, request: &[u8], options: &Options) -> Result<Value, Failed> {
    turn_of(name, server, &Arc::new(vec![request.to_vec()]), options).await
}

/// The same with several requests; each connection begins with another one.
pub async fn turn_of(
    name: &str,
    server: &Server,
    requests: &Arc<Vec<Vec<u8>>>,
    options: &Options,
) -> Result<Value, Failed> {
    let time = Duration::from_secs_f64(options.seconds);
    let mut connections = JoinSet::new();
    let (before, cpu, began) = (Sample::now()?, server.cpu_seconds()?, Instant::now());
    for number in 0..options.connections {
        let (mut connection, requests) = (Connection::open(server).await?, requests.clone());
        let first = number * requests.len() / options.connections;
        connections.spawn(async move { connection.repeat(&requests, first, time).await });
    }
    let mut answers = 0;
    while let Some(done) = connections.join_next().await {
        answers += done??;
    }
    let used = Sample::now()?.since(&before);
    Ok(json!({
        "name": name,
        "per_second": answers as f64 / began.elapsed().as_secs_f64(),
        "server_us": (server.cpu_seconds()? - cpu) * 1e6 / answers as f64,
        "steal_percent": used.steal_percent,
    }))
}
