//! The engine on real stores and on one that holds commits back.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod batches;
mod claimers;
mod crash;
mod disk_full;
mod driver;
mod leadership_lost;
mod panicked;
mod paused_store;
mod records;
#[allow(dead_code, reason = "shared with the kernel's tests, which use more of it")]
#[path = "../../../kernel/tests/kernel/rig.rs"]
mod rig;
