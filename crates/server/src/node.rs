//! This node: its current role, what runs while it leads, and the list of all nodes.

pub(crate) mod leader;
pub(crate) mod nodes;
pub(crate) mod role;
