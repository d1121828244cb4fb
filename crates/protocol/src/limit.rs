//! Limits of queues and types, and what is configured for a queue.

use jobhall_core as core;
use jobhall_core::limits::{KeyExpression, check_limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::submit::FieldError;

/// How much of a queue or type may go on at once, and how fast.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// One bucket for each value of this, such as `owner`, `key.before("/")` or `params.customer.id`; if missing, one
    /// for all. Jobs without a value share a bucket of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Weights of jobs (`throttle_factor`) that may be leased at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Weights of jobs that may be claimed over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// So many tokens in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Tokens that come in `per_ms`.
    pub count: u32,
    /// The time they come in, evenly.
    pub per_ms: u64,
    /// Tokens that are saved up at most; `count` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl Limit {
    /// The checked limits.
    ///
    /// # Errors
    /// The first thing wrong with them, and in which.
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

/// What is configured for a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueSettings {
    /// The queue.
    pub name: String,
    /// Whether none of its jobs are given to workers; those that run go on.
    pub paused: bool,
    /// How much of it may go on at once, and how fast.
    pub limits: Vec<Limit>,
}

/// Configures a queue; what is missing stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetQueue {
    /// Whether none of its jobs are given to workers; those that run go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// How much of it may go on at once, and how fast; an empty list: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<Limit>>,
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
