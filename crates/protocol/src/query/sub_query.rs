//! Queries that an attempt asks for, and their answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::schema;

/// Maximum number of commands that an asker says it can run.
pub const HERE_MAX: usize = 2_048;
/// Longest name of a command with its version, in bytes.
pub const HERE_BYTES_MAX: usize = 128;

/// A query that an attempt asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskSubQuery {
    /// The text of the query, as in a URL.
    #[schemars(with = "schema::QueryText")]
    pub query: String,
    /// The commands that the asking process can run itself, each as `NAME@VERSION`. What may not be kept is then answered
    /// by `inline` if it consists of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = HERE_MAX), inner(length(max = HERE_BYTES_MAX)))]
    pub here: Vec<String>,
}

/// Whether the value of a sub-query is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubQueryState {
    /// It is there.
    Ready,
    /// A job makes it: wait for this job as for any sub-job, then read the answer again.
    Pending,
    /// The asker runs `node` itself, when the jobs have ended that make what it receives.
    Inline,
}

/// The answer to a query that an attempt asks for. A query that failed is answered by a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubQuery {
    /// Whether the value is there.
    pub answer: SubQueryState,
    /// What the query means. A value that is not part of the answer is read at `/attempts/{id}/values/{identity}`.
    pub identity: String,
    /// The job that makes the value or has made it; missing for stored data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Media type of the value, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Size of the value in bytes, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The value, if it is UTF-8 and has at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The value in base 64, if it is not UTF-8 and has at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// What the asker runs itself, as the params of a job of a query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<serde_json::Value>,
    /// The jobs that make what it receives: wait for them first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<u64>,
}
