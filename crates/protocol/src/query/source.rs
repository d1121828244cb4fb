//! Sources: stored data that queries begin with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;

/// Stored data under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// The key, such as `sales.csv` or `2026/sales.csv`. A query begins with `-R/KEY/-/`.
    pub key: String,
    /// The BLAKE3 hash of the data, as 64 hex digits.
    pub digest: String,
    /// Size in bytes.
    pub size: u64,
    /// Media type of the data.
    pub media_type: String,
    /// When it was put; for a key that is the digest of its data, when it was last used, to a day.
    pub at: Timestamp,
}
