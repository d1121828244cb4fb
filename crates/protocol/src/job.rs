//! Jobs in responses.

pub(crate) mod after;
pub(crate) mod core_schema;
pub(crate) mod edit;
pub(crate) mod filter;
pub(crate) mod operation;
pub mod schema;
pub(crate) mod sub_job;
pub(crate) mod submit;

use jobhall_core::Indicator;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::artifact::Artifact;
use crate::format::timestamp::Timestamp;

use core_schema::IndicatorSchema;
use submit::Timeouts;

/// Why something failed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// A short word or phrase.
    pub reason: String,
    /// A text for people.
    #[serde(default)]
    pub explanation: String,
    /// Additional data for programs.
    #[serde(default, with = "crate::format::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub data: Option<Box<RawValue>>,
}

/// A failure in a request; unknown fields are refused.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenFailure {
    /// A short word or phrase.
    #[schemars(with = "schema::FailureReason")]
    reason: String,
    /// A text for people.
    #[serde(default)]
    #[schemars(with = "schema::FailureExplanation")]
    explanation: String,
    /// Additional data for programs.
    #[serde(default, with = "crate::format::document::optional")]
    #[schemars(with = "Option<Box<RawValue>>")]
    data: Option<Box<RawValue>>,
}

/// Parses the failure of a request.
pub(crate) fn given_failure<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Failure>, D::Error> {
    let given = Option::<GivenFailure>::deserialize(deserializer)?;
    Ok(given.map(|GivenFailure { reason, explanation, data }| Failure { reason, explanation, data }))
}

/// One attempt of a job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// `{job}-{claim}`.
    pub id: String,
    /// The worker of the attempt.
    pub worker: String,
    /// When it was assigned.
    pub assigned_at: Timestamp,
    /// When the worker accepted it.
    pub accepted_at: Option<Timestamp>,
    /// When its work began. None if that is not known: it has not begun, or its worker was lost.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Outcome; none while the attempt is active.
    pub outcome: Option<String>,
    /// Error, if the attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Last progress of an attempt that has ended; that of an active one is in the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<IndicatorSchema>")]
    pub progress: Vec<Indicator>,
}

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Id of the job.
    pub id: u64,
    /// `created`, `joined`, `reused`, `superseding` or `again`; only in the response to a submit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disposition: Option<String>,
    /// Whether the joined job has other params, compared as JSON values: those of the request were not submitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub params_differ: bool,
    /// Type of the job.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Key of the job within its type.
    pub key: Option<String>,
    /// Queue name.
    pub queue: String,
    /// Input for the worker.
    pub params: Box<RawValue>,
    /// Requirements on the worker.
    pub needs: String,
    /// Resources of the worker that the job uses while it runs.
    #[serde(default)]
    pub uses: String,
    /// Whether retries prefer a worker that has not had the job before.
    #[serde(default)]
    pub avoid: bool,
    /// Daily windows in which the job may start; empty permits any time.
    #[serde(default)]
    pub windows: String,
    /// The schedule that submitted the job.
    #[serde(default)]
    pub schedule: Option<String>,
    /// Priority; lower values start first.
    pub priority: i32,
    /// Weight against limits; 0 exempts the job from them.
    #[serde(default = "usual_weight")]
    pub throttle_factor: u32,
    /// Whether the job is held, so that it is not assigned to a worker.
    #[serde(default)]
    pub hold: bool,
    /// Current state.
    pub state: String,
    /// Number of attempts so far, including those in `lost` and `snoozed`.
    pub attempt: u32,
    /// Maximum number of attempts; those in `lost` and `snoozed` do not count.
    pub max_attempts: u16,
    /// Attempts whose worker was lost; the third one ends the job.
    #[serde(default)]
    pub lost: u16,
    /// Attempts that their worker snoozed.
    #[serde(default)]
    pub snoozed: u32,
    /// Whether it is never started a second time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most_once: bool,
    /// Earliest start time.
    pub run_at: Timestamp,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When the work of its current or last attempt began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// The current worker, or the last one.
    pub worker: Option<String>,
    /// Progress of the current attempt.
    #[serde(default)]
    #[schemars(with = "Vec<IndicatorSchema>")]
    pub progress: Vec<Indicator>,
    /// Result of a job that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// The artifact with the result, if the value is null; only in the response for one job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_artifact: Option<Artifact>,
    /// Error of the job, or of its last attempt.
    pub error: Option<Failure>,
    /// The job that this one retries.
    pub retry_of: Option<u64>,
    /// Jobs that must end before this one starts.
    #[serde(default)]
    pub after: Vec<u64>,
    /// Whether the jobs in `after` may end with any outcome.
    #[serde(default)]
    pub after_any: bool,
    /// Group of the job.
    #[serde(default)]
    pub group: Option<u64>,
    /// Whether the job belongs to its group without being counted.
    #[serde(default)]
    pub attached: bool,
    /// The job of the same group that this one is a copy of.
    #[serde(default)]
    pub copy_of: Option<u64>,
    /// Owner.
    #[serde(default)]
    pub owner: Option<String>,
    /// Tags for filtering.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Whether a cancel was requested and the worker has not stopped yet.
    #[serde(default)]
    pub cancel_requested: bool,
    /// Whether the attempt timed out and the worker has not stopped yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timing_out: bool,
    /// Whether the current attempt takes longer than expected for its type; only in the response for one job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub longer_than_expected: bool,
    /// Time limits of an attempt that the job itself sets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeouts: Timeouts,
    /// The job whose attempt submitted this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
    /// The newest attempts, oldest first: the last one and up to 20 that ended before it. The data of their
    /// errors is left out beyond 64 KiB. Only in the response for one job; `/jobs/{id}/attempts` lists all.
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
    /// Items of the page.
    pub items: Vec<T>,
    /// Cursor of the next page; none on the last page.
    pub next_cursor: Option<String>,
}

/// One reason why a job is not running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Stable code for programs.
    pub code: String,
    /// Text for people.
    pub text: String,
    /// What to do about it; none if nothing has to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Data of the text: jobs, workers, terms, limits, times. The names depend on the code.
    #[serde(default)]
    pub data: serde_json::Map<String, serde_json::Value>,
}

/// Why a job is not running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Id of the job.
    pub id: u64,
    /// State of the job.
    pub state: String,
    /// Reasons, the most immediate first.
    pub reasons: Vec<Reason>,
}

/// The progress of a running job in an event stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressChange {
    /// Id of the job.
    pub id: u64,
    /// Every indicator of its attempt.
    #[schemars(with = "Vec<IndicatorSchema>")]
    pub progress: Vec<Indicator>,
}
