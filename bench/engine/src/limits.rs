//! The same job life cycles with and without limits, in turns, in one process: 1,000 customers with a limit each, a
//! rate, a limit of the whole queue, and jobs of different weights. No job has to wait, so this measures the cost of
//! limits.

use std::time::Duration;

use jobhall_bench_raw_store::rows::params;
use jobhall_core::limits::{KeyExpression, Limit, Rate};
use jobhall_core::{Json, NewJob, QueueConfig, QueueName, TypeName};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::life::{self, Way};
use crate::setup::Hall;
use crate::{Failed, Options};

const CUSTOMERS: u32 = 1_000;
const WEIGHTS: u32 = 3;

/// Measures both in turns, with jobs queued first and assigned at the submit.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let jobs = jobs()?;
    let mut report = Map::new();
    for (name, way) in [("life", Way::Queued), ("handover", Way::HandedOver)] {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for turn in 0..options.alternations {
            // The second one has to handle what the first one left.
            for limited in [turn % 2 == 1, turn % 2 == 0] {
                let (side, limits) =
                    if limited { (&mut with, limits()?) } else { (&mut without, Vec::new()) };
                side.push(one(options, &format!("{name}-{turn}-{limited}"), way, &jobs, limits).await?);
            }
        }
        report.insert(name.to_owned(), json!({ "without": without, "with": with }));
    }
    Ok(Value::Object(report))
}

async fn one(
    options: &Options,
    name: &str,
    way: Way,
    jobs: &[NewJob],
    limits: Vec<Limit>,
) -> Result<Map<String, Value>, Failed> {
    let mut hall = Hall::open(options, name, 0).await?;
    // Always set, because a database keeps the settings of the previous turn.
    let config = (!limits.is_empty()).then_some(QueueConfig { limits, ..QueueConfig::default() });
    hall.engine.set_queue(QueueName::new("default")?, config, None).await?;
    let report = life::measure_jobs(&mut hall, options, way, jobs).await?;
    hall.engine.stop().await;
    sleep(Duration::from_millis(200)).await;
    Ok(report)
}

/// Jobs of all customers and weights, with params of typical size.
fn jobs() -> Result<Vec<NewJob>, Failed> {
    let usual = params();
    let rest = usual.trim_start().strip_prefix('{').ok_or("params are an object")?;
    let job = |n: u32| {
        let mut job = NewJob::new(TypeName::new("noop")?);
        job.params = Json::params(&format!("{{\"customer\":{{\"id\":{}}},{rest}", n % CUSTOMERS))?;
        job.throttle_factor = 1 + n % WEIGHTS;
        Ok(job)
    };
    (0..CUSTOMERS * WEIGHTS).map(job).collect()
}

fn limits() -> Result<Vec<Limit>, Failed> {
    let by = KeyExpression::parse("params.customer.id")?;
    let rate = Rate { count: 1_000_000, per_ms: 100, burst: Some(1_000_000) };
    Ok(vec![
        Limit { by: None, concurrency: Some(1_000_000), rate: Some(rate) },
        Limit { by: Some(by), concurrency: Some(1_000), rate: None },
    ])
}
