//! Counts of jobs, queues and workers, for users.

pub(crate) mod counts;
pub(crate) mod histogram;
pub(crate) mod queues;
pub(crate) mod recent;
