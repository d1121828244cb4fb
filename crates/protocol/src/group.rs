//! Groups: a set of jobs with one verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::Failure;
use crate::submit::{SubmitJob, Submitted};
use crate::timestamp::Timestamp;

/// A group to be made.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateGroup {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What it is found by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Jobs that are made with it, all or nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<SubmitJob>,
    /// Whether it takes no more jobs than these. Only a closed group can end.
    #[serde(default)]
    pub closed: bool,
}

/// How many members stand where; each is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupCounts {
    /// All of them: the sum of the others.
    pub total: u64,
    /// Nobody has begun with them, or they wait for another attempt.
    pub pending: u64,
    /// A worker has them.
    pub active: u64,
    /// Ended well.
    pub succeeded: u64,
    /// The work said no.
    pub failed: u64,
    /// The environment broke.
    pub crashed: u64,
    /// Stopped on request.
    pub cancelled: u64,
}

impl GroupCounts {
    /// Members that are completed.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.succeeded + self.failed + self.crashed + self.cancelled
    }
}

/// A group.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Its number. Jobs and groups are numbered together.
    pub id: u64,
    /// What people call it.
    pub name: Option<String>,
    /// Whose it is.
    pub owner: Option<String>,
    /// What it is found by.
    pub tags: Vec<String>,
    /// `new`, `running`, `succeeded`, `failed` or `cancelled`.
    pub state: String,
    /// Whether it takes no more jobs.
    pub closed: bool,
    /// Whether it is being cancelled or was.
    pub cancel_requested: bool,
    /// Why it is being cancelled or was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Its members.
    pub counts: GroupCounts,
    /// The group whose failed members it tries again.
    pub retry_of: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// The jobs that were made with it, in order; only in the answer to that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Submitted>,
}
