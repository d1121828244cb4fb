//! What can be configured for a type and for a queue.

pub(crate) mod queue_config;
pub(crate) mod type_config;
