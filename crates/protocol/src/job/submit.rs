//! Submitting jobs.

use jobhall_core as core;
use jobhall_core::bounds::{AFTER, MAX_ATTEMPTS, TAGS, THROTTLE_FACTOR};
use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{NewJob, OnDuplicate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Span;
use crate::format::timestamp::Timestamp;
use crate::job::after::After;
use crate::job::core_schema::OnDuplicateSchema;
use crate::job::schema;

/// Retry policy; missing fields have the values of the type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Maximum number of attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_ATTEMPTS))]
    pub max_attempts: Option<u16>,
    /// Growth of the delay: `constant`, `linear` or `exponential`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffKind>,
    /// First delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Delay>")]
    pub delay: Option<Span>,
    /// Maximum delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Delay>")]
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
        let max_attempts = self.max_attempts.unwrap_or(base.max_attempts);
        core::RetryPolicy { max_attempts, backoff, on, ..base }
    }
}

impl From<core::RetryPolicy> for Retry {
    fn from(policy: core::RetryPolicy) -> Retry {
        let (backoff, delay, max_delay) = match policy.backoff {
            core::Backoff::Constant { ms } => (BackoffKind::Constant, ms, None),
            core::Backoff::Linear { ms, cap_ms } => (BackoffKind::Linear, ms, Some(cap_ms)),
            core::Backoff::Exponential { ms, cap_ms } => (BackoffKind::Exponential, ms, Some(cap_ms)),
        };
        let on = core::Outcome::ALL.into_iter().filter(|outcome| policy.on.contains(*outcome)).collect();
        Retry {
            max_attempts: Some(policy.max_attempts),
            backoff: Some(backoff),
            delay: Some(Span(delay)),
            max_delay: max_delay.map(Span),
            on: Some(on),
        }
    }
}

/// Which success of the same key is returned instead of running a new job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// One of at most this age.
    MaxAge(#[schemars(with = "schema::Delay")] Span),
    /// One with a higher id than this job.
    Above(#[schemars(with = "schema::JobId")] u64),
}

/// Time limits of an attempt; missing fields have the values of the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// From acceptance to the end, not counting waits for other jobs; one day by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::TimeLimit>")]
    pub total: Option<Span>,
    /// Without output or progress; unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::TimeLimit>")]
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
#[schemars(transform = schema::submit_job)]
pub struct SubmitJob {
    /// Type of the job.
    #[serde(rename = "type")]
    #[schemars(with = "schema::Name")]
    pub job_type: String,
    /// Key of the job within its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Key>")]
    pub key: Option<String>,
    /// Queue name; `default` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Name>")]
    pub queue: Option<String>,
    /// Input for the worker; `{}` if missing.
    #[serde(default, with = "crate::format::document::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Box<RawValue>>")]
    pub params: Option<Box<RawValue>>,
    /// Requirements on the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Needs>")]
    pub needs: Option<String>,
    /// Resources of the worker that the job uses while it runs, such as `gpu=1, mem_gb=8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Uses>")]
    pub uses: Option<String>,
    /// Whether retries prefer a matching worker that has not had the job before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub avoid: bool,
    /// Daily windows in which the job may start, such as `22:00-06:00 Europe/Berlin`; any time if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Windows>")]
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
    /// Whether the job is never started a second time: `max_attempts` is 1, a retry or snooze that its worker asks for is
    /// not granted, and if its worker is lost after the accept, it ends `crashed` with the reason `at_most_once`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub at_most_once: bool,
    /// Weight against limits; 1 if missing, 0 exempts the job from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = THROTTLE_FACTOR))]
    pub throttle_factor: Option<u32>,
    /// Time limits of an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// Handling of a live job with the same type and key.
    #[serde(default)]
    #[schemars(with = "OnDuplicateSchema")]
    pub on_duplicate: OnDuplicate,
    /// Whether a recent success may be returned instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// Jobs that must end before this one starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = AFTER))]
    pub after: Vec<After>,
    /// Whether the jobs in `after` may end with any outcome; otherwise, if one of them fails or is cancelled, this job
    /// ends the same way.
    #[serde(default, skip_serializing_if = "is_false")]
    pub after_any: bool,
    /// Group of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::JobId>")]
    pub group: Option<u64>,
    /// Whether the job belongs to its group without being counted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub attached: bool,
    /// The job of the same group that this one is a copy of: both are one member, and the first success decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::JobId>")]
    pub copy_of: Option<u64>,
    /// Owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Owner>")]
    pub owner: Option<String>,
    /// Tags for filtering.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::Tag>", length(max = TAGS))]
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
            at_most_once: false,
            throttle_factor: None,
            timeouts: None,
            on_duplicate: OnDuplicate::default(),
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
}

/// Validates a job. Missing fields of its retry policy have the defaults of the type: the settings of types are known
/// to the server only.
impl TryFrom<&SubmitJob> for NewJob {
    type Error = FieldError;

    fn try_from(job: &SubmitJob) -> Result<NewJob, FieldError> {
        let new = NewJob::new(core::TypeName::new(&job.job_type).map_err(wrong)?);
        let retry = retry(job, core::TypeConfig::shared(&new.job_type).retry)?;
        Ok(NewJob {
            key: job.key.as_deref().map(core::Key::new).transpose().map_err(wrong)?,
            queue: job.queue.as_deref().map_or(Ok(new.queue), core::QueueName::new).map_err(wrong)?,
            params: job
                .params
                .as_deref()
                .map_or(Ok(new.params), |params| core::Json::params(params.get()))
                .map_err(wrong)?,
            needs: field("needs", Needs::parse(job.needs.as_deref().unwrap_or("")))?,
            uses: field("uses", Uses::parse(job.uses.as_deref().unwrap_or("")))?,
            avoid: job.avoid,
            windows: field("windows", core::Windows::parse(job.windows.as_deref().unwrap_or("")))?,
            priority: job.priority.unwrap_or(new.priority),
            run_at: job.run_at.map(|at| at.0),
            retry,
            throttle_factor: job.throttle_factor.unwrap_or(new.throttle_factor),
            timeouts: timeouts(job.timeouts)?,
            on_duplicate: job.on_duplicate,
            reuse: job.reuse.map(reuse).transpose()?,
            after: job.after.iter().map(|&after| after.try_into()).collect::<Result<_, _>>()?,
            after_any: job.after_any,
            group: field("group", job.group.map(core::GroupId::new).transpose())?,
            attached: job.attached,
            copy_of: field("copy_of", job.copy_of.map(core::JobId::new).transpose())?,
            owner: job.owner.as_deref().map(core::Owner::new).transpose().map_err(wrong)?,
            tags: tags(&job.tags)?,
            scope: new.scope,
            retry_of: new.retry_of,
            schedule: new.schedule,
            job_type: new.job_type,
        })
    }
}

fn reuse(reuse: Reuse) -> Result<core::Reuse, FieldError> {
    Ok(match reuse {
        Reuse::MaxAge(span) => core::Reuse::MaxAge(span.0),
        Reuse::Above(0) => core::Reuse::Any,
        Reuse::Above(id) => core::Reuse::Above(field("reuse above", core::JobId::new(id))?),
    })
}

impl From<core::Reuse> for Reuse {
    fn from(reuse: core::Reuse) -> Reuse {
        match reuse {
            core::Reuse::MaxAge(ms) => Reuse::MaxAge(Span(ms)),
            core::Reuse::Any => Reuse::Above(0),
            core::Reuse::Above(id) => Reuse::Above(id.get()),
        }
    }
}

/// The job of a schedule in the form of a submit; texts with default values are omitted. The fields that the job of a
/// schedule cannot have are missing.
impl TryFrom<&NewJob> for SubmitJob {
    type Error = serde_json::Error;

    fn try_from(job: &NewJob) -> Result<SubmitJob, serde_json::Error> {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        // Every field is listed, so that a new field cannot be forgotten.
        Ok(SubmitJob {
            job_type: job.job_type.to_string(),
            key: job.key.as_ref().map(ToString::to_string),
            queue: Some(job.queue.to_string()),
            params: Some(RawValue::from_string(job.params.as_str().to_owned())?),
            needs: text(job.needs.as_str()),
            uses: text(job.uses.as_str()),
            avoid: job.avoid,
            windows: text(job.windows.as_str()),
            priority: Some(job.priority),
            retry: job.retry.map(Retry::from),
            at_most_once: job.retry.is_some_and(|retry| retry.at_most_once),
            throttle_factor: Some(job.throttle_factor),
            timeouts: Some(job.timeouts.into()).filter(|timeouts| *timeouts != Timeouts::default()),
            on_duplicate: job.on_duplicate,
            reuse: job.reuse.map(Reuse::from),
            owner: job.owner.as_ref().map(ToString::to_string),
            tags: job.tags.iter().map(ToString::to_string).collect(),
            run_at: None,
            after: Vec::new(),
            after_any: false,
            group: None,
            attached: false,
            copy_of: None,
        })
    }
}

/// The retry policy of a job, over that of its type; none if the job has no wish.
fn retry(job: &SubmitJob, base: core::RetryPolicy) -> Result<Option<core::RetryPolicy>, FieldError> {
    if !job.at_most_once {
        return Ok(job.retry.as_ref().map(|retry| retry.over(base)));
    }
    let once = job.retry.clone().unwrap_or_default().over(base.at_most_once());
    once.check().map_err(wrong)?;
    Ok(Some(once))
}

fn field<T, E: std::fmt::Display>(name: &str, value: Result<T, E>) -> Result<T, FieldError> {
    value.map_err(|error| FieldError(format!("{name}: {error}")))
}

fn timeouts(given: Option<Timeouts>) -> Result<core::Timeouts, FieldError> {
    let timeouts = core::Timeouts::from(given.unwrap_or_default());
    timeouts.check().map_err(wrong)?;
    Ok(timeouts)
}

/// The response to one submitted job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// Id of the new or existing job.
    pub id: u64,
    /// `created`, `joined`, `reused`, `superseding` or `again`.
    pub disposition: String,
    /// Whether the joined job has other params, compared as JSON values: those of this request were not submitted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub params_differ: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NewJob, FieldError> {
        NewJob::try_from(&serde_json::from_str::<SubmitJob>(text).unwrap())
    }

    #[test]
    fn a_job_with_missing_fields_has_the_defaults() {
        let new = NewJob::new(core::TypeName::new("t").unwrap());
        assert_eq!(read(r#"{"type":"t"}"#), Ok(new.clone()));
        assert_eq!(NewJob::try_from(&SubmitJob::new("t")), Ok(new));
    }

    #[test]
    fn an_invalid_field_is_named() {
        let wrong = [
            (r#"{"type":""}"#, "type is empty"),
            (r#"{"type":"t","key":""}"#, "key is empty"),
            (r#"{"type":"t","queue":"a b"}"#, "queue has the character ' '"),
            (r#"{"type":"t","needs":"gpu>"}"#, "needs: "),
            (r#"{"type":"t","uses":"gpu"}"#, "uses: "),
            (r#"{"type":"t","windows":"25:00"}"#, "windows: "),
            (r#"{"type":"t","after":[0]}"#, "after: "),
            (r#"{"type":"t","group":0}"#, "group: "),
            (r#"{"type":"t","copy_of":0}"#, "copy_of: "),
            (r#"{"type":"t","owner":""}"#, "owner is empty"),
            (r#"{"type":"t","tags":["a b"]}"#, "tag has the character ' '"),
            (
                r#"{"type":"t","at_most_once":true,"retry":{"max_attempts":3}}"#,
                "max_attempts of 3 contradicts at_most_once",
            ),
        ];
        for (text, expected) in wrong {
            let error = read(text).unwrap_err().0;
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_partial_retry_policy_is_completed_with_that_of_the_type() {
        let base = core::TypeConfig::of(&core::TypeName::new("t").unwrap()).retry;
        let retry = read(r#"{"type":"t","retry":{"max_attempts":2}}"#).unwrap().retry;
        assert_eq!(retry, Some(core::RetryPolicy { max_attempts: 2, ..base }));
    }

    #[test]
    fn a_job_that_runs_at_most_once_has_one_attempt() {
        let base = core::TypeConfig::of(&core::TypeName::new("t").unwrap()).retry;
        for text in [
            r#"{"type":"t","at_most_once":true}"#,
            r#"{"type":"t","at_most_once":true,"retry":{"max_attempts":1}}"#,
        ] {
            let new = read(text).unwrap();
            assert_eq!(new.retry, Some(base.at_most_once()), "{text}");
            let shown = SubmitJob::try_from(&new).unwrap();
            assert!(shown.at_most_once);
            assert_eq!(NewJob::try_from(&shown), Ok(new));
        }
    }

    #[test]
    fn ground_4_reuse_is_an_age_or_a_job() {
        let reuse = |reuse: &str| read(&format!(r#"{{"type":"t","key":"k","reuse":{reuse}}}"#));
        let above = reuse(r#"{"above":17}"#).unwrap();
        assert_eq!(above.reuse, Some(core::Reuse::Above(core::JobId::new(17).unwrap())));
        let shown = SubmitJob::try_from(&above).unwrap();
        assert_eq!(serde_json::to_value(shown.reuse).unwrap(), serde_json::json!({"above": 17}));
        assert_eq!(NewJob::try_from(&shown), Ok(above));
        assert_eq!(reuse(r#"{"max_age":"1m"}"#).unwrap().reuse, Some(core::Reuse::MaxAge(60_000)));
        let any = reuse(r#"{"above":0}"#).unwrap();
        assert_eq!(any.reuse, Some(core::Reuse::Any), "every id is higher");
        assert_eq!(NewJob::try_from(&SubmitJob::try_from(&any).unwrap()), Ok(any));
        for wrong in [r#"{"above":17,"max_age":"1m"}"#, r#"{"below":17}"#, "{}", "17"] {
            assert!(serde_json::from_str::<Reuse>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_job_of_a_schedule_is_the_same_after_both_conversions() {
        let text = r#"{"type":"t","key":"k","queue":"q","params":{"a": 1},"needs":"os=linux","uses":"gpu=1",
            "avoid":true,"windows":"22:00-06:00","priority":7,"retry":{"max_attempts":2,"backoff":"linear"},
            "throttle_factor":3,"timeouts":{"total":"1h"},"on_duplicate":"run_again","reuse":{"max_age":"1m"},
            "owner":"ann","tags":["a"]}"#;
        let new = read(text).unwrap();
        let shown = SubmitJob::try_from(&new).unwrap();
        assert_eq!(NewJob::try_from(&shown), Ok(new));
        let related = r#"{"type":"t","run_at":"2026-11-16T00:00:00Z","after":[1,2],"after_any":true,"group":2,
            "attached":true,"copy_of":3}"#;
        let new = read(related).unwrap();
        assert_eq!(new.after.len(), 2);
        let shown = SubmitJob::try_from(&new).unwrap();
        assert_eq!(NewJob::try_from(&shown), Ok(NewJob::new(new.job_type)));
    }
}
