//! Submitting jobs.

use jobhall_core as core;
use jobhall_core::needs::{Needs, Uses};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::after::After;
use crate::span::Span;
use crate::timestamp::Timestamp;

/// Handling of a live job with the same type and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// Returns the live job.
    #[default]
    Join,
    /// Refuses the submit.
    Reject,
    /// Cancels the live job; the new job waits as its successor.
    Supersede,
    /// Runs once more after the live job has ended.
    RunAgain,
}

/// Retry policy; missing fields have the values of the type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Maximum number of attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u16>,
    /// Growth of the delay: `constant`, `linear` or `exponential`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffKind>,
    /// First delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Maximum delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Span>,
    /// Outcomes that are retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "outcomes")]
    pub on: Option<Vec<core::Outcome>>,
}

/// The outcomes of the core type, which does not depend on the wire.
fn outcomes(_: &mut SchemaGenerator) -> Schema {
    let names = core::Outcome::ALL.map(core::Outcome::as_str);
    json_schema!({ "type": ["array", "null"], "items": { "type": "string", "enum": names } })
}

/// Growth of the delay between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackoffKind {
    /// The delay is constant.
    Constant,
    /// The delay grows by the first delay each time.
    Linear,
    /// The delay doubles each time.
    Exponential,
}

impl Retry {
    /// The policy with these values applied to the type's.
    pub fn over(&self, base: core::RetryPolicy) -> core::RetryPolicy {
        let (kind, ms, cap_ms) = match base.backoff {
            core::Backoff::Constant { ms } => (BackoffKind::Constant, ms, ms),
            core::Backoff::Linear { ms, cap_ms } => (BackoffKind::Linear, ms, cap_ms),
            core::Backoff::Exponential { ms, cap_ms } => (BackoffKind::Exponential, ms, cap_ms),
        };
        let ms = self.delay.map_or(ms, |span| span.0);
        let cap_ms = self.max_delay.map_or(cap_ms, |span| span.0).max(ms);
        let backoff = match self.backoff.unwrap_or(kind) {
            BackoffKind::Constant => core::Backoff::Constant { ms },
            BackoffKind::Linear => core::Backoff::Linear { ms, cap_ms },
            BackoffKind::Exponential => core::Backoff::Exponential { ms, cap_ms },
        };
        let on = self.on.as_ref().map_or(base.on, |on| core::OutcomeSet::of(on));
        core::RetryPolicy { max_attempts: self.max_attempts.unwrap_or(base.max_attempts), backoff, on }
    }
}

/// Reuses a recent success instead of running a new job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reuse {
    /// Maximum age of the success.
    pub max_age: Span,
}

/// Time limits of an attempt; missing fields have the values of the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// From acceptance to the end, not counting waits for other jobs; one day by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Span>,
    /// Without output or progress; unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence: Option<Span>,
}

impl From<Timeouts> for core::Timeouts {
    fn from(given: Timeouts) -> core::Timeouts {
        let ms = |span: Option<Span>| span.map(|span| span.0);
        core::Timeouts { total_ms: ms(given.total), silence_ms: ms(given.silence) }
    }
}

impl From<core::Timeouts> for Timeouts {
    fn from(known: core::Timeouts) -> Timeouts {
        Timeouts { total: known.total_ms.map(Span), silence: known.silence_ms.map(Span) }
    }
}

/// A job to submit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitJob {
    /// Type of the job.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Key of the job within its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Queue name; `default` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Input for the worker; `{}` if missing.
    #[serde(default, with = "crate::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub params: Option<Box<RawValue>>,
    /// Requirements on the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// Resources of the worker that the job uses while it runs, such as `gpu=1, mem_gb=8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<String>,
    /// Whether retries prefer a matching worker that has not had the job before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub avoid: bool,
    /// Daily windows in which the job may start, such as `22:00-06:00 Europe/Berlin`; any time if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<String>,
    /// Priority; lower values start first; 100 if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Earliest start time; now if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// Retry policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Weight against limits; 1 if missing, 0 exempts the job from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_factor: Option<u32>,
    /// Time limits of an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// Handling of a live job with the same type and key.
    #[serde(default)]
    pub on_duplicate: OnDuplicate,
    /// Whether a recent success may be returned instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// Jobs that must end before this one starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
    /// Whether the jobs in `after` may end with any outcome; otherwise, if one of them fails or is cancelled, this job
    /// ends the same way.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_any: bool,
    /// Group of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// Whether the job belongs to its group without being counted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub attached: bool,
    /// The job of the same group that this one is a copy of: both are one member, and the first success decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<u64>,
    /// Owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Tags for filtering.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// An invalid field, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldError(pub String);

pub(crate) fn wrong(error: impl std::fmt::Display) -> FieldError {
    FieldError(error.to_string())
}

/// Validates tags.
pub(crate) fn tags(tags: &[String]) -> Result<Vec<core::Tag>, FieldError> {
    tags.iter().map(|tag| core::Tag::new(tag)).collect::<Result<_, _>>().map_err(wrong)
}

impl SubmitJob {
    /// The validated time limits of attempts.
    ///
    /// # Errors
    /// A duration exceeds its limit.
    pub fn checked_timeouts(&self) -> Result<core::Timeouts, FieldError> {
        let timeouts = core::Timeouts::from(self.timeouts.unwrap_or_default());
        timeouts.check().map_err(wrong)?;
        Ok(timeouts)
    }

    /// A job of this type, with all other fields missing.
    pub fn new(job_type: &str) -> SubmitJob {
        SubmitJob {
            job_type: job_type.to_owned(),
            key: None,
            queue: None,
            params: None,
            needs: None,
            uses: None,
            avoid: false,
            windows: None,
            priority: None,
            run_at: None,
            retry: None,
            throttle_factor: None,
            timeouts: None,
            on_duplicate: OnDuplicate::Join,
            reuse: None,
            after: Vec::new(),
            after_any: false,
            group: None,
            attached: false,
            copy_of: None,
            owner: None,
            tags: Vec::new(),
        }
    }

    /// The validated type.
    pub fn checked_type(&self) -> Result<core::TypeName, FieldError> {
        core::TypeName::new(&self.job_type).map_err(wrong)
    }

    /// The validated key.
    pub fn checked_key(&self) -> Result<Option<core::Key>, FieldError> {
        self.key.as_deref().map(core::Key::new).transpose().map_err(wrong)
    }

    /// The validated queue.
    pub fn checked_queue(&self) -> Result<core::QueueName, FieldError> {
        core::QueueName::new(self.queue.as_deref().unwrap_or("default")).map_err(wrong)
    }

    /// The validated params.
    pub fn checked_params(&self) -> Result<core::Json, FieldError> {
        match &self.params {
            Some(params) => core::Json::params(params.get()).map_err(wrong),
            None => Ok(core::Json::empty_object()),
        }
    }

    /// The validated group.
    pub fn checked_group(&self) -> Result<Option<core::GroupId>, FieldError> {
        let wrong = |error| FieldError(format!("group: {error}"));
        self.group.map(core::GroupId::new).transpose().map_err(wrong)
    }

    /// The validated job that this one is a copy of.
    pub fn checked_copy_of(&self) -> Result<Option<core::JobId>, FieldError> {
        let wrong = |error| FieldError(format!("copy_of: {error}"));
        self.copy_of.map(core::JobId::new).transpose().map_err(wrong)
    }

    /// The validated owner.
    pub fn checked_owner(&self) -> Result<Option<core::Owner>, FieldError> {
        self.owner.as_deref().map(core::Owner::new).transpose().map_err(wrong)
    }

    /// The validated tags.
    pub fn checked_tags(&self) -> Result<Vec<core::Tag>, FieldError> {
        tags(&self.tags)
    }

    /// The validated requirements.
    pub fn checked_needs(&self) -> Result<Needs, FieldError> {
        let text = self.needs.as_deref().unwrap_or("");
        Needs::parse(text).map_err(|error| FieldError(format!("needs: {error}")))
    }

    /// The validated resources.
    pub fn checked_uses(&self) -> Result<Uses, FieldError> {
        let text = self.uses.as_deref().unwrap_or("");
        Uses::parse(text).map_err(|error| FieldError(format!("uses: {error}")))
    }

    /// The validated windows.
    pub fn checked_windows(&self) -> Result<core::Windows, FieldError> {
        let text = self.windows.as_deref().unwrap_or("");
        core::Windows::parse(text).map_err(|error| FieldError(format!("windows: {error}")))
    }
}

/// The response to one submitted job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// Id of the new or existing job.
    pub id: u64,
    /// `created`, `joined`, `reused`, `superseding` or `again`.
    pub disposition: String,
}
