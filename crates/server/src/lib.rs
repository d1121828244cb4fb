//! The hall over HTTP: routes, long polls, event streams, tokens.
//!
//! A route reads its request into checked values, asks the engine, and writes the answer as wire types; it decides
//! nothing. What is the same for every request happens once, around the routes:
//!
//! ```text
//!   connection (hall) ─▶ gate: request id, host, origin, token, role ─▶ routes/<noun> ─▶ engine, logs
//!                          │                                             │
//!                          └──────◀── problem+json (error) ◀─────────────┘
//! ```
//!
//! * `error` is the only place that knows status codes.
//! * `access` is the table of who may do what; a route that is not in it answers nobody.
//! * `floor` remembers which engine session holds which attempt, because a worker with nothing but requests has no
//!   connection that could.
#![forbid(unsafe_code)]

mod access;
mod app;
mod audit;
mod body;
mod error;
mod failures;
mod floor;
mod gate;
mod hall;
mod logs;
mod metrics;
mod params;
mod poll;
mod reach;
mod routes;
mod stream;
mod tell;
mod tls;
mod tokens;

pub use hall::{Hall, Options, Running};
pub use tls::{Tls, TlsError};
pub use tokens::{Bound, Identity, Role, TokenError, Tokens};
