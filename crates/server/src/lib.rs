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
//! * `node::role` is the current role of the node: leader, follower (`forward`) or closed.
//! * `error` is the only module that maps errors to status codes.
//! * `auth::access` is the table of permissions; a route that is not in it refuses every request.
//! * `decode` validates requests for routes, sessions and the inbox alike.
//! * `sessions::session` serves workers with a WebSocket; `sessions::poll` and `sessions::poll_sessions` serve
//!   workers that use only requests.
//! * Job statistics come from the engine: `metrics::figures` writes them as JSON, `metrics::exposition` for
//!   Prometheus. `metrics` has the counters of the server itself.
//! * `request::id` is the id of the request whose code runs; every log line of the request has it.
//! * `sessions::poll_sessions` records which engine session holds which attempt, because a worker that uses only
//!   requests has no connection that could hold it.
#![forbid(unsafe_code)]

mod auth;
mod blobs;
mod decode;
mod error;
mod forward;
mod metrics;
mod node;
mod request;
mod response;
mod routes;
mod server;
mod services;
mod sessions;

use jobhall_core::{Application, Reserved, ReservedTypes};

pub use auth::tokens::{Bound, EarlierKey, HallKeys, Identity, Role, TokenError, TokenFacts, Tokens};
pub use blobs::collector::References;
pub use forward::forwarded_for::NodeSecret;
pub use forward::{ForwardTo, check_address};
pub use jobhall_queries::CacheBounds;
pub use node::leader::internal_jobs::InternalJobs;
pub use node::nodes::Nodes;
pub use request::id::RequestId;
pub use server::connections::ConnectionLimits;
pub use server::tls::{Tls, TlsError};
pub use server::{Listen, Options, Running, Server};

/// The types that only the applications of the server create: queries, test suites and builds.
pub const RESERVED: Reserved = Reserved(&[
    jobhall_queries::RESERVED,
    ReservedTypes { application: Application("taskset."), retry_with: Some("jobhall test start") },
    ReservedTypes { application: Application("build."), retry_with: Some("jobhall build retry") },
]);
