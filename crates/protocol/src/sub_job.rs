//! Sub-jobs: what an attempt asks for, and what it is told of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::job::Failure;
use crate::submit::{FieldError, SubmitJob};

/// A job that an attempt asks for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubJob {
    /// What the attempt calls it: asked again by the same name, also by a later attempt, it is the same job as long as
    /// that has not failed. If missing, its type and key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The job; in the queue of the one that asks, if it names none.
    pub job: SubmitJob,
}

impl SubJob {
    /// The name of the call.
    ///
    /// # Errors
    /// It has neither a name nor a key that could make one.
    pub fn name(&self) -> Result<String, FieldError> {
        match (&self.call, &self.job.key) {
            (Some(call), _) => Ok(call.clone()),
            (None, Some(key)) => Ok(format!("{}/{key}", self.job.job_type)),
            (None, None) => Err(FieldError("call is missing: a sub-job without a key needs one".to_owned())),
        }
    }
}

/// The job that answers a call.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Called {
    /// Its number.
    pub id: u64,
    /// What became of the call: `created`, `joined`, `reused`, `superseding` or `again`.
    pub disposition: String,
    /// Where it stands.
    pub state: String,
    /// The result of one that has succeeded already.
    #[serde(default, with = "crate::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub result: Option<Box<RawValue>>,
}

/// A sub-job as its parent sees it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SubJobState {
    /// Its number.
    pub id: u64,
    /// Where it stands.
    pub state: String,
    /// How its last attempt ended, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The result of a success.
    #[serde(default, with = "crate::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub result: Option<Box<RawValue>>,
    /// Whether the result is left out because all of them are too much at once: ask for this job alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// An attempt waits for jobs that it has asked for. Its slot is free meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Which; all that it has asked for if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<u64>>,
    /// For how many seconds the hall may hold the request; 20 if missing, at most 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// The jobs are over, and the attempt goes on.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// Each of them, in the order asked.
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
