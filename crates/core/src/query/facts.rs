//! What a plan depends on besides the commands: what the keys of sources name, and what checks have answered.

use std::sync::Arc;

use super::{Identity, Query, SourceDigest, SourceKey};

/// What is known when a query is planned. A function that finds the digest of stored data is enough if there are neither
/// recipes nor checks.
pub trait Facts {
    /// The digest of the data that was put under a key.
    fn data(&self, key: &SourceKey) -> Option<SourceDigest>;

    /// The recipe of a key. It counts only while there is no data under the key.
    fn recipe(&self, _key: &SourceKey) -> Option<Arc<Query>> {
        None
    }

    /// What a check has answered; none if it has to be run. An answer is good for this many milliseconds.
    fn answer(&self, _check: &Identity, _every_ms: u64) -> Option<SourceDigest> {
        None
    }
}

impl<F: Fn(&SourceKey) -> Option<SourceDigest>> Facts for F {
    fn data(&self, key: &SourceKey) -> Option<SourceDigest> {
        self(key)
    }
}
