//! The server as a whole: nodes and statistics.

pub(crate) mod node;
pub(crate) mod stats;
