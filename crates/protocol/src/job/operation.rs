//! Operations: one change of all jobs that match a filter.

use jobhall_core::bounds::JOB_ID;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;
use crate::job::filter::JobFilter;
use crate::job::schema;

/// What an operation does to each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Cancels the job; completed jobs are skipped.
    Cancel,
    /// Submits a new job like it; pending jobs are skipped.
    Retry,
    /// Deletes the job; pending jobs are skipped.
    Delete,
}

/// Starts an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = schema::start_operation)]
pub struct StartOperation {
    /// What to do.
    pub verb: Verb,
    /// Filter of the jobs.
    #[serde(default)]
    pub filter: JobFilter,
    /// Must be true if the filter has no condition and therefore matches all jobs.
    #[serde(default)]
    pub all: bool,
    /// Whether to count the jobs only.
    #[serde(default)]
    pub dry_run: bool,
    /// Only jobs up to this id; if missing, all jobs that exist when the operation starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = JOB_ID))]
    pub up_to: Option<u64>,
}

/// State of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// The operation counts, works, or waits for earlier operations.
    Running,
    /// The operation has ended; single jobs may have failed.
    Succeeded,
    /// The operation could not continue.
    Failed,
    /// The operation was stopped on request; its changes remain.
    Cancelled,
}

/// A recorded operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Id of the operation.
    pub id: u64,
    /// What it does.
    pub verb: Verb,
    /// Filter of the jobs.
    pub filter: JobFilter,
    /// Whether it only counts the jobs.
    pub dry_run: bool,
    /// Name of the token that started it.
    pub who: String,
    /// Current state.
    pub state: OperationState,
    /// Jobs above this id are not changed: only jobs that existed at the start are.
    pub up_to: u64,
    /// Number of matching jobs; none until they are counted.
    pub total: Option<u64>,
    /// Number of changed jobs.
    pub done: u64,
    /// Number of jobs that could not be changed.
    pub failed: u64,
    /// Number of jobs to which the operation does not apply.
    pub skipped: u64,
    /// When it started.
    pub created_at: Timestamp,
    /// When it last made progress.
    pub updated_at: Timestamp,
    /// Last error of the operation or of one of its jobs.
    pub error: Option<String>,
    /// Whether a stop was requested.
    #[serde(default)]
    pub cancel_requested: bool,
}
