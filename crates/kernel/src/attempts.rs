//! Attempts: reports about them, work that continues outside, and their time limits.

pub(crate) mod external;
pub(crate) mod report;
pub(crate) mod timing;
