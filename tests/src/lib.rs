//! A rig for tests on the shipped binary: real processes with their own data and port, which are gone with the rig.
//!
//! The binary is the one that cargo built beside the test; an old one is refused, because a test of yesterday's
//! program proves nothing. Nothing here knows what is inside: tests speak through flags, signals and sockets.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a rig for tests may panic")]

mod binary;
mod processes;
mod raw;
mod rig;

pub use binary::{binary, jobhall};
pub use processes::{descendants, files, kill, marked, signal};
pub use raw::{Answer, Raw};
pub use rig::{Process, Rig, eventually, text};
pub use rustix::process::Signal;
