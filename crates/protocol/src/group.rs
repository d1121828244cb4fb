//! Groups: a set of jobs with one verdict.

use jobhall_core::bounds::{SUBMIT_JOBS, TAGS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;
use crate::job::submit::{SubmitJob, Submitted};
use crate::job::{Failure, schema};

/// A group to create.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = schema::create_group)]
pub struct CreateGroup {
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Key>")]
    pub name: Option<String>,
    /// Owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Owner>")]
    pub owner: Option<String>,
    /// Tags for filtering.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::Tag>", length(max = TAGS))]
    pub tags: Vec<String>,
    /// Jobs to create with the group, all or nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = SUBMIT_JOBS))]
    pub jobs: Vec<SubmitJob>,
    /// Whether the group accepts no further jobs. Only a closed group can end.
    #[serde(default)]
    pub closed: bool,
}

/// Number of members by state; each member is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupCounts {
    /// All members: the sum of the other fields.
    pub total: u64,
    /// Members that are not assigned, or wait for another attempt.
    pub pending: u64,
    /// Members that are assigned to a worker.
    pub active: u64,
    /// Members that succeeded.
    pub succeeded: u64,
    /// Members that failed.
    pub failed: u64,
    /// Members that crashed.
    pub crashed: u64,
    /// Members that were cancelled.
    pub cancelled: u64,
}

impl GroupCounts {
    /// Number of completed members.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.succeeded + self.failed + self.crashed + self.cancelled
    }
}

/// A group.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Id of the group. Jobs and groups share one sequence of ids.
    pub id: u64,
    /// Display name.
    pub name: Option<String>,
    /// Owner.
    pub owner: Option<String>,
    /// Tags for filtering.
    pub tags: Vec<String>,
    /// `new`, `running`, `succeeded`, `failed` or `cancelled`.
    pub state: String,
    /// Whether the group accepts no further jobs.
    pub closed: bool,
    /// Whether a cancel was requested.
    pub cancel_requested: bool,
    /// Whether that cancel stops it as failed.
    #[serde(default)]
    pub fails: bool,
    /// Reason of the cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Number of members by state.
    pub counts: GroupCounts,
    /// The group whose failed members this group retries.
    pub retry_of: Option<u64>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// The jobs created with the group, in order; only in the response to the creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Submitted>,
}
