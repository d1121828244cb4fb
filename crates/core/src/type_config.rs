//! What is configured for a type of job.

use serde::{Deserialize, Serialize};

use crate::name::TypeName;
use crate::retry::{RetryError, RetryPolicy};

/// The type of arbitrary commands.
const EXEC: &str = "exec";

/// Defaults of a type. A type registers itself with these when it is first submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeConfig {
    /// The retry policy of jobs that bring none.
    pub retry: RetryPolicy,
    /// Completed jobs older than this are removed; none keeps them for ever.
    pub keep_ms: Option<u64>,
    /// Only so many completed jobs are kept, the newest; none keeps all.
    pub keep_count: Option<u64>,
    /// How old a success may be to be reused at most; retention spares a key's newest success as long. 0: no reuse.
    pub reuse_window_ms: u64,
}

impl TypeConfig {
    /// What a type has before anyone configures it.
    pub fn of(job_type: &TypeName) -> TypeConfig {
        let retry = if job_type.as_str() == EXEC { RetryPolicy::once() } else { RetryPolicy::named() };
        TypeConfig { retry, keep_ms: None, keep_count: None, reuse_window_ms: 24 * 3_600 * 1_000 }
    }

    /// Refuses what is out of bounds.
    pub fn check(&self) -> Result<(), RetryError> {
        self.retry.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h17_types_have_defaults_before_anyone_configures_them() {
        let exec = TypeConfig::of(&TypeName::new("exec").unwrap());
        let named = TypeConfig::of(&TypeName::new("thumbnail").unwrap());
        assert_eq!((exec.retry.max_attempts, named.retry.max_attempts), (1, 5));
        assert_eq!((named.keep_ms, named.keep_count, named.reuse_window_ms), (None, None, 86_400_000));
        assert_eq!(named.check(), Ok(()));
        let mut wrong = named;
        wrong.retry.max_attempts = 0;
        assert_eq!(wrong.check(), Err(RetryError::MaxAttempts(0)));
    }

    #[test]
    fn unknown_fields_are_refused_by_name() {
        let config = TypeConfig::of(&TypeName::new("t").unwrap());
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<TypeConfig>(&text).unwrap(), config);
        let error = serde_json::from_str::<TypeConfig>(&text.replace("keep_ms", "keep_msec")).unwrap_err();
        assert!(error.to_string().starts_with("unknown field `keep_msec`"), "{error}");
        let error =
            serde_json::from_str::<TypeConfig>(&text.replace("max_attempts", "max_tries")).unwrap_err();
        assert!(error.to_string().starts_with("unknown field `max_tries`"), "{error}");
    }
}
