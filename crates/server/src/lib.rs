//! The HTTP server: routes, long polls, event streams, tokens.
//!
//! A route parses and validates its request, calls the engine, and writes the answer as wire types. It makes no
//! decisions. Processing common to all requests runs around the routes:
//!
//! ```text
//!   connection ─▶ role ─▶ auth: request id, host, origin, token, role ─▶ routes/<noun> ─▶ engine, logs
//!                          │                                             │
//!                          └──────◀── problem+json (error) ◀─────────────┘
//! ```
//!
//! * `role` is the current role of the node: leader, follower (`forward`) or closed.
//! * `error` is the only module that maps errors to status codes.
//! * `access` is the table of permissions; a route that is not in it refuses every request.
//! * `decode` validates requests for routes, sessions and the inbox alike.
//! * `session` serves workers with a WebSocket; `poll` and `poll_sessions` serve workers that use only requests.
//! * Job statistics come from the engine: `figures` writes them as JSON, `exposition` for Prometheus. `metrics` has the
//!   counters of the server itself.
//! * Every request has a span with its id, so every log line of the request includes the id.
//! * `poll_sessions` records which engine session holds which attempt, because a worker that uses only requests has no
//!   connection that could hold it.
#![forbid(unsafe_code)]

mod access;
mod app;
mod artifacts;
mod audit;
mod auth;
mod body;
mod collector;
mod connections;
mod decode;
mod disk_usage;
mod error;
mod explain;
mod exposition;
mod failures;
mod figures;
mod filter;
mod forward;
mod forwarded_for;
mod inbox;
mod leader;
mod logs;
mod metrics;
mod nodes;
mod operations;
mod params;
mod poll;
mod poll_sessions;
mod range;
mod role;
mod routes;
mod server;
mod session;
mod stream;
mod tls;
mod to_wire;
mod tokens;
mod upload;
mod visibility;

use jobhall_core::{Application, Reserved, ReservedTypes};

pub use collector::References;
pub use connections::ConnectionLimits;
pub use forward::{ForwardTo, check_address};
pub use forwarded_for::NodeSecret;
pub use nodes::Nodes;
pub use server::{Listen, Options, Running, Server};
pub use tls::{Tls, TlsError};
pub use tokens::{Bound, EarlierKey, HallKeys, Identity, Role, TokenError, Tokens};

/// The types that only the applications of the server create: queries, test suites and builds.
pub const RESERVED: Reserved = Reserved(&[
    ReservedTypes { application: Application("q."), retry_with: None },
    ReservedTypes { application: Application("taskset."), retry_with: Some("jobhall test start") },
    ReservedTypes { application: Application("build."), retry_with: Some("jobhall build retry") },
]);
