//! The configuration of a queue.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{Limit, LimitError, check_limits};
use crate::retention::{Retention, RetentionError};

/// The settings of a queue. By default it is not paused and has neither limits nor a rule for completed jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Whether it is paused: its jobs are not claimed; running jobs continue.
    #[serde(default)]
    pub paused: bool,
    /// Its limits on concurrency and rate.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// Completed jobs older than this are removed, unless their type has such a rule; none: the server's rule counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u64>,
    /// Maximum number of completed jobs of each type kept, the newest, unless the type has such a rule; none: the
    /// server's rule counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_count: Option<u64>,
}

impl QueueConfig {
    /// Its own rule for completed jobs.
    pub fn retention(&self) -> Retention {
        Retention { keep_ms: self.keep_ms, keep_count: self.keep_count }
    }

    /// Rejects values that are out of bounds.
    ///
    /// # Errors
    /// The first thing wrong with its limits or its rule for completed jobs.
    pub fn check(&self) -> Result<(), QueueConfigError> {
        check_limits(&self.limits).map_err(QueueConfigError::Limits)?;
        self.retention().check().map_err(QueueConfigError::Retention)
    }
}

/// Why a queue's configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueConfigError {
    /// Its limits are invalid.
    Limits(LimitError),
    /// Its rule for completed jobs is invalid.
    Retention(RetentionError),
}

impl fmt::Display for QueueConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueConfigError::Limits(error) => error.fmt(f),
            QueueConfigError::Retention(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for QueueConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_settings_of_its_own() {
        let config: QueueConfig = serde_json::from_str("{}").unwrap();
        assert_eq!((config.paused, config.limits.len()), (false, 0));
        let text = r#"{"paused":true,"limits":[{"concurrency":3}]}"#;
        let config: QueueConfig = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&config).unwrap(), text);
        assert_eq!(config.check(), Ok(()));
        let config: QueueConfig = serde_json::from_str(r#"{"limits":[{"by":"key"}]}"#).unwrap();
        assert_eq!(config.check(), Err(QueueConfigError::Limits(LimitError::Nothing(1))));
        let config = QueueConfig { keep_ms: Some(u64::MAX), ..QueueConfig::default() };
        assert!(
            config.check().unwrap_err().to_string().starts_with("keep_ms of 18446744073709551615 is outside")
        );
        let error = serde_json::from_str::<QueueConfig>(r#"{"pause":true}"#).unwrap_err();
        assert!(error.to_string().starts_with("unknown field `pause`"), "{error}");
    }
}
