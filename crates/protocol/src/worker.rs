//! Short answers: to workers about their attempts, and to people about workers, types and changes.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::job::{Failure, GivenFailure, given_failure};
use crate::limit::Limit;
use crate::span::Span;
use crate::submit::{Retry, Timeouts};

/// The answer to accept, progress and outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// The job's state now.
    pub state: String,
    /// Whether a cancel was requested: stop the work and report `cancelled`.
    #[serde(default)]
    pub cancel: bool,
}

/// The answer to a chunk of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogPosition {
    /// How many bytes the log has: where the next chunk begins.
    pub len: u64,
    /// Whether it was cut at its limit; what comes after is dropped.
    pub truncated: bool,
}

/// Why a job is cancelled; all of it may be missing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    /// What the job's error will say.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given_failure")]
    #[schemars(with = "Option<GivenFailure>")]
    pub error: Option<Failure>,
}

/// A worker as the hall sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// Who it is, from its credential.
    pub name: String,
    /// What it said last that it can do.
    pub abilities: String,
    /// Jobs it could take at this moment.
    pub slots: u32,
    /// What it has in hand.
    pub attempts: Vec<String>,
    /// What these use of its abilities now, such as `gpu=1, mem_gb=8`.
    #[serde(default)]
    pub uses: String,
    /// The job that waited so long for what it uses that others leave it to that job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_for: Option<u64>,
}

/// What is configured for a type of job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TypeSettings {
    /// The type.
    pub name: String,
    /// When attempts are repeated.
    pub retry: Retry,
    /// Completed jobs older than this are removed; none keeps them for ever.
    pub keep_ms: Option<u64>,
    /// Only so many completed jobs are kept; none keeps all.
    pub keep_count: Option<u64>,
    /// How old a success may be to be reused at most.
    pub reuse_window_ms: u64,
    /// Whether none of its jobs are given to workers; those that run go on.
    #[serde(default)]
    pub paused: bool,
    /// How much of it may go on at once, and how fast.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// How long attempts of jobs that do not say may take.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// How long an attempt is expected to take; none: nobody knows.
    #[serde(default)]
    pub expected_ms: Option<u64>,
    /// Whether its jobs go on outside: a worker only starts them, and someone else tells the outcome.
    #[serde(default)]
    pub external: bool,
}

/// A change of a job, as streams of events tell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The job.
    pub id: u64,
    /// Its state after the change.
    pub state: String,
}

/// Configures a type; what is missing stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetType {
    /// When attempts are repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Completed jobs older than this are removed; null keeps them for ever.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>")]
    pub keep_ms: Option<Option<u64>>,
    /// Only so many completed jobs are kept; null keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>")]
    pub keep_count: Option<Option<u64>>,
    /// How old a success may be to be reused at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse_window_ms: Option<u64>,
    /// Whether none of its jobs are given to workers; those that run go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// How much of it may go on at once, and how fast; an empty list: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<Limit>>,
    /// How long attempts of jobs that do not say may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<SetTimeouts>,
    /// How long an attempt is expected to take; null: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>")]
    pub expected_ms: Option<Option<u64>>,
    /// Whether its jobs go on outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
}

/// Configures the time-outs of a type; what is missing stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTimeouts {
    /// In all; null: a day.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<Span>")]
    pub total: Option<Option<Span>>,
    /// Without any output or progress; null: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<Span>")]
    pub silence: Option<Option<Span>>,
}

impl SetTimeouts {
    /// These on top of those that are there.
    #[must_use]
    pub fn over(self, before: Timeouts) -> Timeouts {
        Timeouts {
            total: self.total.unwrap_or(before.total),
            silence: self.silence.unwrap_or(before.silence),
        }
    }
}

/// What is given, even if it is null: only what is missing is none.
#[expect(clippy::option_option, reason = "missing, null and a value are three things")]
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
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
