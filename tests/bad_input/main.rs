//! Bad input for the shipped binary, through sockets and commands: each gets a clear response, and the server is
//! unchanged.
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
