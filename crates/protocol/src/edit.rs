//! Changing a job that no worker has.

use jobhall_core as core;
use jobhall_core::needs::{Needs, Uses};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::submit::{FieldError, Retry, tags, wrong};
use crate::timestamp::Timestamp;

/// What is to change of a job; what is missing stays as it is. Type, key and queue never change.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditJob {
    /// What the worker gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
    /// Which workers suit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// What it takes of its worker's numbers while it runs, such as `gpu=1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<String>,
    /// Whether another worker is preferred to those that had it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid: Option<bool>,
    /// When on a day it may start; an empty text: at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<String>,
    /// Lower goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Not before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// When attempts are repeated; what is missing in it stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What it weighs against limits; 0 is exempt from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_factor: Option<u32>,
    /// How long an attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<EditTimeouts>,
    /// Whose it is; null: nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub owner: Option<Option<String>>,
    /// What it is found by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
}

/// How long an attempt may take; what is missing is as the type says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditTimeouts {
    /// From its acceptance to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_ms: Option<u64>,
    /// Without any output or progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
}

/// What is given, even if it is null: only what is missing is none.
#[expect(clippy::option_option, reason = "missing, null and a name are three things")]
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl EditJob {
    /// Whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        serde_json::to_string(self).is_ok_and(|text| text == "{}")
    }

    /// The checked params.
    pub fn checked_params(&self) -> Result<Option<core::Json>, FieldError> {
        self.params.as_ref().map(|params| core::Json::params(params.get())).transpose().map_err(wrong)
    }

    /// The checked needs.
    pub fn checked_needs(&self) -> Result<Option<Needs>, FieldError> {
        let needs = self.needs.as_deref().map(Needs::parse).transpose();
        needs.map_err(|error| FieldError(format!("needs: {error}")))
    }

    /// The checked uses.
    pub fn checked_uses(&self) -> Result<Option<Uses>, FieldError> {
        let uses = self.uses.as_deref().map(Uses::parse).transpose();
        uses.map_err(|error| FieldError(format!("uses: {error}")))
    }

    /// The checked windows.
    pub fn checked_windows(&self) -> Result<Option<core::Windows>, FieldError> {
        let windows = self.windows.as_deref().map(core::Windows::parse).transpose();
        windows.map_err(|error| FieldError(format!("windows: {error}")))
    }

    /// The checked owner.
    pub fn checked_owner(&self) -> Result<Option<Option<core::Owner>>, FieldError> {
        let owner = self.owner.as_ref().map(|owner| owner.as_deref().map(core::Owner::new).transpose());
        owner.transpose().map_err(wrong)
    }

    /// The checked tags.
    pub fn checked_tags(&self) -> Result<Option<Vec<core::Tag>>, FieldError> {
        self.tags.as_deref().map(tags).transpose()
    }

    /// The time-outs.
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
