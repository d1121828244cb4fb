//! A limit as configured.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CONCURRENCY_MAX, KeyExpression, LIMITS_MAX, PER_MS_MAX, TOKENS_MAX};

/// A limit of a queue or a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// One bucket for each value of this expression; none: one bucket for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<KeyExpression>,
    /// Sum of the weights of jobs that may be leased at once; none: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Sum of the weights of jobs that may be claimed over time; none: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// A number of tokens per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Tokens per `per_ms`.
    pub count: u32,
    /// The period over which they are added evenly.
    pub per_ms: u64,
    /// Maximum number of tokens saved; none: `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl Rate {
    /// Maximum number of tokens saved.
    pub fn most(&self) -> u32 {
        self.burst.unwrap_or(self.count)
    }
}

/// Why limits are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// Too many limits.
    TooMany(usize),
    /// A limit without concurrency and rate, by its position from 1.
    Nothing(usize),
    /// A number is outside its bounds.
    Outside {
        /// Which limit, from 1.
        position: usize,
        /// The field.
        field: &'static str,
        /// The given value.
        given: u64,
        /// The maximum.
        most: u64,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitError::TooMany(given) => write!(f, "limits has {given} entries, the limit is {LIMITS_MAX}"),
            LimitError::Nothing(position) => {
                write!(f, "limit {position} has neither concurrency nor rate")
            }
            LimitError::Outside { position, field: "concurrency", given: 0, most } => {
                write!(f, "concurrency of 0 in limit {position} is outside 1 to {most}; pause it instead")
            }
            LimitError::Outside { position, field, given, most } => {
                write!(f, "{field} of {given} in limit {position} is outside 1 to {most}")
            }
        }
    }
}

impl std::error::Error for LimitError {}

impl Limit {
    fn check(&self, position: usize) -> Result<(), LimitError> {
        let mut numbers = Vec::new();
        if let Some(concurrency) = self.concurrency {
            numbers.push(("concurrency", u64::from(concurrency), u64::from(CONCURRENCY_MAX)));
        }
        if let Some(rate) = self.rate {
            numbers.push(("rate count", u64::from(rate.count), u64::from(TOKENS_MAX)));
            numbers.push(("rate per_ms", rate.per_ms, PER_MS_MAX));
            numbers.push(("rate burst", u64::from(rate.most()), u64::from(TOKENS_MAX)));
        }
        if numbers.is_empty() {
            return Err(LimitError::Nothing(position));
        }
        match numbers.into_iter().find(|(_, given, most)| !(1..=*most).contains(given)) {
            Some((field, given, most)) => Err(LimitError::Outside { position, field, given, most }),
            None => Ok(()),
        }
    }
}

/// Rejects limits that are out of bounds.
///
/// # Errors
/// The first thing wrong with them.
pub fn check_limits(limits: &[Limit]) -> Result<(), LimitError> {
    if limits.len() > LIMITS_MAX {
        return Err(LimitError::TooMany(limits.len()));
    }
    limits.iter().enumerate().try_for_each(|(index, limit)| limit.check(index + 1))
}
