//! What an attempt keeps beside its result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

/// A named file of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// What its user calls it, such as `report/index.html`.
    pub name: String,
    /// The BLAKE3 hash of its content, as 64 hex digits.
    pub digest: String,
    /// How many bytes it has.
    pub size: u64,
    /// What kind of bytes.
    pub media_type: String,
    /// When it was kept.
    pub at: Timestamp,
    /// The attempt that kept it, `{job}-{claim}`.
    pub attempt: String,
}
