//! The hall from outside: real connections, a real store, nothing but HTTP.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod artifacts;
mod audit;
mod browser;
mod collector;
mod edit;
mod every_route;
mod groups;
mod hall;
mod health;
mod job_tokens;
mod jobs;
mod limits;
mod log_streams;
mod logs;
mod metrics;
mod operations;
mod outcomes;
mod page;
mod queue_settings;
mod queues;
mod renewals;
mod resources;
mod schedules;
mod schema;
mod scopes;
mod secrets;
mod streams;
mod sub_jobs;
mod submit;
mod timeouts;
mod tls;
mod tokens;
mod types;
mod workers;
