//! Attempts: sessions that hold them, reports about them, their time limits, and what they wait for.

pub(crate) mod cycle;
pub(crate) mod external;
pub(crate) mod report;
pub(crate) mod session;
pub(crate) mod timing;
pub(crate) mod wait;
