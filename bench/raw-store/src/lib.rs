//! The parts of the baseline: how the machine is watched ([`machine`]), what it could do at best ([`limit`]), and the
//! rows of the engine written by SQLite alone ([`rows`]).
#![forbid(unsafe_code)]

pub mod limit;
pub mod machine;
pub mod rows;
