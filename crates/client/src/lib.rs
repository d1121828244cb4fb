//! The typed client of a hall: one method per route, and streams for what does not end.
//!
//! It knows the wire ([`jobhall_protocol`]) and nothing of engine or store. It tells three kinds of trouble apart,
//! because people fix them differently: nobody answers, the hall says no, or what answers is not a hall.
#![forbid(unsafe_code)]

mod call;
mod error;
mod events;
mod hall;
mod jobs;
mod log;
mod patience;
mod sse;
mod tokens;
mod trust;
mod work;

pub use call::Client;
pub use error::ClientError;
pub use events::Events;
pub use hall::Alive;
pub use jobs::{JobFilter, Jobs};
pub use log::{LogFollow, LogRange, LogReader};
pub use sse::{Event, Parser};
pub use trust::{Trust, tls_config};
pub use work::{Lease, Stream};
