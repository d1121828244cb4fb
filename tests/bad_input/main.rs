//! Bad input on the shipped binary, through sockets and commands: each a clear answer, and the hall as it was before.
//!
//! One file per kind of mistake.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bodies;
mod commands;
mod frames;
mod guarded;
mod heads;
mod leases;
mod session_leases;
mod slow;
mod socket;
