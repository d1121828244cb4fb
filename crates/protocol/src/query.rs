//! Queries: what is asked, the promise of a value, and the plan of how it is made.

pub(crate) mod cache;
pub(crate) mod command;
pub(crate) mod command_file;
pub(crate) mod metadata;
pub(crate) mod recipe;
pub(crate) mod source;
pub(crate) mod sub_query;

use jobhall_core::Indicator;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::core_schema::IndicatorSchema;
use crate::job::schema;

/// The header that says where a value came from: [`CACHE_HIT`], [`CACHE_JOINED`] or [`CACHE_COMPUTED`].
pub const CACHE_HEADER: &str = "jobhall-cache";
/// The value was stored.
pub const CACHE_HIT: &str = "hit";
/// The value was being made for someone else.
pub const CACHE_JOINED: &str = "joined";
/// The value was made for this request.
pub const CACHE_COMPUTED: &str = "computed";

/// The `refresh` of a query whose steps are all computed anew.
pub const REFRESH_ALL: &str = "*";

/// A query to be answered in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskQuery {
    /// The text of the query, as in a URL.
    #[schemars(with = "schema::QueryText")]
    pub query: String,
    /// Compute the steps of this command anew, and all that follow them, although their values are stored; `*` for all
    /// steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Refreshed>")]
    pub refresh: Option<String>,
}

/// The promise of a value: the job that makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryPromise {
    /// Number of the job.
    pub id: u64,
    /// The canonical text of the query.
    pub query: String,
    /// What the query means, and what its value is stored under.
    pub identity: String,
    /// State of the job.
    pub state: String,
    /// Where the value comes from: `hit`, `joined` or `computed`. Only in the answer to a request for the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// How many jobs were created for it. Only in the answer to a request for the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<usize>,
    /// Media type of the value, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Size of the value in bytes, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How each step is answered. Only in the answer to a request for the query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<QueryStep>,
    /// The progress of all jobs that it still depends on, and its own. Only in the answer to a request for the promise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub progress: Vec<QueryProgress>,
}

/// One step of a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryStep {
    /// The canonical text up to the end of its job.
    pub query: String,
    /// What the value of its job is stored under.
    pub identity: String,
    /// The command.
    pub command: String,
    /// Its version.
    pub version: String,
    /// How it is answered: `hit`, `joined`, `computed`, `skipped` (it was run before with the same bytes), `pending`,
    /// `failed`, `crashed` or `cancelled`; `missing` and `not_needed` if nothing was asked for.
    pub cache: String,
    /// Its job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// State of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// How long its last attempt took or has taken, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Size of its value in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The worker of its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Seconds since its job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
    /// The connected workers that could run it; only for a step that is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<String>,
    /// Why it is missing, as far as that is known, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What the check of its command has answered; only in a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<QueryCheck>,
    /// The job that asked for it while it ran; only for a step of another query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<u64>,
    /// The latest progress of its live attempt, without what is complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<IndicatorSchema>")]
    pub progress: Vec<Indicator>,
}

/// Progress of one of the jobs that make a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryProgress {
    /// The job.
    pub job: u64,
    /// The canonical text up to its last step.
    pub query: String,
    /// What it has reported last, without what is complete.
    #[schemars(with = "Vec<IndicatorSchema>")]
    pub progress: Vec<Indicator>,
}

/// The last run of a check, whose output stands in the identity of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryCheck {
    /// The beginning of its output; none if it was not run, or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why it has no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long ago it ran, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// How long it ran, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Its job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
}

/// How a query would be answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryPlan {
    /// The canonical text of the query.
    pub query: String,
    /// The steps in their order.
    pub steps: Vec<QueryStep>,
}

/// One job of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedNode {
    /// The canonical text up to its last step.
    pub query: String,
    /// What its value is stored under.
    pub identity: String,
    /// The commands that it runs, each as `NAME@VERSION`.
    pub commands: Vec<String>,
    /// `hit`: the value is stored; `missing`: it has to be made; `not_needed`: a later value is stored.
    pub cache: String,
    /// The job with the value, for a hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
}

/// What a problem says about a query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryProblem {
    /// The text that the place refers to.
    pub query: String,
    /// Column of the first character that is wrong, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// A line that marks the wrong part below the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<String>,
    /// The job whose step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// What would have to run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlannedNode>,
}
