//! Settings of queues, their limits, and the rule for completed jobs.

use jobhall_core as core;
use jobhall_core::bounds::{JOB_ID, KEEP_MS};
use jobhall_core::limits::{
    CONCURRENCY_MAX, KeyExpression, LIMITS_MAX, PER_MS_MAX, TOKENS_MAX, check_limits,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::schema;
use crate::job::submit::FieldError;
use crate::worker::given;

/// A limit on the concurrency or the rate of a queue or type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = schema::limit)]
pub struct Limit {
    /// Partitions the limit: one bucket for each value of this expression, such as `owner`, `key.before("/")` or
    /// `params.customer.id`; if missing, one bucket for all jobs. Jobs without a value share one bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::LimitBy>")]
    pub by: Option<String>,
    /// Maximum total weight (`throttle_factor`) of concurrently leased jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = CONCURRENCY_MAX))]
    pub concurrency: Option<u32>,
    /// Maximum rate at which weights of jobs may be claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// A rate: tokens per time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Number of tokens added in `per_ms`.
    #[schemars(range(min = 1, max = TOKENS_MAX))]
    pub count: u32,
    /// The time in which they are added, evenly, in milliseconds.
    #[schemars(range(min = 1, max = PER_MS_MAX))]
    pub per_ms: u64,
    /// Maximum number of saved tokens; `count` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = TOKENS_MAX))]
    pub burst: Option<u32>,
}

impl Limit {
    /// The validated limits.
    ///
    /// # Errors
    /// The first invalid limit, and why.
    pub fn checked(limits: &[Limit]) -> Result<Vec<core::limits::Limit>, FieldError> {
        let checked = limits.iter().enumerate().map(|(index, limit)| limit.read(index + 1));
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        check_limits(&checked).map_err(|error| FieldError(error.to_string()))?;
        Ok(checked)
    }

    fn read(&self, position: usize) -> Result<core::limits::Limit, FieldError> {
        let by = self.by.as_deref().map(KeyExpression::parse).transpose();
        let by = by.map_err(|error| FieldError(format!("by of limit {position}: {error}")))?;
        let rate = self.rate.map(|Rate { count, per_ms, burst }| core::limits::Rate { count, per_ms, burst });
        Ok(core::limits::Limit { by, concurrency: self.concurrency, rate })
    }
}

impl From<&core::limits::Limit> for Limit {
    fn from(limit: &core::limits::Limit) -> Limit {
        let core::limits::Limit { by, concurrency, rate } = limit;
        let rate = rate.map(|core::limits::Rate { count, per_ms, burst }| Rate { count, per_ms, burst });
        Limit { by: by.as_ref().map(ToString::to_string), concurrency: *concurrency, rate }
    }
}

/// Settings of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueSettings {
    /// Queue name.
    pub name: String,
    /// Whether the queue is paused: its jobs are not assigned; running jobs continue.
    pub paused: bool,
    /// Limits on concurrency and rate.
    pub limits: Vec<Limit>,
    /// Completed jobs older than this are removed, unless their type has such a rule; none: the server's rule counts.
    #[serde(default)]
    pub keep_ms: Option<u64>,
    /// Maximum number of completed jobs of each type to keep, unless the type has such a rule; none: the server's rule
    /// counts.
    #[serde(default)]
    pub keep_count: Option<u64>,
}

/// Changes the settings of a queue; missing fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetQueue {
    /// Whether the queue is paused: its jobs are not assigned; running jobs continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Limits on concurrency and rate; an empty list removes all limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LIMITS_MAX))]
    pub limits: Option<Vec<Limit>>,
    /// Completed jobs older than this are removed, unless their type has such a rule; null: the server's rule counts.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>", range(max = KEEP_MS))]
    pub keep_ms: Option<Option<u64>>,
    /// Maximum number of completed jobs of each type to keep, unless the type has such a rule; null: the server's rule
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>", range(max = JOB_ID))]
    pub keep_count: Option<Option<u64>>,
}

/// How long completed jobs are kept, and how many of each type, where neither the type nor the queue has such a rule.
/// Types of an application have only their own rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retention {
    /// Completed jobs older than this are removed; none keeps them forever.
    pub keep_ms: Option<u64>,
    /// Maximum number of completed jobs of each type to keep, the newest; none keeps all.
    pub keep_count: Option<u64>,
    /// Whether the rule was set. The first start on a new store sets it; a store of an earlier version has none.
    pub is_set: bool,
}

/// Changes the server's rule; missing fields are unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetRetention {
    /// Completed jobs older than this are removed; null keeps them forever.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>", range(max = KEEP_MS))]
    pub keep_ms: Option<Option<u64>>,
    /// Maximum number of completed jobs of each type to keep, the newest; null keeps all.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<u64>", range(max = JOB_ID))]
    pub keep_count: Option<Option<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<Vec<core::limits::Limit>, String> {
        let limits: Vec<Limit> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Limit::checked(&limits).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_travel_as_they_are() {
        let text = r#"[{"by":"params.a","concurrency":2},{"rate":{"count":3,"per_ms":1000,"burst":5}}]"#;
        let limits: Vec<Limit> = checked(text).unwrap().iter().map(Limit::from).collect();
        assert_eq!(serde_json::to_string(&limits).unwrap(), text);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_limit() {
        for (text, said) in [
            (
                r#"[{"concurrency":1},{"by":"ownr","concurrency":1}]"#,
                "by of limit 2: unknown name \"ownr\" at column 1",
            ),
            (
                r#"[{"concurrency":0}]"#,
                "concurrency of 0 in limit 1 is outside 1 to 1000000; pause it instead",
            ),
            (r#"[{"by":"key"}]"#, "limit 1 has neither concurrency nor rate"),
            (r#"[{"concurrency":1,"weight":2}]"#, "unknown field `weight`"),
            (r#"[{"rate":{"count":1,"per_ms":0}}]"#, "rate per_ms of 0 in limit 1 is outside 1 to"),
        ] {
            let error = checked(text).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
