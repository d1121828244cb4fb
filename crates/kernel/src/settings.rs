//! Settings of types and queues.

pub(crate) mod queues;
pub(crate) mod types;
