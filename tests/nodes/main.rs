//! Halls of several nodes on one PostgreSQL: every node answers requests, and the hall survives the loss of any node.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod addresses;
mod alike;
mod away;
mod cached;
mod crowd;
mod dump;
mod exact;
mod failed;
mod handed_over;
mod inbox;
mod keys;
mod moved;
mod pooled;
mod retention;
mod secrets;
mod standby;
