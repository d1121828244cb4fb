//! Messages between workers and servers: the long poll here, and the messages of the WebSocket session below.

mod frame;
mod message;
mod text;

use jobhall_core::Indicator;
use jobhall_core::bounds::{LEASE_MS, VACANCY_SLOTS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Span;
use crate::job::core_schema::IndicatorSchema;
use crate::job::{Failure, GivenFailure, given_failure, schema};

pub use frame::{
    Encoding, FRAME_BYTES, FRAME_MESSAGES, FRAME_READ_BYTES, FrameError, FrameWriter, read_frame,
    read_message, split_frame,
};
pub use message::{
    AttemptRef, FEATURE_ABILITIES, FEATURE_FINISH, FEATURE_MOVED, Hello, SESSION_FEATURES, SESSION_VERSION,
    ToServer, ToWorker, Welcome, Word,
};

/// Longest time that a long poll may wait, in seconds.
pub const WAIT_S: u64 = 60;
/// The server's lease, in milliseconds: the default, and the longest that a worker may ask for.
pub const SESSION_MS: u64 = 30_000;
/// Maximum number of attempts in one renewal.
pub const RENEWALS: usize = 10_000;
/// Maximum number of indicators in one progress report.
pub const REPORTED_INDICATORS: usize = 32;
/// Maximum size of the name or message of an indicator.
pub const INDICATOR_BYTES: usize = 1_024;

/// A long poll of a worker: it can take this many jobs now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vacancy {
    /// Number of jobs.
    #[schemars(range(min = 1, max = VACANCY_SLOTS))]
    pub slots: u32,
    /// Seconds for which the server may hold the request; 20 if missing, at most 60.
    #[serde(default = "wait_s")]
    #[schemars(range(max = WAIT_S))]
    pub wait_s: u64,
    /// Abilities of the worker, such as `os=linux, gpu=2`.
    #[serde(default)]
    #[schemars(with = "schema::Abilities")]
    pub abilities: String,
    /// Filter of accepted jobs, such as `queue=mail`.
    #[serde(default)]
    #[schemars(with = "schema::Accepts")]
    pub accepts: String,
    /// Lifetime of the leases without a renewal, in milliseconds: 3 seconds to the server's lease, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = LEASE_MS, max = SESSION_MS))]
    pub lease_ms: Option<u64>,
    /// Whether the worker's process began anew: leases that it got before, and does not hold in a session, end at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

impl Default for Vacancy {
    /// One job of any kind.
    fn default() -> Vacancy {
        let (abilities, accepts) = (String::new(), String::new());
        Vacancy { slots: 1, wait_s: wait_s(), abilities, accepts, lease_ms: None, fresh: false }
    }
}

fn wait_s() -> u64 {
    20
}

/// The response to a long poll.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Assignments {
    /// Assigned attempts.
    pub attempts: Vec<Assigned>,
}

/// One job for a worker.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Assigned {
    /// `{job}-{claim}`: identifies the attempt in later requests.
    pub id: String,
    /// The lease, a secret that later requests must include, as 32 hex digits.
    pub lease: String,
    /// Lifetime of the lease without a renewal, in milliseconds.
    pub lease_ms: u64,
    /// A token for the process of the job, valid as long as the lease.
    pub token: String,
    /// The job.
    pub job: AssignedJob,
}

/// The fields of a job that a worker needs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AssignedJob {
    /// Id of the job.
    pub id: u64,
    /// Type of the job.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Key of the job within its type.
    pub key: Option<String>,
    /// Queue name.
    pub queue: String,
    /// Input for the worker.
    #[serde(with = "crate::format::document")]
    #[schemars(with = "Box<RawValue>")]
    pub params: Box<RawValue>,
    /// Attempt number, from 1.
    pub attempt: u32,
    /// Whether the worker only starts the work: a success of its command is reported as `started`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Whether the job runs at most once: the worker accepts it, and starts the work after the accept was answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most_once: bool,
    /// Number of jobs that it comes after. Their results and artifacts are its inputs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inputs: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of serde")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Progress of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// The indicators that changed.
    #[serde(default)]
    #[schemars(with = "Vec<IndicatorSchema>", length(max = REPORTED_INDICATORS))]
    pub indicators: Vec<Indicator>,
}

/// Outcome of an attempt as reported by a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The work was done.
    Succeeded,
    /// There was nothing to do.
    Skipped,
    /// The work failed.
    Failed,
    /// The environment failed.
    Crashed,
    /// The attempt timed out.
    TimedOut,
    /// The attempt was cancelled on request.
    Cancelled,
    /// External work was started, and another party reports its outcome; for external types.
    Started,
}

impl Outcome {
    /// The name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Skipped => "skipped",
            Outcome::Failed => "failed",
            Outcome::Crashed => "crashed",
            Outcome::TimedOut => "timed_out",
            Outcome::Cancelled => "cancelled",
            Outcome::Started => "started",
        }
    }
}

/// When to retry, as requested by a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryVerdict {
    /// No retry.
    Never,
    /// Immediately.
    Now,
    /// After this time.
    In(#[schemars(with = "schema::Delay")] Span),
    /// After this time, without counting the attempt.
    Snooze(#[schemars(with = "schema::Delay")] Span),
}

/// The outcome report of an attempt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = schema::outcome_report)]
pub struct OutcomeReport {
    /// Outcome.
    pub outcome: Outcome,
    /// Result of a success; null if missing.
    #[serde(default, with = "crate::format::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub value: Option<Box<RawValue>>,
    /// Error of an attempt that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given_failure")]
    #[schemars(with = "Option<GivenFailure>")]
    pub error: Option<Failure>,
    /// When to retry, instead of the retry policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryVerdict>,
    /// New params for the next attempt.
    #[serde(default, with = "crate::format::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub params: Option<Box<RawValue>>,
}

/// Attempts that a worker still has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Renewals {
    /// The attempts with their leases.
    #[schemars(length(max = RENEWALS))]
    pub attempts: Vec<RenewedAttempt>,
}

/// One attempt with its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewedAttempt {
    /// Attempt id, `{job}-{claim}`.
    #[schemars(with = "schema::AttemptId")]
    pub id: String,
    /// The lease, as 32 hex digits.
    #[schemars(with = "schema::Lease")]
    pub lease: String,
}

/// The response to renewals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Renewed {
    /// Attempts that continue.
    pub kept: Vec<String>,
    /// Lost attempts: stop them, and report nothing.
    pub lost: Vec<String>,
    /// Attempts that continue, but have a cancel request: stop them and report `cancelled`.
    pub cancel: Vec<String>,
}
