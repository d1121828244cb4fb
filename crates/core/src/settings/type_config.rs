//! The configuration of a job type.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::bounds::{DELAY_MS, KEEP_MS};
use crate::job::retry::{RetryError, RetryPolicy};
use crate::job::timeouts::{TimeoutError, Timeouts};
use crate::limits::{Limit, LimitError, check_limits};
use crate::name::TypeName;
use crate::retention::{Retention, RetentionError};

/// The type of arbitrary commands.
const EXEC: &str = "exec";

/// Defaults of a type. A type is registered with these when a job of it is first submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeConfig {
    /// The retry policy of jobs that have none.
    pub retry: RetryPolicy,
    /// Completed jobs older than this are removed; none: the queue's or the server's rule counts.
    pub keep_ms: Option<u64>,
    /// Maximum number of completed jobs kept, the newest; none: the queue's or the server's rule counts.
    pub keep_count: Option<u64>,
    /// Maximum age of a success that is reused; retention keeps a key's newest success as long. 0: no reuse.
    pub reuse_window_ms: u64,
    /// Whether it is paused: its jobs are not claimed.
    #[serde(default)]
    pub paused: bool,
    /// Its limits on concurrency and rate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// Time limits of jobs that specify none.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The expected duration of an attempt; a longer one is marked. None: unknown.
    #[serde(default)]
    pub expected_ms: Option<u64>,
    /// Whether its work is external: the worker only starts it, and the outcome is reported from outside.
    #[serde(default)]
    pub external: bool,
}

impl TypeConfig {
    /// The configuration of a type before it is changed.
    pub fn of(job_type: &TypeName) -> TypeConfig {
        (**TypeConfig::shared(job_type)).clone()
    }

    /// The same, made once: most types have no configuration, and it is needed several times for each job.
    pub fn shared(job_type: &TypeName) -> &'static Arc<TypeConfig> {
        static COMMAND: LazyLock<Arc<TypeConfig>> =
            LazyLock::new(|| Arc::new(TypeConfig::with(RetryPolicy::once())));
        static NAMED: LazyLock<Arc<TypeConfig>> =
            LazyLock::new(|| Arc::new(TypeConfig::with(RetryPolicy::named())));
        if job_type.as_str() == EXEC { &COMMAND } else { &NAMED }
    }

    fn with(retry: RetryPolicy) -> TypeConfig {
        TypeConfig {
            retry,
            keep_ms: None,
            keep_count: None,
            reuse_window_ms: 24 * 3_600 * 1_000,
            paused: false,
            limits: Vec::new(),
            timeouts: Timeouts::default(),
            expected_ms: None,
            external: false,
        }
    }

    /// Its own rule for completed jobs.
    pub fn retention(&self) -> Retention {
        Retention { keep_ms: self.keep_ms, keep_count: self.keep_count }
    }

    /// Rejects values that are out of bounds.
    pub fn check(&self) -> Result<(), TypeConfigError> {
        self.retry.check().map_err(TypeConfigError::Retry)?;
        self.timeouts.check().map_err(TypeConfigError::Timeouts)?;
        check_limits(&self.limits).map_err(TypeConfigError::Limits)?;
        self.retention().check().map_err(TypeConfigError::Retention)?;
        let limits = [
            ("reuse_window_ms", self.reuse_window_ms, KEEP_MS),
            ("expected_ms", self.expected_ms.unwrap_or(0), DELAY_MS),
        ];
        match limits.into_iter().find(|(_, given, most)| given > most) {
            Some((field, given, most)) => Err(TypeConfigError::Outside { field, given, most }),
            None => Ok(()),
        }
    }
}

/// Why a type's configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeConfigError {
    /// Its retry policy is invalid.
    Retry(RetryError),
    /// Its time-outs are invalid.
    Timeouts(TimeoutError),
    /// Its limits are invalid.
    Limits(LimitError),
    /// Its rule for completed jobs is invalid.
    Retention(RetentionError),
    /// A number is beyond its limit.
    Outside {
        /// The field.
        field: &'static str,
        /// The given value.
        given: u64,
        /// The limit.
        most: u64,
    },
}

impl fmt::Display for TypeConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeConfigError::Retry(error) => error.fmt(f),
            TypeConfigError::Timeouts(error) => error.fmt(f),
            TypeConfigError::Limits(error) => error.fmt(f),
            TypeConfigError::Retention(error) => error.fmt(f),
            TypeConfigError::Outside { field, given, most } => {
                write!(f, "{field} of {given} is outside 0 to {most}")
            }
        }
    }
}

impl std::error::Error for TypeConfigError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::JOB_ID;

    #[test]
    fn h17_types_have_defaults_before_anyone_configures_them() {
        let exec = TypeConfig::of(&TypeName::new("exec").unwrap());
        let named = TypeConfig::of(&TypeName::new("thumbnail").unwrap());
        assert_eq!((exec.retry.max_attempts, named.retry.max_attempts), (1, 5));
        assert_eq!((named.keep_ms, named.keep_count, named.reuse_window_ms), (None, None, 86_400_000));
        assert_eq!(named.check(), Ok(()));
        let mut wrong = named;
        wrong.retry.max_attempts = 0;
        assert_eq!(wrong.check(), Err(TypeConfigError::Retry(RetryError::MaxAttempts(0))));
        assert_eq!(wrong.check().unwrap_err().to_string(), "max_attempts of 0 is outside 1 to 1000");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let good = TypeConfig::of(&TypeName::new("t").unwrap());
        let most = TypeConfig {
            keep_ms: Some(KEEP_MS),
            keep_count: Some(JOB_ID),
            reuse_window_ms: KEEP_MS,
            ..good.clone()
        };
        assert_eq!(most.check(), Ok(()));
        for (wrong, text) in [
            (
                TypeConfig { keep_ms: Some(KEEP_MS + 1), ..good.clone() },
                "keep_ms of 3153600000001 is outside",
            ),
            (
                TypeConfig { keep_count: Some(JOB_ID + 1), ..good.clone() },
                "keep_count of 9007199254740992 is outside",
            ),
            (TypeConfig { reuse_window_ms: KEEP_MS + 1, ..good }, "reuse_window_ms of 3153600000001 is"),
        ] {
            assert!(wrong.check().unwrap_err().to_string().starts_with(text));
        }
    }

    #[test]
    fn unknown_fields_are_refused_by_name() {
        let config = TypeConfig::of(&TypeName::new("t").unwrap());
        let text = serde_json::to_string(&config).unwrap();
        let before = r#""paused":false,"timeouts":{"total_ms":null,"silence_ms":null},"expected_ms":null,"external":false"#;
        let old = text.replace(&format!(",{before}"), "");
        assert!(old.len() < text.len());
        assert_eq!(serde_json::from_str::<TypeConfig>(&old).unwrap(), config, "as it was stored before");
        assert_eq!(serde_json::from_str::<TypeConfig>(&text).unwrap(), config);
        let error = serde_json::from_str::<TypeConfig>(&text.replace("keep_ms", "keep_msec")).unwrap_err();
        assert!(error.to_string().starts_with("unknown field `keep_msec`"), "{error}");
        let error =
            serde_json::from_str::<TypeConfig>(&text.replace("max_attempts", "max_tries")).unwrap_err();
        assert!(error.to_string().starts_with("unknown field `max_tries`"), "{error}");
    }
}
