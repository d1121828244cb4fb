//! The hall over HTTP: routes, long polls, event streams, tokens.
//!
//! A route reads its request into checked values, asks the engine, and writes the answer as wire types; it decides
//! nothing. What is the same for every request happens once, around the routes:
//!
//! ```text
//!   connection ─▶ role ─▶ auth: request id, host, origin, token, role ─▶ routes/<noun> ─▶ engine, logs
//!                          │                                             │
//!                          └──────◀── problem+json (error) ◀─────────────┘
//! ```
//!
//! * `role` is what the node is at the moment: the leadership, a `follower` to the node that has it, or closed.
//! * `error` is the only place that knows status codes.
//! * `access` is the table of who may do what; a route that is not in it answers nobody.
//! * `session` speaks with workers that keep a WebSocket open; `poll` and `poll_sessions` serve those that have nothing but
//!   requests.
//! * What is counted about jobs comes from the engine: `figures` tells it as JSON, `exposition` to Prometheus, beside
//!   what the server counts itself (`metrics`).
//! * Every request has a span with its id, so each line that is logged within it has one.
//! * `poll_sessions` remembers which engine session holds which attempt, because a worker with nothing but requests has no
//!   connection that could.
#![forbid(unsafe_code)]

mod access;
mod app;
mod artifacts;
mod audit;
mod auth;
mod body;
mod collector;
mod connections;
mod disk_usage;
mod error;
mod explain;
mod exposition;
mod failures;
mod field;
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

pub use forward::{ForwardTo, check_address};
pub use forwarded_for::NodeSecret;
pub use nodes::Nodes;
pub use server::{Listen, Options, Running, Server};
pub use tls::{Tls, TlsError};
pub use tokens::{Bound, Identity, Role, TokenError, Tokens};
