//! Tests of queries over a real engine on the reference store; a task plays the worker.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod asking;
mod cached;
mod declaring;
mod editing;
mod evicting;
mod failing;
mod large;
mod modes;
mod order;
mod rig;
mod sources;
mod upkeep;
