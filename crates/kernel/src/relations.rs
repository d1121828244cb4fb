//! Relations between jobs: dependencies, cascades, and links from parents to sub-jobs.

pub(crate) mod cascade;
pub(crate) mod dependencies;
pub(crate) mod links;
