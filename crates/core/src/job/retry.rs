//! Whether and when a job is retried.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds::{DELAY_MS, MAX_ATTEMPTS};
use crate::job::outcome::Outcome;

/// Random bits, passed in by the caller, so that the same dice give the same decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dice(pub u64);

/// How the delay grows from attempt to attempt, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// Always the same delay.
    Constant {
        /// The delay.
        ms: u64,
    },
    /// The delay grows by the first delay each time.
    Linear {
        /// The first delay and the growth.
        ms: u64,
        /// The longest delay.
        cap_ms: u64,
    },
    /// The delay doubles each time; up to a quarter is subtracted at random, so that simultaneous retries spread out.
    Exponential {
        /// The first delay.
        ms: u64,
        /// The longest delay.
        cap_ms: u64,
    },
}

impl Backoff {
    /// The delay after the `tries`-th counted attempt (the first is 1).
    pub fn delay_ms(self, tries: u32, dice: Dice) -> u64 {
        let tries = tries.max(1);
        match self {
            Backoff::Constant { ms } => ms,
            Backoff::Linear { ms, cap_ms } => ms.saturating_mul(u64::from(tries)).min(cap_ms),
            Backoff::Exponential { ms, cap_ms } => {
                let doubled = ms.saturating_mul(1 << (tries - 1).min(62)).min(cap_ms);
                doubled - dice.0 % (doubled / 4 + 1)
            }
        }
    }

    fn check(self) -> Result<(), RetryError> {
        let longest = match self {
            Backoff::Constant { ms } => ms,
            Backoff::Linear { ms, cap_ms } | Backoff::Exponential { ms, cap_ms } => ms.max(cap_ms),
        };
        if longest > DELAY_MS { Err(RetryError::Delay(longest)) } else { Ok(()) }
    }
}

/// A set of outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutcomeSet(u8);

impl OutcomeSet {
    /// The set of these.
    pub fn of(outcomes: &[Outcome]) -> OutcomeSet {
        outcomes.iter().copied().collect()
    }

    /// Whether the outcome is in the set.
    pub fn contains(self, outcome: Outcome) -> bool {
        self.0 & bit(outcome) != 0
    }
}

impl FromIterator<Outcome> for OutcomeSet {
    fn from_iter<I: IntoIterator<Item = Outcome>>(outcomes: I) -> OutcomeSet {
        OutcomeSet(outcomes.into_iter().fold(0, |bits, outcome| bits | bit(outcome)))
    }
}

fn bit(outcome: Outcome) -> u8 {
    1 << outcome as u8
}

/// When attempts are repeated. A lost attempt does not count against `max_attempts`; it is repeated up to a limit of
/// its own, unless the job runs at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Maximum number of attempts that count; snoozed and lost ones do not.
    pub max_attempts: u16,
    /// The delay between them.
    pub backoff: Backoff,
    /// The outcomes that are retried.
    pub on: OutcomeSet,
    /// Whether the job is never started a second time, not even after its worker was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most_once: bool,
}

impl RetryPolicy {
    /// The default of named types: five attempts, exponential from 5 s to at most 1 h.
    pub fn named() -> RetryPolicy {
        RetryPolicy {
            max_attempts: 5,
            backoff: Backoff::Exponential { ms: 5_000, cap_ms: 3_600_000 },
            on: OutcomeSet::of(&[Outcome::Failed, Outcome::Crashed, Outcome::TimedOut]),
            at_most_once: false,
        }
    }

    /// The default of `exec`: one attempt.
    pub fn once() -> RetryPolicy {
        RetryPolicy { max_attempts: 1, ..RetryPolicy::named() }
    }

    /// This policy for a job that is never started a second time.
    #[must_use]
    pub fn at_most_once(self) -> RetryPolicy {
        RetryPolicy { max_attempts: 1, at_most_once: true, ..self }
    }

    /// Rejects numbers beyond the limits.
    pub fn check(&self) -> Result<(), RetryError> {
        if self.at_most_once && self.max_attempts != 1 {
            return Err(RetryError::AtMostOnce(self.max_attempts));
        }
        if !(1..=MAX_ATTEMPTS).contains(&self.max_attempts) {
            return Err(RetryError::MaxAttempts(self.max_attempts));
        }
        self.backoff.check()
    }
}

/// Why a retry policy is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryError {
    /// Not between 1 and the limit.
    MaxAttempts(u16),
    /// Longer than the limit.
    Delay(u64),
    /// Not 1, for a job that runs at most once.
    AtMostOnce(u16),
}

impl fmt::Display for RetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetryError::MaxAttempts(n) => write!(f, "max_attempts of {n} is outside 1 to {MAX_ATTEMPTS}"),
            RetryError::AtMostOnce(n) => {
                write!(f, "max_attempts of {n} contradicts at_most_once, which allows only 1")
            }
            RetryError::Delay(ms) => {
                write!(f, "backoff of {ms} ms is longer than the limit of {DELAY_MS} ms")
            }
        }
    }
}

impl std::error::Error for RetryError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pauses_grow_as_told() {
        let constant = Backoff::Constant { ms: 700 };
        assert_eq!([1, 2, 9].map(|n| constant.delay_ms(n, Dice(5))), [700, 700, 700]);
        let linear = Backoff::Linear { ms: 100, cap_ms: 250 };
        assert_eq!([0, 1, 2, 3].map(|n| linear.delay_ms(n, Dice(5))), [100, 100, 200, 250]);
        let doubling = Backoff::Exponential { ms: 1_000, cap_ms: 5_000 };
        assert_eq!(
            [0, 1, 2, 3, 4, 99].map(|n| doubling.delay_ms(n, Dice(0))),
            [1_000, 1_000, 2_000, 4_000, 5_000, 5_000]
        );
        assert_eq!(doubling.delay_ms(1, Dice(250)), 750);
        assert_eq!(doubling.delay_ms(1, Dice(251)), 1_000);
    }

    proptest! {
        #[test]
        fn jitter_takes_off_at_most_a_quarter(tries in 1u32..200, dice: u64, ms in 0u64..10_000, cap in 0u64..100_000) {
            let backoff = Backoff::Exponential { ms, cap_ms: cap };
            let full = backoff.delay_ms(tries, Dice(0));
            let delay = backoff.delay_ms(tries, Dice(dice));
            prop_assert!(full <= cap);
            prop_assert!(delay <= full && delay >= full - full / 4);
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_design() {
        let named = RetryPolicy::named();
        assert_eq!((named.max_attempts, RetryPolicy::once().max_attempts), (5, 1));
        assert_eq!(named.backoff, Backoff::Exponential { ms: 5_000, cap_ms: 3_600_000 });
        let retried: Vec<_> = Outcome::ALL.into_iter().filter(|&o| named.on.contains(o)).collect();
        assert_eq!(retried, [Outcome::Failed, Outcome::Crashed, Outcome::TimedOut]);
        assert_eq!(
            named.on,
            OutcomeSet::of(&[Outcome::TimedOut, Outcome::Failed, Outcome::Crashed, Outcome::Failed])
        );
    }

    #[test]
    fn numbers_beyond_the_limits_are_refused() {
        let policy = |max_attempts, backoff| RetryPolicy { max_attempts, backoff, ..RetryPolicy::named() };
        let short = Backoff::Constant { ms: DELAY_MS };
        assert_eq!(policy(1_000, short).check(), Ok(()));
        assert_eq!(policy(0, short).check(), Err(RetryError::MaxAttempts(0)));
        assert_eq!(policy(1_001, short).check(), Err(RetryError::MaxAttempts(1_001)));
        let over = DELAY_MS + 1;
        for long in [
            Backoff::Constant { ms: over },
            Backoff::Linear { ms: 1, cap_ms: over },
            Backoff::Exponential { ms: over, cap_ms: 1 },
        ] {
            assert_eq!(policy(1, long).check(), Err(RetryError::Delay(over)));
        }
        assert_eq!(RetryError::MaxAttempts(0).to_string(), "max_attempts of 0 is outside 1 to 1000");
        let once = RetryPolicy::named().at_most_once();
        assert_eq!((once.check(), once.max_attempts, once.at_most_once), (Ok(()), 1, true));
        let twice = RetryPolicy { max_attempts: 2, ..once };
        assert_eq!(twice.check(), Err(RetryError::AtMostOnce(2)));
        assert_eq!(
            RetryError::AtMostOnce(2).to_string(),
            "max_attempts of 2 contradicts at_most_once, which allows only 1"
        );
        assert_eq!(
            RetryError::Delay(9).to_string(),
            "backoff of 9 ms is longer than the limit of 31536000000 ms"
        );
    }
}
