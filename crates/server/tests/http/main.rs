//! The hall from outside: real connections, a real store, nothing but HTTP.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod every_route;
mod hall;
mod health;
mod jobs;
mod limits;
mod logs;
mod operations;
mod renewals;
mod schema;
mod streams;
mod submit;
mod types;
mod workers;
