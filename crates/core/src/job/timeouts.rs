//! The time limits of an attempt.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds::{DELAY_MS, TOTAL_MS};

/// Time limits of an attempt, in milliseconds. Both are suspended while it waits for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// From its acceptance to its end; none: the type's value, or a day.
    pub total_ms: Option<u64>,
    /// Without any output or progress; none: the type's value, or unlimited.
    pub silence_ms: Option<u64>,
}

impl Timeouts {
    /// These values, with the others as defaults.
    #[must_use]
    pub fn or(self, others: Timeouts) -> Timeouts {
        Timeouts {
            total_ms: self.total_ms.or(others.total_ms),
            silence_ms: self.silence_ms.or(others.silence_ms),
        }
    }

    /// The total time limit of an attempt.
    pub fn total(&self) -> u64 {
        self.total_ms.unwrap_or(TOTAL_MS)
    }

    /// Rejects numbers beyond the limits.
    pub fn check(&self) -> Result<(), TimeoutError> {
        for (field, ms) in [("total_ms", self.total_ms), ("silence_ms", self.silence_ms)] {
            if let Some(ms) = ms.filter(|ms| !(1..=DELAY_MS).contains(ms)) {
                return Err(TimeoutError { field, ms });
            }
        }
        Ok(())
    }
}

/// A time-out that is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutError {
    /// The field.
    pub field: &'static str,
    /// The given value.
    pub ms: u64,
}

impl fmt::Display for TimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} is outside 1 to {DELAY_MS}", self.field, self.ms)
    }
}

impl std::error::Error for TimeoutError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_says_more_than_its_type_and_a_day_is_the_default() {
        let job = Timeouts { total_ms: Some(5), silence_ms: None };
        let of_type = Timeouts { total_ms: Some(9), silence_ms: Some(7) };
        assert_eq!(job.or(of_type), Timeouts { total_ms: Some(5), silence_ms: Some(7) });
        assert_eq!((job.total(), Timeouts::default().total()), (5, 86_400_000));
        assert_eq!(Timeouts::default().or(Timeouts::default()).silence_ms, None);
    }

    #[test]
    fn numbers_beyond_the_limits_are_refused() {
        let total = |ms| Timeouts { total_ms: Some(ms), silence_ms: None }.check();
        assert_eq!((total(1), total(DELAY_MS)), (Ok(()), Ok(())));
        assert_eq!(total(0).unwrap_err().to_string(), "total_ms of 0 is outside 1 to 31536000000");
        let silence = Timeouts { total_ms: None, silence_ms: Some(DELAY_MS + 1) };
        assert_eq!(silence.check(), Err(TimeoutError { field: "silence_ms", ms: DELAY_MS + 1 }));
    }
}
