//! Halls of several nodes on one PostgreSQL: whichever node is asked, the hall answers; whichever is lost, it goes on.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod addresses;
mod alike;
mod away;
mod crowd;
mod exact;
mod handed_over;
mod inbox;
mod moved;
mod pooled;
mod secrets;
mod standby;
