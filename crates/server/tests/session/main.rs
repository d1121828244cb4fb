//! Sessions from outside: real sockets, a real store, both encodings.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "shared with the tests over requests")]
#[path = "../http/hall.rs"]
mod hall;
mod messages;
mod worker;
