//! Commits: the units that are sent to the store, and what follows from their results.

pub(crate) mod settle;
pub(crate) mod step;
