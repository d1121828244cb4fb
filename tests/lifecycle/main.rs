//! How servers, workers and commands start and end, seen from the shell.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod drain;
mod embedded;
mod failed;
mod open_files;
mod pipeline;
mod queries;
mod resources;
mod supervised;
mod ticks;
