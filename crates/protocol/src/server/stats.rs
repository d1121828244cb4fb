//! Statistics of queues and of the hall.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;
use crate::settings::limit::{Limit, Retention};

/// A queue with its open jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Queue name.
    pub name: String,
    /// Open jobs by state; every non-final state is included.
    pub jobs: BTreeMap<String, u64>,
    /// Jobs that could be assigned now.
    pub ready: u64,
    /// Since when the oldest ready job could have been assigned.
    pub oldest_ready_at: Option<Timestamp>,
    /// The same as a duration in milliseconds, by the server's clock.
    pub oldest_ready_ms: Option<u64>,
    /// Whether the queue is paused.
    #[serde(default)]
    pub paused: bool,
    /// Limits on concurrency and rate.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// Its own rule: completed jobs older than this are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
    /// Its own rule: maximum number of completed jobs of each type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_count: Option<u64>,
    /// Number of connected workers that match at least one kind of job in the queue; only in the response for one
    /// queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u64>,
    /// Number of jobs that those workers could take now; only in the response for one queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_slots: Option<u64>,
}

/// Rates per second over the last minute and the last five minutes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Over the last minute.
    pub per_s_1m: f64,
    /// Over the last five minutes.
    pub per_s_5m: f64,
}

/// Distribution of a duration since the server started, estimated from buckets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Durations {
    /// Number of measurements.
    pub count: u64,
    /// Median; none without measurements.
    pub p50_ms: Option<f64>,
    /// 95th percentile.
    pub p95_ms: Option<f64>,
}

/// Totals since the server started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Jobs created by submits, manual retries and follow-ups.
    pub submitted: u64,
    /// Completed jobs by outcome.
    pub completed: BTreeMap<String, u64>,
    /// Ended attempts by outcome.
    pub attempts: BTreeMap<String, u64>,
}

/// Numbers of workers and slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workforce {
    /// Workers without an attempt.
    pub idle: u64,
    /// Workers with at least one attempt.
    pub busy: u64,
    /// Workers with attempts from before a restart of the server that have not reconnected yet.
    pub awaited: u64,
    /// Free slots.
    pub free_slots: u64,
    /// Attempts assigned to workers.
    pub busy_slots: u64,
}

/// Disk usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Size of the store in bytes.
    pub store_bytes: u64,
    /// Free bytes on the disk.
    pub free_bytes: u64,
    /// Size of logs, artifacts and large results in bytes; none if they are not on this disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob_bytes: Option<u64>,
}

/// The completed jobs that are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// Number of completed jobs; none until they are counted, shortly after the start.
    pub jobs: Option<u64>,
    /// The types with most of them, at most ten, the largest first.
    pub types: Vec<KeptType>,
    /// The server's rule; a type or a queue may have its own.
    pub retention: Retention,
}

/// The completed jobs of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptType {
    /// Type of the jobs.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Number of completed jobs.
    pub jobs: u64,
}

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asker {
    /// The name of the token.
    pub name: String,
    /// Role of the token.
    pub role: String,
}

/// Statistics of the hall at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Version of the server.
    pub version: String,
    /// The server's clock.
    pub time: Timestamp,
    /// Time since the start, in milliseconds.
    pub uptime_ms: u64,
    /// Open jobs by state; every non-final state is included.
    pub jobs: BTreeMap<String, u64>,
    /// Jobs that could be assigned now.
    pub ready: u64,
    /// How long the oldest ready job could have been assigned, in milliseconds.
    pub oldest_ready_ms: Option<u64>,
    /// Totals since the start.
    pub totals: Totals,
    /// Rate of created jobs.
    pub submitted: Rates,
    /// Rate of completed jobs.
    pub completed: Rates,
    /// Time from when a job could be assigned until it was.
    pub wait: Durations,
    /// Time from the acceptance of an attempt until its end.
    pub run: Durations,
    /// Time from when a commit was sent to the store until it was durable.
    pub commit: Durations,
    /// Numbers of workers and slots.
    pub workers: Workforce,
    /// The completed jobs that are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// Disk usage; none if it is unknown.
    pub disk: Option<Disk>,
    /// Open connections.
    pub connections: u64,
    /// Open streams of events and logs.
    pub live_clients: u64,
    /// The caller.
    pub token: Asker,
}
