//! The hall from outside: real connections, a real store, nothing but HTTP.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod hall;
mod health;
mod jobs;
mod limits;
mod logs;
mod renewals;
mod streams;
mod submit;
mod tls;
mod workers;
