//! What is known of a query without evaluating it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;

/// What is known of a query without evaluating it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryMetadata {
    /// The canonical text of the query.
    pub query: String,
    /// What the query means, and what its value is stored under.
    pub identity: String,
    /// The commands of all its steps, each as `NAME@VERSION`.
    pub commands: Vec<String>,
    /// `hit`: the value is stored; `missing`: it has to be made.
    pub cache: String,
    /// The job that has made the value, or the newest one that was to make it.
    pub job: Option<u64>,
    /// State of this job.
    pub state: Option<String>,
    /// Media type of the value, if it is stored.
    pub media_type: Option<String>,
    /// Size of the value in bytes, if it is stored.
    pub size: Option<u64>,
    /// When the job was submitted.
    pub created_at: Option<Timestamp>,
    /// When its work began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How long its work took.
    pub duration_ms: Option<u64>,
    /// The worker that runs it or has run it.
    pub worker: Option<String>,
    /// What the value is made from: the stored data that the query begins with, and the values of all its steps.
    pub dependencies: Vec<QueryDependency>,
    /// The end of the log of the last attempt, at most 4 KiB.
    pub log: Option<String>,
    /// A part of the value, or what its command shows of it.
    pub preview: Option<QueryPreview>,
}

/// What a value is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryDependency {
    /// The canonical text up to this value; of stored data, the text that begins with it.
    pub query: String,
    /// The identity of the value, or the digest of stored data. A change of either is another value of the query.
    pub identity: String,
    /// The command that makes it, with its version; none for stored data.
    pub command: Option<String>,
}

/// A part of a value, or what its command shows of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryPreview {
    /// Its media type.
    pub media_type: String,
    /// The beginning of a text value, at most 1 KiB.
    pub text: Option<String>,
    /// The address of the artifact `preview` of the last attempt, which its command may have left, also while it runs.
    pub url: Option<String>,
}
