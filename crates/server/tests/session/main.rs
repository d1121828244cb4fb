//! Sessions from outside: real sockets, a real store, both encodings.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bounds;
mod cancels;
mod garbage;
mod handshake;
mod logs;
mod messages;
mod pause;
mod returns;
#[allow(dead_code, reason = "shared with the tests over requests")]
#[path = "../http/server.rs"]
mod server;
mod socket;
mod sub_jobs;
mod worker;
mod workers;
