//! A rig for tests of the shipped binary: real processes with their own data and port, which end with the rig.
//!
//! The binary is the one that cargo built beside the test; an outdated one is refused, because it proves nothing. The
//! rig knows no internals: tests use flags, signals and sockets.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a rig for tests may panic")]

mod binary;
mod processes;
mod raw;
mod rig;

pub use binary::{binary, jobhall};
pub use processes::{descendants, files, kill, marked, signal, suspend};
pub use raw::{Answer, Raw};
pub use rig::{Process, Rig, eventually, text};
pub use rustix::process::Signal;
