//! One session worker against a running server: the Rust side of the comparison with the Python worker.

use std::env;
use std::time::Instant;

use jobhall_client::Client;
use jobhall_protocol::{Hello, ToServer, ToWorker};
use serde_json::{Value, json};

use crate::cycle::{RENEW_AFTER, passed};
use crate::{Failed, Options};

/// Runs `--jobs` queued jobs of type `noop` with `--slots` slots. The time counts from the first credit until the last
/// outcome was answered. The token is read from `JOBHALL_TOKEN`.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let server = options.server.as_deref().ok_or("noop needs --server URL")?;
    let client = Client::new(server, env::var("JOBHALL_TOKEN").ok().as_deref())?;
    let hello = Hello { accepts: "type=noop".to_owned(), ..Hello::default() };
    let (mut sender, mut receiver) = client.session(hello).await?.split();
    let (mut total, mut ended) = (options.slots as u64, 0);
    let (began, mut renewed, mut words) = (Instant::now(), Instant::now(), Vec::new());
    sender.send(&[ToServer::Credit { total: total.cast_signed() }]).await?;
    while ended < options.jobs {
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
    let seconds = began.elapsed().as_secs_f64();
    Ok(json!({ "jobs": ended, "seconds": seconds, "lives_per_second": ended as f64 / seconds }))
}
