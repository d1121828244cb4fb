//! Filters of jobs, with the same fields in the query of a list and in the body of an operation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::timestamp::Timestamp;
use crate::job::schema;

/// Filter of jobs; missing fields do not restrict it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobFilter {
    /// States, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::States>")]
    pub state: Option<String>,
    /// Type of the job.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Name>")]
    pub job_type: Option<String>,
    /// Key of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Key>")]
    pub key: Option<String>,
    /// Queue of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Name>")]
    pub queue: Option<String>,
    /// Group of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::JobId>")]
    pub group: Option<u64>,
    /// Owner of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Owner>")]
    pub owner: Option<String>,
    /// Tag of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Tag>")]
    pub tag: Option<String>,
    /// Text in type, key, params or error, ignoring case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Search>")]
    pub q: Option<String>,
    /// Submitted at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_after: Option<Timestamp>,
    /// Submitted before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_before: Option<Timestamp>,
}
