//! Jobs in memory: open jobs, the cache of completed ones, and the requests about a single job.

pub(crate) mod cancel;
pub(crate) mod edit;
pub(crate) mod entry;
pub(crate) mod ids;
pub(crate) mod load;
pub(crate) mod remove;
pub(crate) mod retry;
pub(crate) mod show;
pub(crate) mod specs;
pub(crate) mod windows;
