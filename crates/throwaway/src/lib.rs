//! For tests only: PostgreSQL clusters and poolers that live as long as a test. They are real servers, with `fsync`
//! on, in temporary directories, reachable only through unix sockets.
//!
//! ```text
//!   Cluster::start()  ── a server for one test, which may stop, pause or promote it; removed when it is dropped
//!   Cluster::shared() ── one server for all tests that run at the time; removed seconds after the last of them
//!   Database          ── one database in either
//!   Pooler            ── a pgbouncer in transaction mode in front of a cluster
//! ```
//!
//! `initdb` takes a second, so it runs once per machine and version, and clusters start as copies of its result.
//! PostgreSQL refuses to run as root: as root, its programs run as `postgres`, or as `nobody` if there is no such
//! user.
#![forbid(unsafe_code)]

mod cluster;
mod pooler;
mod programs;
mod shared;
mod template;

pub use cluster::{Cluster, Database, Stop};
pub use pooler::Pooler;
pub use shared::Shared;
