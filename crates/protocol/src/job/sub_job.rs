//! Sub-jobs: requests of an attempt, and their responses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::job::submit::{FieldError, SubmitJob};
use crate::job::{Failure, schema};
use crate::session::WAIT_S;

/// A sub-job that an attempt requests.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = schema::sub_job)]
pub struct SubJob {
    /// Name of the sub-job. A repeated request with the same name, also by a later attempt, returns the same job as
    /// long as it has not failed. If missing, type and key are the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Call>")]
    pub call: Option<String>,
    /// The job. Its queue is the queue of its parent; another one is refused.
    pub job: SubmitJob,
}

impl SubJob {
    /// The name of the call.
    ///
    /// # Errors
    /// The request has neither a name nor a key from which to derive one.
    pub fn name(&self) -> Result<String, FieldError> {
        match (&self.call, &self.job.key) {
            (Some(call), _) => Ok(call.clone()),
            (None, Some(key)) => Ok(format!("{}/{key}", self.job.job_type)),
            (None, None) => Err(FieldError("call is missing: a sub-job without a key needs one".to_owned())),
        }
    }
}

/// The sub-job that was requested.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Called {
    /// Id of the job.
    pub id: u64,
    /// Disposition of the request: `created`, `joined`, `reused`, `superseding` or `again`.
    pub disposition: String,
    /// Whether the joined job has other params, compared as JSON values: those of this request were not submitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub params_differ: bool,
    /// Current state.
    pub state: String,
    /// Result of a job that has already succeeded.
    #[serde(default, with = "crate::format::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub result: Option<Box<RawValue>>,
    /// Whether the result is omitted because it is large, or because the response would be too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
}

/// The state of a sub-job for its parent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubJobState {
    /// Id of the job.
    pub id: u64,
    /// Current state; `removed` if the job was deleted after its end.
    pub state: String,
    /// Outcome of its last attempt, once the job has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Result of a job that succeeded.
    #[serde(default, with = "crate::format::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub result: Option<Box<RawValue>>,
    /// Whether result and error are omitted because the response would be too large: request this job alone. If they are
    /// omitted then too, the result is an artifact: read it at `/attempts/{id}/jobs/{job}/result`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    /// Error of a job that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// An attempt waits for its sub-jobs. Its slot is free meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The jobs; all its sub-jobs if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<schema::JobId>>")]
    pub jobs: Option<Vec<u64>>,
    /// Seconds for which the server may hold the request; 20 if missing, at most 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = WAIT_S))]
    pub wait_s: Option<u64>,
}

/// The jobs have ended, and the attempt continues.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// The jobs, in the requested order.
    pub jobs: Vec<SubJobState>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_a_name_or_a_key_that_makes_one() {
        let sub_job = |text: &str| serde_json::from_str::<SubJob>(text).unwrap().name();
        assert_eq!(sub_job(r#"{"call":"a","job":{"type":"t","key":"k"}}"#).unwrap(), "a");
        assert_eq!(sub_job(r#"{"job":{"type":"t","key":"k"}}"#).unwrap(), "t/k");
        let error = sub_job(r#"{"job":{"type":"t"}}"#).unwrap_err();
        assert!(error.to_string().starts_with("call is missing"), "{error}");
        let unknown = serde_json::from_str::<SubJob>(r#"{"cal":"a","job":{"type":"t"}}"#).unwrap_err();
        assert!(unknown.to_string().starts_with("unknown field `cal`"), "{unknown}");
    }
}
