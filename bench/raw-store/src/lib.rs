//! The parts of the baseline: measuring the machine ([`machine`]), its theoretical limit ([`limit`]), and the rows of
//! the engine written with SQLite only ([`rows`]).
#![forbid(unsafe_code)]

pub mod limit;
pub mod machine;
pub mod rows;
