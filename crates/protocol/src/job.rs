//! Jobs as they are told.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::artifact::Artifact;
use crate::submit::Timeouts;
use crate::timestamp::Timestamp;

/// Why something did not succeed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// A short word or phrase.
    pub reason: String,
    /// A text for people.
    #[serde(default)]
    pub explanation: String,
    /// Anything a program wants to know.
    #[serde(default, with = "crate::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub data: Option<Box<RawValue>>,
}

/// A failure in a request, which must not have what nobody knows.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenFailure {
    /// A short word or phrase.
    reason: String,
    /// A text for people.
    #[serde(default)]
    explanation: String,
    /// Anything a program wants to know.
    #[serde(default, with = "crate::document::optional")]
    #[schemars(with = "Option<Box<RawValue>>")]
    data: Option<Box<RawValue>>,
}

/// Reads the failure of a request.
pub(crate) fn given_failure<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Failure>, D::Error> {
    let given = Option::<GivenFailure>::deserialize(deserializer)?;
    Ok(given.map(|GivenFailure { reason, explanation, data }| Failure { reason, explanation, data }))
}

/// One measure of progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Indicator {
    /// Which measure, of several.
    #[serde(default)]
    pub name: String,
    /// How far.
    pub step: u64,
    /// Of how much, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Words for people.
    #[serde(default)]
    pub message: String,
}

/// One attempt at a job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// `{job}-{claim}`.
    pub id: String,
    /// Who has or had it.
    pub worker: String,
    /// When it was assigned.
    pub assigned_at: Timestamp,
    /// When the worker took it.
    pub accepted_at: Option<Timestamp>,
    /// When the first progress came.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How it ended; none while it goes on.
    pub outcome: Option<String>,
    /// Why, if it was not a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// What kind of work.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Names the work within its type.
    pub key: Option<String>,
    /// Where it stands in line.
    pub queue: String,
    /// What the worker gets.
    pub params: Box<RawValue>,
    /// Which workers suit.
    pub needs: String,
    /// What it takes of its worker's numbers while it runs.
    #[serde(default)]
    pub uses: String,
    /// Whether a retry rather goes to a worker that did not have it.
    #[serde(default)]
    pub avoid: bool,
    /// When on a day it may start; empty: at any time.
    #[serde(default)]
    pub windows: String,
    /// The schedule that made it.
    #[serde(default)]
    pub schedule: Option<String>,
    /// Lower goes first.
    pub priority: i32,
    /// What it weighs against limits; 0 is exempt from them.
    #[serde(default = "usual_weight")]
    pub throttle_factor: u32,
    /// Whether someone keeps it from being given to a worker.
    #[serde(default)]
    pub hold: bool,
    /// Where it stands.
    pub state: String,
    /// Attempts so far.
    pub attempt: u32,
    /// Attempts that may count.
    pub max_attempts: u16,
    /// Not before this moment.
    pub run_at: Timestamp,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When its current or last attempt reported progress.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// Who has it, or had it last.
    pub worker: Option<String>,
    /// How far a live attempt is.
    #[serde(default)]
    pub progress: Vec<Indicator>,
    /// The result of a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The artifact that is the result of a success, where the value is null; only where one job is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_artifact: Option<Artifact>,
    /// Why it did not succeed, or the last attempt did not.
    pub error: Option<Failure>,
    /// The job this one repeats.
    pub retry_of: Option<u64>,
    /// The jobs that must end before it.
    #[serde(default)]
    pub after: Vec<u64>,
    /// Whether any end of those will do.
    #[serde(default)]
    pub after_any: bool,
    /// The group it belongs to.
    #[serde(default)]
    pub group: Option<u64>,
    /// Whether it serves its group without being counted.
    #[serde(default)]
    pub attached: bool,
    /// The job of the same group that it is a copy of.
    #[serde(default)]
    pub copy_of: Option<u64>,
    /// Whose it is.
    #[serde(default)]
    pub owner: Option<String>,
    /// What it is found by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Whether a cancel was requested that the worker has yet to obey.
    #[serde(default)]
    pub cancel_requested: bool,
    /// Whether its time is over, which the worker has yet to obey.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timing_out: bool,
    /// Whether a live attempt takes longer than its type is expected to; only where one job is asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub longer_than_expected: bool,
    /// How long an attempt may take, where the job says so itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeouts: Timeouts,
    /// The job whose attempt asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// All attempts, oldest first; only where one job is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
}

fn usual_weight() -> u32 {
    1
}

fn is_default(timeouts: &Timeouts) -> bool {
    *timeouts == Timeouts::default()
}

/// A page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins; none after the last.
    pub next_cursor: Option<String>,
}

/// One reason why a job is not running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// A stable word for programs.
    pub code: String,
    /// Words for people.
    pub text: String,
    /// What the words name: jobs, workers, terms, limits, moments. Which names there are depends on the code.
    #[serde(default)]
    pub data: serde_json::Map<String, serde_json::Value>,
}

/// Why a job is not running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The job.
    pub id: u64,
    /// Its state.
    pub state: String,
    /// The reasons, the nearest first.
    pub reasons: Vec<Reason>,
}
