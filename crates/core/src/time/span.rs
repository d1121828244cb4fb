//! Durations as people write them: `250ms`, `30s`, `10m`, `2h`, `7d`, and sums such as `1h30m`.

use std::fmt;

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(pub u64);

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl TimeSpan {
    /// Reads a duration; units go from the longest to the shortest, each once.
    #[must_use]
    pub fn parse(text: &str) -> Option<TimeSpan> {
        let (mut rest, mut total, mut last) = (text, 0u64, u64::MAX);
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let number: u64 = rest[..digits].parse().ok()?;
            rest = &rest[digits..];
            let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let (_, ms) = UNITS.iter().find(|(unit, _)| *unit == &rest[..letters])?;
            rest = &rest[letters..];
            if *ms >= last {
                return None;
            }
            last = *ms;
            total = total.checked_add(number.checked_mul(*ms)?)?;
        }
        (!text.is_empty()).then_some(TimeSpan(total))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut left = self.0;
        UNITS.iter().try_for_each(|(unit, ms)| {
            let n = left / ms;
            left %= ms;
            if n > 0 { write!(f, "{n}{unit}") } else { Ok(()) }
        })
    }
}
