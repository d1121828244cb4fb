//! Artifacts of attempts.

pub(crate) mod input;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;

/// A named file of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// Name given by the user, such as `report/index.html`.
    pub name: String,
    /// The BLAKE3 hash of its content, as 64 hex digits.
    pub digest: String,
    /// Size in bytes.
    pub size: u64,
    /// Media type of the content.
    pub media_type: String,
    /// When it was stored.
    pub at: Timestamp,
    /// The attempt that stored it, `{job}-{claim}`.
    pub attempt: String,
}
