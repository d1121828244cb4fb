//! How halls, workers and commands begin and end, seen from the shell that started them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod drain;
mod embedded;
mod resources;
mod supervised;
mod ticks;
