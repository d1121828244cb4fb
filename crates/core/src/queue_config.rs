//! What is configured for a queue.

use serde::{Deserialize, Serialize};

use crate::limits::{Limit, LimitError, check_limits};

/// The settings of a queue. One that nobody configured has the defaults: it goes on, and nothing limits it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Whether its jobs are kept from being claimed; those that run go on.
    #[serde(default)]
    pub paused: bool,
    /// How much of it may go on at once, and how fast.
    #[serde(default)]
    pub limits: Vec<Limit>,
}

impl QueueConfig {
    /// Refuses what is out of bounds.
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
