//! Dev only: PostgreSQL clusters and poolers that live as long as a test. Real servers, with `fsync` on, in temporary
//! directories, reached through unix sockets only.
//!
//! ```text
//!   Cluster::start()  ── a server of the test's own: it may be stopped, paused, promoted; gone when it is dropped
//!   Cluster::shared() ── one server for all tests that run at the time; gone seconds after the last of them
//!   Database          ── one database of either
//!   Pooler            ── a pgbouncer in transaction mode before a cluster
//! ```
//!
//! `initdb` takes a second, so it runs once per machine and version; clusters begin as copies of what it made.
//! PostgreSQL refuses to run as root: then its programs run as `postgres`, or as `nobody` where there is no such user.
#![forbid(unsafe_code)]

mod cluster;
mod pooler;
mod programs;
mod shared;
mod template;

pub use cluster::{Cluster, Database, Stop};
pub use pooler::Pooler;
pub use shared::Shared;
