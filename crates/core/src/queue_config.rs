//! The configuration of a queue.

use serde::{Deserialize, Serialize};

use crate::limits::{Limit, LimitError, check_limits};

/// The settings of a queue. By default it is not paused and has no limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Whether it is paused: its jobs are not claimed; running jobs continue.
    #[serde(default)]
    pub paused: bool,
    /// Its limits on concurrency and rate.
    #[serde(default)]
    pub limits: Vec<Limit>,
}

impl QueueConfig {
    /// Rejects values that are out of bounds.
    ///
    /// # Errors
    /// The first thing wrong with its limits.
    pub fn check(&self) -> Result<(), LimitError> {
        check_limits(&self.limits)
    }
}

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
        assert_eq!(config.check(), Err(LimitError::Nothing(1)));
        let error = serde_json::from_str::<QueueConfig>(r#"{"pause":true}"#).unwrap_err();
        assert!(error.to_string().starts_with("unknown field `pause`"), "{error}");
    }
}
