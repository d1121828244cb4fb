//! The hall from outside: real connections, a real store, nothing but HTTP.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod audit;
mod browser;
mod hall;
mod health;
mod job_tokens;
mod jobs;
mod limits;
mod logs;
mod renewals;
mod scopes;
mod secrets;
mod streams;
mod submit;
mod tls;
mod tokens;
mod workers;
