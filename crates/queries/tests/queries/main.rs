//! Tests of queries over a real engine on the reference store; a task plays the worker.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod asked;
mod asking;
mod cached;
mod checking;
mod declaring;
mod editing;
mod evicting;
mod expiring;
mod failing;
mod large;
mod modes;
mod order;
mod recipes;
mod rig;
mod sources;
mod upkeep;
