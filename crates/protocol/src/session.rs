//! What workers and the hall say to each other: requests and answers of the long poll here, the messages of the
//! WebSocket session below.

mod frame;
mod message;
mod text;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::job::{Failure, GivenFailure, Indicator, given_failure};
use crate::span::Span;

pub use frame::{Encoding, FRAME_BYTES, FRAME_MESSAGES, FrameError, FrameWriter, read_frame};
pub use message::{
    AttemptRef, FEATURE_MOVED, Hello, SESSION_FEATURES, SESSION_VERSION, ToServer, ToWorker, Welcome, Word,
};

/// A worker's long poll: it can take so many jobs now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vacancy {
    /// How many jobs.
    pub slots: u32,
    /// For how many seconds the hall may hold the request; 20 if missing, at most 60.
    #[serde(default = "wait_s")]
    pub wait_s: u64,
    /// What the worker can do, such as `os=linux, gpu=2`.
    #[serde(default)]
    pub abilities: String,
    /// Which jobs it takes, such as `queue=mail`.
    #[serde(default)]
    pub accepts: String,
}

fn wait_s() -> u64 {
    20
}

/// The answer to a long poll.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Assignments {
    /// What the worker is to do.
    pub attempts: Vec<Assigned>,
}

/// One job for a worker.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Assigned {
    /// `{job}-{claim}`: names the attempt in every later word about it.
    pub id: String,
    /// The secret to show with every later word, as 32 hex digits.
    pub lease: String,
    /// How long the lease lives without a renewal.
    pub lease_ms: u64,
    /// A token for the job's own process, which dies with the lease.
    pub token: String,
    /// The job.
    pub job: AssignedJob,
}

/// What a worker needs to know of a job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AssignedJob {
    /// Its number.
    pub id: u64,
    /// What kind of work.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Names the work within its type.
    pub key: Option<String>,
    /// The queue it stood in.
    pub queue: String,
    /// What to do it with.
    #[serde(with = "crate::document")]
    #[schemars(with = "Box<RawValue>")]
    pub params: Box<RawValue>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Whether the worker only starts the work: a success of its command is reported as `started`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
}

/// How far an attempt is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// The measures that moved.
    #[serde(default)]
    pub indicators: Vec<Indicator>,
}

/// How an attempt ended, in a worker's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The work was done.
    Succeeded,
    /// There was nothing to do.
    Skipped,
    /// The work said no.
    Failed,
    /// The environment broke.
    Crashed,
    /// It took too long.
    TimedOut,
    /// It was stopped on request.
    Cancelled,
    /// The work goes on outside, and someone else tells how it ends; for types that are external.
    Started,
}

impl Outcome {
    /// The word on the wire.
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

/// When to try again, in a worker's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryVerdict {
    /// Not at all.
    Never,
    /// At once.
    Now,
    /// After this span.
    In(Span),
    /// After this span, not counted.
    Snooze(Span),
}

/// The end of an attempt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutcomeReport {
    /// How it ended.
    pub outcome: Outcome,
    /// The result of a success; null if missing.
    #[serde(default, with = "crate::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub value: Option<Box<RawValue>>,
    /// Why it was not a success.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given_failure")]
    #[schemars(with = "Option<GivenFailure>")]
    pub error: Option<Failure>,
    /// When to try again, instead of what the policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryVerdict>,
    /// Other params for the next attempt.
    #[serde(default, with = "crate::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub params: Option<Box<RawValue>>,
}

/// Attempts that a worker still has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Renewals {
    /// Each with its lease.
    pub attempts: Vec<RenewedAttempt>,
}

/// One attempt with its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewedAttempt {
    /// `{job}-{claim}`.
    pub id: String,
    /// Its lease, as 32 hex digits.
    pub lease: String,
}

/// The answer to renewals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Renewed {
    /// These go on.
    pub kept: Vec<String>,
    /// These are lost: stop them, and report nothing.
    pub lost: Vec<String>,
    /// These go on, but a cancel was requested: stop them and report `cancelled`.
    pub cancel: Vec<String>,
}
