//! Inputs of an attempt: the jobs that its job comes after, and its parent.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::job::submit::FieldError;

/// Maximum size of the results in a list of inputs; the others are read one by one.
pub const INPUT_RESULTS_BYTES: usize = 1 << 20;
/// Maximum number of artifacts that are listed for one input.
pub const INPUT_ARTIFACTS: usize = 1_000;

/// Which input of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum InputName {
    /// A job that the job comes after, by its position in `after`, from 0.
    Position(u32),
    /// The job that asked for this sub-job.
    Parent(Parent),
}

/// The word for the parent in place of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Parent {
    /// `parent`.
    #[serde(rename = "parent")]
    Parent,
}

impl InputName {
    /// The parent.
    pub const PARENT: InputName = InputName::Parent(Parent::Parent);
}

impl std::fmt::Display for InputName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InputName::Position(at) => at.fmt(f),
            InputName::Parent(_) => f.write_str("parent"),
        }
    }
}

impl FromStr for InputName {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<InputName, FieldError> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            _ if text == "parent" => Ok(InputName::PARENT),
            Ok(at) if is_number => Ok(InputName::Position(at)),
            _ => {
                let shown: String = text.chars().take(40).collect();
                Err(FieldError(format!("{shown:?} is not an input: give a position from 0, or parent")))
            }
        }
    }
}

/// An input of an attempt, as it is now. A job that is `parent` still runs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Position in `after`, from 0; `parent` for the job that asked for this sub-job.
    pub n: InputName,
    /// Id of the job.
    pub job: u64,
    /// Type of the job; missing if the job was removed.
    #[serde(rename = "type")]
    pub job_type: Option<String>,
    /// Key of the job within its type.
    pub key: Option<String>,
    /// State of the job; `removed` if it was deleted after its end.
    pub state: String,
    /// Result of a job that succeeded.
    #[serde(default, with = "crate::format::document::optional")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub result: Option<Box<RawValue>>,
    /// Whether there is a result that is omitted because of its size: read this input alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
    /// Artifacts of its last attempt, by name, at most 1,000.
    pub artifacts: Vec<InputArtifact>,
    /// Whether there are more artifacts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_artifacts: bool,
}

/// An artifact of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputArtifact {
    /// Name of the artifact.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
}

impl Input {
    /// Omits the result unless it fits into what is left of the bound on results, and counts it.
    #[must_use]
    pub fn within(mut self, left: &mut usize) -> Input {
        let bytes = self.result.as_ref().map_or(0, |result| result.get().len());
        match left.checked_sub(bytes) {
            Some(rest) => *left = rest,
            None => (self.result, self.left_out) = (None, true),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ground_6_an_input_is_a_position_or_the_parent() {
        assert_eq!("0".parse(), Ok(InputName::Position(0)));
        assert_eq!("parent".parse(), Ok(InputName::PARENT));
        for bad in ["", "-1", "+1", "Parent", "4294967296", "1.0"] {
            let error = bad.parse::<InputName>().unwrap_err();
            assert_eq!(error.0, format!("{bad:?} is not an input: give a position from 0, or parent"));
        }
        let both = [InputName::Position(7), InputName::PARENT];
        assert_eq!(serde_json::to_string(&both).unwrap(), r#"[7,"parent"]"#);
        assert_eq!(serde_json::from_str::<[InputName; 2]>(r#"[7,"parent"]"#).unwrap(), both);
        assert!(serde_json::from_str::<InputName>(r#""other""#).is_err());
    }

    #[test]
    fn ground_6_results_beyond_the_bound_are_left_out() {
        let text = r#"{"n":0,"job":17,"type":"split","key":null,"state":"succeeded","result":[1,2],"artifacts":[{"name":"a","size":3}]}"#;
        let input: Input = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&input).unwrap(), text);
        let mut left = 7;
        assert!(!input.clone().within(&mut left).left_out);
        assert_eq!(left, 2);
        let second = input.within(&mut left);
        assert_eq!((second.result.is_none(), second.left_out, left), (true, true, 2));
    }
}
