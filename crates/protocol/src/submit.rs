//! Submitting jobs.

use jobhall_core as core;
use jobhall_core::needs::{Needs, Uses};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::after::After;
use crate::span::Span;
use crate::timestamp::Timestamp;

/// What to do about a live job of the same type and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// Answer with that job.
    #[default]
    Join,
    /// Refuse.
    Reject,
    /// Cancel that job and wait as its successor.
    Supersede,
    /// Run once more when that job has ended.
    RunAgain,
}

/// When attempts are repeated; what is missing is the type's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts that may count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u16>,
    /// The pause grows like this: `constant`, `linear` or `exponential`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffKind>,
    /// The first pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// The longest pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_delay: Option<Span>,
    /// Outcomes that are tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "outcomes")]
    pub on: Option<Vec<core::Outcome>>,
}

/// The rules' own outcomes, which know nothing of the wire.
fn outcomes(_: &mut SchemaGenerator) -> Schema {
    let names = core::Outcome::ALL.map(core::Outcome::as_str);
    json_schema!({ "type": ["array", "null"], "items": { "type": "string", "enum": names } })
}

/// How the pause grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackoffKind {
    /// Always the same.
    Constant,
    /// By itself each time.
    Linear,
    /// Twice as long each time.
    Exponential,
}

impl Retry {
    /// The whole policy, on top of the type's.
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

/// A success at most this old answers instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reuse {
    /// How old.
    pub max_age: Span,
}

/// How long an attempt may take; what is missing is as the type says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// From its acceptance to its end, while it does not wait for others; a day if nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Span>,
    /// Without any output or progress; for ever if nobody says.
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

/// One job to be made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitJob {
    /// What kind of work.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Names the work within its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where it stands in line; `default` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What the worker gets; `{}` if missing.
    #[serde(default, with = "crate::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub params: Option<Box<RawValue>>,
    /// Which workers suit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// What it takes of its worker's numbers while it runs, such as `gpu=1, mem_gb=8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<String>,
    /// Whether a retry rather goes to a worker that did not have it, while there is one that suits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub avoid: bool,
    /// When on a day it may start, such as `22:00-06:00 Europe/Berlin`; at any time if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<String>,
    /// Lower goes first; 100 if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Not before this moment; now if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// When attempts are repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What it weighs against limits; 1 if missing, 0 is exempt from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_factor: Option<u32>,
    /// How long an attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// What to do about a live job of the same type and key.
    #[serde(default)]
    pub on_duplicate: OnDuplicate,
    /// Whether a success answers instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// The jobs that must end before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
    /// Whether any end of those will do; otherwise one that fails or is cancelled takes it along.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_any: bool,
    /// The group it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// Whether it serves its group without being counted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub attached: bool,
    /// The job of the same group that it is a copy of: the two are one member, and the first success wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<u64>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What it is found by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldError(pub String);

pub(crate) fn wrong(error: impl std::fmt::Display) -> FieldError {
    FieldError(error.to_string())
}

/// Checked tags.
pub(crate) fn tags(tags: &[String]) -> Result<Vec<core::Tag>, FieldError> {
    tags.iter().map(|tag| core::Tag::new(tag)).collect::<Result<_, _>>().map_err(wrong)
}

impl SubmitJob {
    /// How long its attempts may take.
    ///
    /// # Errors
    /// A span is beyond its limit.
    pub fn checked_timeouts(&self) -> Result<core::Timeouts, FieldError> {
        let timeouts = core::Timeouts::from(self.timeouts.unwrap_or_default());
        timeouts.check().map_err(wrong)?;
        Ok(timeouts)
    }

    /// A job of this type, with everything else missing.
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

    /// The checked type.
    pub fn checked_type(&self) -> Result<core::TypeName, FieldError> {
        core::TypeName::new(&self.job_type).map_err(wrong)
    }

    /// The checked key.
    pub fn checked_key(&self) -> Result<Option<core::Key>, FieldError> {
        self.key.as_deref().map(core::Key::new).transpose().map_err(wrong)
    }

    /// The checked queue.
    pub fn checked_queue(&self) -> Result<core::QueueName, FieldError> {
        core::QueueName::new(self.queue.as_deref().unwrap_or("default")).map_err(wrong)
    }

    /// The checked params.
    pub fn checked_params(&self) -> Result<core::Json, FieldError> {
        match &self.params {
            Some(params) => core::Json::params(params.get()).map_err(wrong),
            None => Ok(core::Json::empty_object()),
        }
    }

    /// The checked group.
    pub fn checked_group(&self) -> Result<Option<core::GroupId>, FieldError> {
        let wrong = |error| FieldError(format!("group: {error}"));
        self.group.map(core::GroupId::new).transpose().map_err(wrong)
    }

    /// The checked job that it is a copy of.
    pub fn checked_copy_of(&self) -> Result<Option<core::JobId>, FieldError> {
        let wrong = |error| FieldError(format!("copy_of: {error}"));
        self.copy_of.map(core::JobId::new).transpose().map_err(wrong)
    }

    /// The checked owner.
    pub fn checked_owner(&self) -> Result<Option<core::Owner>, FieldError> {
        self.owner.as_deref().map(core::Owner::new).transpose().map_err(wrong)
    }

    /// The checked tags.
    pub fn checked_tags(&self) -> Result<Vec<core::Tag>, FieldError> {
        tags(&self.tags)
    }

    /// The checked needs.
    pub fn checked_needs(&self) -> Result<Needs, FieldError> {
        let text = self.needs.as_deref().unwrap_or("");
        Needs::parse(text).map_err(|error| FieldError(format!("needs: {error}")))
    }

    /// What it uses, checked.
    pub fn checked_uses(&self) -> Result<Uses, FieldError> {
        let text = self.uses.as_deref().unwrap_or("");
        Uses::parse(text).map_err(|error| FieldError(format!("uses: {error}")))
    }

    /// The checked windows.
    pub fn checked_windows(&self) -> Result<core::Windows, FieldError> {
        let text = self.windows.as_deref().unwrap_or("");
        core::Windows::parse(text).map_err(|error| FieldError(format!("windows: {error}")))
    }
}

/// The answer to one submitted job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// The job that answers for it.
    pub id: u64,
    /// `created`, `joined`, `reused`, `superseding` or `again`.
    pub disposition: String,
}
