//! Operations: one change of all jobs that a filter means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::filter::JobFilter;
use crate::timestamp::Timestamp;

/// What an operation does with each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// End it; completed jobs are skipped.
    Cancel,
    /// Make a new job like it; pending jobs are skipped.
    Retry,
    /// Forget it; pending jobs are skipped.
    Delete,
}

/// Starts an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartOperation {
    /// What to do.
    pub verb: Verb,
    /// With which jobs.
    #[serde(default)]
    pub filter: JobFilter,
    /// Must be true where the filter has no condition: all jobs are meant.
    #[serde(default)]
    pub all: bool,
    /// Only count them.
    #[serde(default)]
    pub dry_run: bool,
    /// Only jobs up to this number; those that exist at this moment if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<u64>,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// It counts, works, or waits for those before it.
    Running,
    /// It came to its end; single jobs may have failed.
    Succeeded,
    /// It could not go on.
    Failed,
    /// It was stopped on request; what was done stays done.
    Cancelled,
}

/// An operation as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Its number.
    pub id: u64,
    /// What it does.
    pub verb: Verb,
    /// With which jobs.
    pub filter: JobFilter,
    /// Whether it only counts them.
    pub dry_run: bool,
    /// Who started it.
    pub who: String,
    /// How far it is.
    pub state: OperationState,
    /// Later jobs are not touched: it is about those that existed when it started.
    pub up_to: u64,
    /// How many jobs the filter meant when they were counted; none until then.
    pub total: Option<u64>,
    /// Jobs it was done to.
    pub done: u64,
    /// Jobs it could not be done to.
    pub failed: u64,
    /// Jobs to which it does not apply, or no longer.
    pub skipped: u64,
    /// When it started.
    pub created_at: Timestamp,
    /// When it last went on.
    pub updated_at: Timestamp,
    /// Why it, or a job of it, failed last.
    pub error: Option<String>,
    /// Whether it is to stop.
    #[serde(default)]
    pub cancel_requested: bool,
}
