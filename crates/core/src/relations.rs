//! Relations between jobs: dependencies and groups.

pub(crate) mod dependency;
pub(crate) mod group;
