//! Limits on concurrency and rate of a queue or a type, with one bucket or with one for each value of an expression.
//!
//! ```text
//!   { "concurrency": 10 }                                            ten at once
//!   { "by": "params.customer.id", "concurrency": 2 }                 two at once for each customer
//!   { "by": "owner", "rate": { "count": 100, "per_ms": 60000 } }     a hundred starts a minute for each owner
//! ```
//!
//! The weight of a job is its `throttle_factor`. Leased jobs take their weight from `concurrency` ([`Places`]); each
//! claim takes it once from the `rate` ([`Tokens`]). Two rules ensure that every job can run:
//!
//! - A weight of 0 takes nothing and never waits: the critical lane.
//! - A weight above a limit counts as the whole of it: the job runs when nothing else of its bucket does, and
//!   nothing else does while it runs. Of a rate it takes all its tokens, which are saved up for it beyond the burst.
//!
//! Jobs for which the expression has no value share a separate bucket. All arithmetic is on integers: there is no
//! drift, and the time is an argument.

mod error;
mod expression;
mod holders;
mod limit;
mod parse;
mod path;
mod places;
mod tokens;

#[cfg(test)]
mod tests;

pub use error::{ExpressionError, ExpressionErrorKind};
pub use expression::KeyExpression;
pub use limit::{Limit, LimitError, Rate, check_limits};
pub use places::Places;
pub use tokens::Tokens;

/// Maximum number of limits of a queue or a type.
pub const LIMITS_MAX: usize = 16;
/// Maximum concurrency of a limit, in weights of jobs.
pub const CONCURRENCY_MAX: u32 = 1_000_000;
/// Maximum number of tokens of a rate, and of saved tokens.
pub const TOKENS_MAX: u32 = 1_000_000;
/// The longest period of a rate: a year, in milliseconds.
pub const PER_MS_MAX: u64 = crate::bounds::DELAY_MS;
/// The longest expression, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 512;
/// The deepest path into params.
pub const PATH_MAX: usize = 16;
/// The longest value of an expression, in bytes; of a longer one only the beginning distinguishes buckets.
pub const VALUE_BYTES_MAX: usize = crate::bounds::KEY_BYTES;
