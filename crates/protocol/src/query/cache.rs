//! The cache: stored values, pins and figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;
use crate::job::schema;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachedValue {
    /// The canonical text of the query.
    pub query: String,
    /// What the value is stored under.
    pub identity: String,
    /// The job that made it.
    pub job: u64,
    /// The commands that the job has run, each as `NAME@VERSION`.
    pub commands: Vec<String>,
    /// Media type of the value; none if it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Size of the value in bytes; none if it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was made.
    pub made_at: Timestamp,
    /// Whether it is never evicted.
    pub pinned: bool,
}

/// Figures of the cache. What is counted is counted from the start of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheStats {
    /// Values that are stored for later requests.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The values that were used longest ago are removed above this number.
    pub max_values: u64,
    /// The same for their bytes.
    pub max_bytes: u64,
    /// Bytes of the values that are in memory.
    pub memory_bytes: u64,
    /// Pins, whether their values are stored or not.
    pub pins: u64,
    /// Values that were removed because of the bounds.
    pub evictions: u64,
    /// By command.
    pub commands: Vec<CacheCommand>,
    /// Why values had to be computed.
    pub misses: CacheMisses,
}

/// How often the value of a command was needed, by where it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheCommand {
    /// The command.
    pub command: String,
    /// It was stored.
    pub hit: u64,
    /// It was being computed for someone else.
    pub joined: u64,
    /// It was computed.
    pub computed: u64,
    /// It was taken from an earlier run on the same bytes.
    pub skipped: u64,
    /// Computing it failed.
    pub failed: u64,
}

/// Why values had to be computed, as far as the server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheMisses {
    /// No earlier value is known.
    pub new: u64,
    /// It was computed with an earlier version of a command.
    pub version: u64,
    /// It was removed because of the bounds of the cache.
    pub evicted: u64,
    /// It was removed on request.
    pub dropped: u64,
    /// The stored value could not be read.
    pub damaged: u64,
    /// The stored value has expired.
    #[serde(default)]
    pub expired: u64,
}

/// What a request has removed from the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheDropped {
    /// Removed values; the values that would be removed, for a dry run.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Values that stay, because they are pinned or an open job needs them.
    pub kept: u64,
    /// There may be more: the request is repeated with this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A value that is never evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CachePin {
    /// What the value is stored under.
    #[schemars(with = "schema::QueryIdentity")]
    pub identity: String,
    /// The canonical text of the query.
    pub query: String,
}

/// The result of reading stored values again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheVerified {
    /// Values that were read.
    pub checked: u64,
    /// Values that cannot be used. They are made again when they are asked for.
    pub damaged: Vec<DamagedValue>,
    /// There are more: the request is repeated with this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A stored value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DamagedValue {
    /// The job that made it.
    pub job: u64,
    /// What is wrong with it.
    pub why: String,
}
