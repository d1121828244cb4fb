//! What the hall counts, as it is told: queues, and the hall as a whole.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limit::Limit;
use crate::timestamp::Timestamp;

/// A queue with its open jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Open jobs by state; every state that is not an end is there.
    pub jobs: BTreeMap<String, u64>,
    /// Jobs that a worker could take now.
    pub ready: u64,
    /// Since when the one that waits longest could have been taken.
    pub oldest_ready_at: Option<Timestamp>,
    /// The same as a length of time, by the hall's clock.
    pub oldest_ready_ms: Option<u64>,
    /// Whether none of its jobs are given to workers.
    #[serde(default)]
    pub paused: bool,
    /// How much of it may go on at once, and how fast.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// Connected workers that suit at least one kind of job in it; only where one queue is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u64>,
    /// Jobs that those workers could take now; only where one queue is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_slots: Option<u64>,
}

/// How often something happened: per second, over the last minute and the last five.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Over the last minute.
    pub per_s_1m: f64,
    /// Over the last five minutes.
    pub per_s_5m: f64,
}

/// How long something took, since the hall started; estimated from buckets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Durations {
    /// How often it was measured.
    pub count: u64,
    /// Half of them took no longer; none if there were none.
    pub p50_ms: Option<f64>,
    /// Of twenty, nineteen took no longer.
    pub p95_ms: Option<f64>,
}

/// What came and went since the hall started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Jobs that were made: by submits, manual retries and follow-ups.
    pub submitted: u64,
    /// Jobs that were completed, by the outcome that completed them.
    pub completed: BTreeMap<String, u64>,
    /// Attempts that ended, by their outcome.
    pub attempts: BTreeMap<String, u64>,
}

/// Who works here, and how much more could be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workforce {
    /// Workers without an attempt.
    pub idle: u64,
    /// Workers with at least one.
    pub busy: u64,
    /// Workers that have attempts from before a restart of the hall and have not come back yet.
    pub awaited: u64,
    /// Jobs that could be taken now.
    pub free_slots: u64,
    /// Attempts in the hands of workers.
    pub busy_slots: u64,
}

/// The hall's place on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Bytes of the store.
    pub store_bytes: u64,
    /// Bytes that are free there.
    pub free_bytes: u64,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asker {
    /// The name of the token.
    pub name: String,
    /// Its role.
    pub role: String,
}

/// The hall as a whole, at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Which version runs.
    pub version: String,
    /// The hall's clock.
    pub time: Timestamp,
    /// How long it has been up.
    pub uptime_ms: u64,
    /// Open jobs by state; every state that is not an end is there.
    pub jobs: BTreeMap<String, u64>,
    /// Jobs that a worker could take now.
    pub ready: u64,
    /// How long the one that waits longest could have been taken.
    pub oldest_ready_ms: Option<u64>,
    /// Since the start.
    pub totals: Totals,
    /// Jobs made.
    pub submitted: Rates,
    /// Jobs completed.
    pub completed: Rates,
    /// From when a job could be taken until it was assigned.
    pub wait: Durations,
    /// From when an attempt was accepted until its end.
    pub run: Durations,
    /// From when a commit was sent to the store until it was durable.
    pub commit: Durations,
    /// Who works here.
    pub workers: Workforce,
    /// The hall's place on disk; none if the hall cannot tell.
    pub disk: Option<Disk>,
    /// Connections that are open.
    pub connections: u64,
    /// Streams of events and logs that are open.
    pub live_clients: u64,
    /// Who asks.
    pub token: Asker,
}
