//! Settings: queues with their limits, retention, and schedules.

pub(crate) mod limit;
pub(crate) mod schedule;
