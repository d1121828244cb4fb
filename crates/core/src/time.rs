//! A point in time, in milliseconds since 1970. This crate reads no clock.

pub mod schedule;
mod span;
pub(crate) mod window;
pub(crate) mod zone;

use std::fmt;

use crate::bounds;

pub use span::TimeSpan;

/// A wall-clock time between 1970 and 9999, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

/// Why a number is not a valid time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeError(pub i64);

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "time {} ms is outside 1970-01-01 to 9999-12-31 (0 to {})", self.0, bounds::TIME_MS)
    }
}

impl std::error::Error for TimeError {}

impl Time {
    /// The first millisecond of 1970.
    pub const EPOCH: Time = Time(0);
    /// The last millisecond of 9999.
    pub const END: Time = Time(bounds::TIME_MS);

    /// A time from milliseconds since 1970; rejects times before 1970 or after 9999.
    pub fn from_ms(ms: i64) -> Result<Time, TimeError> {
        if (0..=bounds::TIME_MS).contains(&ms) { Ok(Time(ms)) } else { Err(TimeError(ms)) }
    }

    /// Milliseconds since 1970.
    pub fn as_ms(self) -> i64 {
        self.0
    }

    /// This time plus `ms`, at most the end of 9999.
    pub fn plus_ms(self, ms: u64) -> Time {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        Time(self.0.saturating_add(ms).min(bounds::TIME_MS))
    }

    /// This time minus `ms`, at least 1970.
    pub fn minus_ms(self, ms: u64) -> Time {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        Time(self.0.saturating_sub(ms).max(0))
    }

    /// Milliseconds from `earlier` to this time, 0 if `earlier` is later.
    pub fn since(self, earlier: Time) -> u64 {
        u64::try_from(self.0 - earlier.0).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_outside_the_range_are_refused_and_named() {
        assert_eq!(Time::from_ms(-1), Err(TimeError(-1)));
        assert_eq!(Time::from_ms(0), Ok(Time::EPOCH));
        assert_eq!(Time::from_ms(bounds::TIME_MS).unwrap().as_ms(), bounds::TIME_MS);
        assert_eq!(Time::from_ms(bounds::TIME_MS + 1), Err(TimeError(bounds::TIME_MS + 1)));
        assert_eq!(
            TimeError(-5).to_string(),
            "time -5 ms is outside 1970-01-01 to 9999-12-31 (0 to 253402300799999)"
        );
    }

    #[test]
    fn arithmetic_stays_inside_the_range() {
        let t = Time::from_ms(1_000).unwrap();
        assert_eq!(t.plus_ms(5).as_ms(), 1_005);
        assert_eq!(t.plus_ms(u64::MAX).as_ms(), bounds::TIME_MS);
        assert_eq!(t.minus_ms(400).as_ms(), 600);
        assert_eq!(t.minus_ms(u64::MAX), Time::EPOCH);
        assert_eq!(t.since(Time::from_ms(400).unwrap()), 600);
        assert_eq!(Time::EPOCH.since(t), 0);
    }
}
