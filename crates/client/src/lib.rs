//! The typed client of a Jobhall server: one method per route, and streams for endless replies.
//!
//! It depends on the wire types ([`jobhall_protocol`]) and not on engine or store. It distinguishes three kinds of
//! errors, because their fixes differ: no server answers, the server refuses the request, or the reply did not come
//! from a Jobhall server.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod artifacts;
mod error;
mod events;
mod groups;
mod http;
mod jobs;
mod log;
mod operations;
mod schedules;
mod server;
mod tokens;
mod worker;

pub use artifacts::ArtifactReader;
pub use artifacts::sources::SourceUpload;
pub use artifacts::upload::{Upload, UploadError, media_type_of};
pub use error::ClientError;
pub use events::Events;
pub use events::ends::Ends;
pub use events::sse::{Event, Parser};
pub use groups::GroupFollow;
pub use http::backoff::Backoff;
pub use http::call::Client;
pub use http::trust::{Trust, tls_config};
pub use jobhall_protocol::LogStream as Stream;
pub use jobs::cache::DropValues;
pub use jobs::queries::{Evaluated, LargeValue, QueryValue};
pub use jobs::{JobFilter, Jobs};
pub use log::frames::{LogFrames, LogQuery};
pub use log::{LogFollow, LogRange, LogReader};
pub use server::{Alive, Versioned};
pub use worker::apply::Applied;
pub use worker::session::{Session, SessionReceiver, SessionSender};
pub use worker::work::{AttemptRef, safe_part};
