//! The time from a submit at one node to a worker that waits at another, compared with the same at the leader.

use jobhall_bench_raw_store::machine::{Sample, percentile};
use jobhall_client::{Client, Session};
use jobhall_protocol::{Hello, ToServer};
use serde_json::{Value, json};

use crate::http::{Connection, request};
use crate::process::Server;
use crate::start::one;
use crate::{Failed, Options};

/// An idle client and an idle worker.
struct Pair {
    submit: Vec<u8>,
    post: Connection,
    session: Session,
    total: u64,
}

impl Pair {
    /// A client of one node, and a worker of another. Each pair has its own type.
    async fn new(client_at: &Server, worker_at: &Server, job_type: &str) -> Result<Pair, Failed> {
        let client = Client::new(&format!("http://{}", worker_at.address), Some(&worker_at.token))?;
        let hello = Hello { accepts: format!("type={job_type}"), ..Hello::default() };
        let mut session = client.session(hello).await?;
        session.send(&[ToServer::Credit { total: 1 }]).await?;
        let body = format!("{{\"type\":\"{job_type}\"}}");
        let submit = request("POST", "/api/v1/jobs", client_at, &body);
        Ok(Pair { submit, post: Connection::open(client_at).await?, session, total: 1 })
    }
}

/// One result of each kind per turn.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let nodes = Server::nodes(options, 3).await?;
    let [holder, second, third] = nodes.as_slice() else {
        return Err("--database is needed: a hall of one file has one node".into());
    };
    let mut pairs = [Pair::new(holder, holder, "near").await?, Pair::new(second, third, "far").await?];
    let mut turns = Vec::new();
    for _ in 0..options.rounds {
        let before = Sample::now()?;
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..options.jobs {
            for (pair, times) in pairs.iter_mut().zip(&mut times) {
                pair.total += 1;
                times.push(one(&pair.submit, &mut pair.post, &mut pair.session, pair.total).await?);
            }
        }
        let [near, far] = times.map(|times| percentile(times, 50).as_secs_f64() * 1e6);
        let steal = Sample::now()?.since(&before).steal_percent;
        turns.push(json!({ "near_us_p50": near, "far_us_p50": far, "steal_percent": steal }));
    }
    Ok(json!({ "turns": turns }))
}
