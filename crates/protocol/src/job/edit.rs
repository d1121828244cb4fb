//! Changes of a job that is not assigned to a worker.

use jobhall_core as core;
use jobhall_core::bounds::{DELAY_MS, TAGS, THROTTLE_FACTOR};
use jobhall_core::needs::{Needs, Uses};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::format::timestamp::Timestamp;
use crate::job::schema;
use crate::job::submit::{FieldError, Retry, tags, wrong};

/// Changes of a job; missing fields are unchanged. Type, key and queue never change.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = schema::edit_job)]
pub struct EditJob {
    /// Input for the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
    /// Requirements on the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Needs>")]
    pub needs: Option<String>,
    /// Resources of the worker that the job uses while it runs, such as `gpu=1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Uses>")]
    pub uses: Option<String>,
    /// Whether retries prefer a worker that has not had the job before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid: Option<bool>,
    /// Daily windows in which the job may start; an empty text permits any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Windows>")]
    pub windows: Option<String>,
    /// Priority; lower values start first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Earliest start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// Retry policy; missing fields are unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Weight against limits; 0 exempts the job from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = THROTTLE_FACTOR))]
    pub throttle_factor: Option<u32>,
    /// Time limits of an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<EditTimeouts>,
    /// Owner; null removes the owner.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<schema::Owner>")]
    pub owner: Option<Option<String>>,
    /// Tags for filtering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<schema::Tag>>", length(max = TAGS))]
    pub tags: Option<Vec<String>>,
}

/// Time limits of an attempt; missing fields have the values of the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditTimeouts {
    /// From acceptance to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = DELAY_MS))]
    pub total_ms: Option<u64>,
    /// Without output or progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = DELAY_MS))]
    pub silence_ms: Option<u64>,
}

/// Any given value, including null; only a missing field is none.
#[expect(clippy::option_option, reason = "missing, null and a name are three things")]
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl EditJob {
    /// Whether no field is given.
    pub fn is_empty(&self) -> bool {
        serde_json::to_string(self).is_ok_and(|text| text == "{}")
    }

    /// The validated params.
    pub fn checked_params(&self) -> Result<Option<core::Json>, FieldError> {
        self.params.as_ref().map(|params| core::Json::params(params.get())).transpose().map_err(wrong)
    }

    /// The validated requirements.
    pub fn checked_needs(&self) -> Result<Option<Needs>, FieldError> {
        let needs = self.needs.as_deref().map(Needs::parse).transpose();
        needs.map_err(|error| FieldError(format!("needs: {error}")))
    }

    /// The validated resources.
    pub fn checked_uses(&self) -> Result<Option<Uses>, FieldError> {
        let uses = self.uses.as_deref().map(Uses::parse).transpose();
        uses.map_err(|error| FieldError(format!("uses: {error}")))
    }

    /// The validated windows.
    pub fn checked_windows(&self) -> Result<Option<core::Windows>, FieldError> {
        let windows = self.windows.as_deref().map(core::Windows::parse).transpose();
        windows.map_err(|error| FieldError(format!("windows: {error}")))
    }

    /// The validated owner.
    pub fn checked_owner(&self) -> Result<Option<Option<core::Owner>>, FieldError> {
        let owner = self.owner.as_ref().map(|owner| owner.as_deref().map(core::Owner::new).transpose());
        owner.transpose().map_err(wrong)
    }

    /// The validated tags.
    pub fn checked_tags(&self) -> Result<Option<Vec<core::Tag>>, FieldError> {
        self.tags.as_deref().map(tags).transpose()
    }

    /// The time limits.
    pub fn timeouts(&self) -> Option<core::Timeouts> {
        self.timeouts.map(|EditTimeouts { total_ms, silence_ms }| core::Timeouts { total_ms, silence_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_given_travels() {
        for text in ["{}", r#"{"owner":null}"#, r#"{"priority":3,"owner":"ann","tags":["a"]}"#] {
            let edit: EditJob = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&edit).unwrap(), text);
            assert_eq!(edit.is_empty(), text == "{}");
        }
        assert_eq!(serde_json::from_str::<EditJob>("{}").unwrap().checked_owner(), Ok(None));
        assert_eq!(
            serde_json::from_str::<EditJob>(r#"{"owner":null}"#).unwrap().checked_owner(),
            Ok(Some(None))
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = serde_json::from_str::<EditJob>(r#"{"queue":"q"}"#).unwrap_err().to_string();
        assert!(error.starts_with("unknown field `queue`"), "{error}");
        let edit: EditJob = serde_json::from_str(
            r#"{"needs":"gpu>","uses":"gpu","windows":"25:00-26:00","owner":"","tags":["a b"]}"#,
        )
        .unwrap();
        assert!(edit.checked_needs().unwrap_err().0.starts_with("needs: "));
        assert!(edit.checked_uses().unwrap_err().0.starts_with("uses: "));
        assert!(edit.checked_windows().unwrap_err().0.starts_with("windows: "));
        assert_eq!(edit.checked_owner().unwrap_err().0, "owner is empty");
        assert!(edit.checked_tags().unwrap_err().0.starts_with("tag has the character ' '"));
    }
}
