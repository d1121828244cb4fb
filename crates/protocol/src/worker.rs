//! Small responses: to workers about their attempts, and about workers, types and changes.

pub(crate) mod worker_file;

use jobhall_core::bounds::{DELAY_MS, JOB_ID, KEEP_MS};
use jobhall_core::limits::LIMITS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Span;
use crate::format::timestamp::Timestamp;
use crate::job::submit::{Retry, Timeouts};
use crate::job::{Failure, GivenFailure, given_failure, schema};
use crate::settings::limit::Limit;

/// The response to accept, progress and outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// Current state of the job.
    pub state: String,
    /// Whether a cancel was requested: stop the work and report `cancelled`.
    #[serde(default)]
    pub cancel: bool,
}

/// The response to a log chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPosition {
    /// Length of the log: the offset of the next chunk.
    pub len: u64,
    /// Whether the log was truncated at its limit; further bytes are dropped.
    pub truncated: bool,
}

/// The reason of a cancel; all fields are optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// The error of the job.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given_failure")]
    #[schemars(with = "Option<GivenFailure>")]
    pub error: Option<Failure>,
}

/// The reason of a group's cancel; all fields are optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelGroup {
    /// The error of the jobs.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given_failure")]
    #[schemars(with = "Option<GivenFailure>")]
    pub error: Option<Failure>,
    /// Whether the group is stopped as failed: it ends as `failed` and not as `cancelled`.
    #[serde(default)]
    pub fails: bool,
}

/// A worker as known to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// Name of the worker, from its token.
    pub name: String,
    /// Abilities that it last reported.
    pub abilities: String,
    /// Whether it is connected, or waits in a long poll. A worker that is not connected is known as long as it is paused
    /// or drains.
    #[serde(default = "connected")]
    pub connected: bool,
    /// Whether it is paused: it takes no new jobs until it is resumed.
    #[serde(default)]
    pub paused: bool,
    /// Whether it drains: its process finishes its jobs and exits.
    #[serde(default)]
    pub draining: bool,
    /// Free slots.
    pub slots: u32,
    /// Current attempts.
    pub attempts: Vec<String>,
    /// Resources that these attempts use, such as `gpu=1, mem_gb=8`.
    #[serde(default)]
    pub uses: String,
    /// The job for which resources of this worker are reserved because it has waited too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_for: Option<u64>,
    /// Time since its last heartbeat, if that is longer than usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
    /// When its attempts are taken back, if it is silent and does not return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_at: Option<Timestamp>,
}

/// Servers of earlier versions list connected workers only.
fn connected() -> bool {
    true
}

impl Worker {
    /// A worker of which only the name is known.
    #[must_use]
    pub fn named(name: String) -> Worker {
        Worker { name, ..Worker::default() }
    }
}

/// Settings of a job type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeSettings {
    /// Name of the type.
    pub name: String,
    /// Retry policy.
    pub retry: Retry,
    /// Completed jobs older than this are removed; none: the rule of the queue or the server counts. The largest value
    /// keeps them forever.
    pub keep_ms: Option<u64>,
    /// Maximum number of completed jobs to keep; none: the rule of the queue or the server counts. The largest value
    /// keeps all.
    pub keep_count: Option<u64>,
    /// Maximum age of a success that may be reused, in milliseconds.
    pub reuse_window_ms: u64,
    /// Whether the type is paused: its jobs are not assigned; running jobs continue.
    #[serde(default)]
    pub paused: bool,
    /// Limits on concurrency and rate.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// Default time limits of attempts.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Expected duration of an attempt; none if unknown.
    #[serde(default)]
    pub expected_ms: Option<u64>,
    /// Whether the type has external work: a worker only starts it, and another party reports the outcome.
    #[serde(default)]
    pub external: bool,
}

/// A change of a job in an event stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Id of the job.
    pub id: u64,
    /// State after the change.
    pub state: String,
}

/// Changes the settings of a type; missing fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetType {
    /// Retry policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Completed jobs older than this are removed; null: the rule of the queue or the server counts. The largest value
    /// keeps them forever.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>", range(max = KEEP_MS))]
    pub keep_ms: Option<Option<u64>>,
    /// Maximum number of completed jobs to keep; null: the rule of the queue or the server counts. The largest value
    /// keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>", range(max = JOB_ID))]
    pub keep_count: Option<Option<u64>>,
    /// Maximum age of a success that may be reused, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = KEEP_MS))]
    pub reuse_window_ms: Option<u64>,
    /// Whether the type is paused: its jobs are not assigned; running jobs continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Limits on concurrency and rate; an empty list removes all limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LIMITS_MAX))]
    pub limits: Option<Vec<Limit>>,
    /// Default time limits of attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<SetTimeouts>,
    /// Expected duration of an attempt; null if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>", range(max = DELAY_MS))]
    pub expected_ms: Option<Option<u64>>,
    /// Whether the type has external work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
}

/// Changes the default time limits of a type; missing fields are unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTimeouts {
    /// From acceptance to the end; null resets to one day.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<schema::TimeLimit>")]
    pub total: Option<Option<Span>>,
    /// Without output or progress; null removes the limit.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<schema::TimeLimit>")]
    pub silence: Option<Option<Span>>,
}

impl SetTimeouts {
    /// These values applied to the existing ones.
    #[must_use]
    pub fn over(self, before: Timeouts) -> Timeouts {
        Timeouts {
            total: self.total.unwrap_or(before.total),
            silence: self.silence.unwrap_or(before.silence),
        }
    }
}

/// Any given value, including null; only a missing field is none.
#[expect(clippy::option_option, reason = "missing, null and a value are three things")]
pub(crate) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_null_and_a_number_are_three_things() {
        for (text, keep_ms) in
            [("{}", None), (r#"{"keep_ms":null}"#, Some(None)), (r#"{"keep_ms":7}"#, Some(Some(7)))]
        {
            let set: SetType = serde_json::from_str(text).unwrap();
            assert_eq!(set.keep_ms, keep_ms, "{text}");
            assert_eq!(serde_json::to_string(&set).unwrap(), text);
        }
    }
}
