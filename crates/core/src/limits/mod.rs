//! How much may go on at once, and how fast: limits of a queue or a type, as one bucket or as one for each value of
//! an expression.
//!
//! ```text
//!   { "concurrency": 10 }                                            ten at once
//!   { "by": "params.customer.id", "concurrency": 2 }                 two at once for each customer
//!   { "by": "owner", "rate": { "count": 100, "per_ms": 60000 } }     a hundred starts a minute for each owner
//! ```
//!
//! A job weighs its `throttle_factor`. Running jobs take their weight of `concurrency` ([`Places`]); each claim takes
//! it once from the `rate` ([`Tokens`]). Two rules keep every job able to run:
//!
//! - A weight of 0 takes nothing and never waits: the critical lane.
//! - A weight above a limit counts as the whole of it: the job runs when nothing else of its bucket does, and
//!   nothing else does while it runs. Of a rate it takes all its tokens, which are saved up for it beyond the burst.
//!
//! Jobs for which the expression has no value share one bucket of their own. Everything here is arithmetic on
//! integers: no drift, and the moment is an argument.

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

/// Limits that a queue or a type may have.
pub const LIMITS_MAX: usize = 16;
/// The most that a limit may let through at once, in weights of jobs.
pub const CONCURRENCY_MAX: u32 = 1_000_000;
/// The most tokens of a rate, and the most that may be saved up.
pub const TOKENS_MAX: u32 = 1_000_000;
/// The longest time that a rate may be spread over: a year, in milliseconds.
pub const PER_MS_MAX: u64 = crate::bounds::DELAY_MS;
/// The longest expression, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 512;
/// The deepest path into params.
pub const PATH_MAX: usize = 16;
/// The longest value of an expression, in bytes; of a longer one only the beginning tells buckets apart.
pub const VALUE_BYTES_MAX: usize = crate::bounds::KEY_BYTES;
