//! Services that run while the node leads, such as bulk operations and the SQL inbox.

pub(crate) mod inbox;
pub(crate) mod operations;
pub(crate) mod source_upkeep;
