//! The typed client of a Jobhall server: one method per route, and streams for endless replies.
//!
//! It depends on the wire types ([`jobhall_protocol`]) and not on engine or store. It distinguishes three kinds of
//! errors, because their fixes differ: no server answers, the server refuses the request, or the reply did not come
//! from a Jobhall server.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod apply;
mod artifacts;
mod backoff;
mod call;
mod ends;
mod error;
mod events;
mod frames;
mod groups;
mod jobs;
mod log;
mod operations;
mod places;
mod schedules;
mod server;
mod session;
mod sse;
mod sub_jobs;
mod tokens;
mod trust;
mod upload;
mod work;

pub use apply::Applied;
pub use artifacts::ArtifactReader;
pub use backoff::Backoff;
pub use call::Client;
pub use ends::Ends;
pub use error::ClientError;
pub use events::Events;
pub use frames::{LogFrames, LogQuery};
pub use groups::GroupFollow;
pub use jobhall_protocol::LogStream as Stream;
pub use jobs::{JobFilter, Jobs};
pub use log::{LogFollow, LogRange, LogReader};
pub use server::{Alive, Versioned};
pub use session::{Session, SessionReceiver, SessionSender};
pub use sse::{Event, Parser};
pub use trust::{Trust, tls_config};
pub use upload::{Upload, UploadError, media_type_of};
pub use work::{AttemptRef, safe_part};
