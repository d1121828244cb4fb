//! Complete histories of runs, to prove that a change of the engine preserves its behaviour: record with both
//! versions, then compare.
//!
//! A recording is text. A line `seed N` begins a run; every other line is one of these, with the virtual time in
//! milliseconds first:
//!
//! ```text
//! MS start | what the engine was started with, one line for each stored thing
//! MS crash |
//! MS request TICKET | the request
//! MS answer TICKET | in brief: ids, dispositions, state or code | the answer
//! MS effect | any other effect
//! MS read | a request to the store besides commits
//! MS reply | the reply to it
//! MS commit NUMBER | how many units
//! MS commit NUMBER.UNIT KIND | one row of a unit
//! MS reply NUMBER | the reply to a commit, or to a part of it
//! MS result NUMBER.UNIT | the result of a unit, counted from the first of that reply
//! MS end | the violation, if there was one
//! ```
//!
//! A step is everything that one input (start, crash, request, reply) causes at its moment, or that the clock
//! causes at another.

mod compare;
mod record;

pub use compare::{Comparison, Difference, Mode, Renames, compare};
pub(crate) use record::History;
pub use record::record;

/// Separates the recorder's text from the printed values.
const BAR: &str = " | ";
