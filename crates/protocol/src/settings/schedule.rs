//! Schedules: jobs that are submitted periodically.

use jobhall_core as core;
use jobhall_core::schedule::{CatchUp, Overlap};
use schemars::{JsonSchema, Schema as JsonShape, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::Span;
use crate::format::timestamp::Timestamp;
use crate::job::schema;
use crate::job::submit::{FieldError, SubmitJob};

/// A schedule.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// Name of the schedule.
    pub name: String,
    /// Cron expression; none if the schedule has an interval.
    pub cron: Option<String>,
    /// Interval between ticks; none if the schedule has a cron expression.
    pub every: Option<Span>,
    /// A tick from which intervals are counted.
    pub anchor: Option<Timestamp>,
    /// Time zone of the cron expression.
    pub zone: String,
    /// Maximum random delay of a job after its tick.
    pub jitter: Span,
    /// Handling of missed ticks: `none`, `one` or `all`.
    #[schemars(schema_with = "catch_ups")]
    pub catch_up: CatchUp,
    /// Handling of a tick while the previous job is not completed: `skip` or `allow`.
    #[schemars(schema_with = "overlaps")]
    pub overlap: Overlap,
    /// Whether the schedule is paused: ticks submit no jobs.
    pub paused: bool,
    /// The job that each tick submits.
    pub job: SubmitJob,
    /// The last tick with a job.
    pub last_tick: Option<Timestamp>,
    /// The job of that tick.
    pub last_job: Option<u64>,
    /// The next tick; none while the schedule is paused.
    pub next_tick: Option<Timestamp>,
}

/// Creates or changes a schedule; missing fields are unchanged. A new schedule requires `cron` or `every`, and `job`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = schema::set_schedule)]
pub struct SetSchedule {
    /// Cron expression with five fields, or a name such as `@daily`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Cron>")]
    pub cron: Option<String>,
    /// Interval between ticks, instead of a cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Interval>")]
    pub every: Option<Span>,
    /// A tick from which intervals are counted; 1970 if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Timestamp>,
    /// Time zone of the cron expression, such as `Europe/Berlin`; `UTC` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Zone>")]
    pub zone: Option<String>,
    /// Maximum random delay of a job after its tick; none if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Delay>")]
    pub jitter: Option<Span>,
    /// Handling of missed ticks; `one` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "catch_ups")]
    pub catch_up: Option<CatchUp>,
    /// Handling of a tick while the previous job is not completed; `skip` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "overlaps")]
    pub overlap: Option<Overlap>,
    /// Whether the schedule is paused: ticks submit no jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The job that each tick submits, as in a submit request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<SubmitJob>,
}

/// A future tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tick {
    /// Time of the tick.
    pub tick: Timestamp,
    /// When its job starts: the tick plus the random delay.
    pub run_at: Timestamp,
}

/// The names of the core type, which does not depend on the wire.
fn catch_ups(_: &mut SchemaGenerator) -> JsonShape {
    json_schema!({ "type": ["string", "null"], "enum": ["none", "one", "all", null] })
}

fn overlaps(_: &mut SchemaGenerator) -> JsonShape {
    json_schema!({ "type": ["string", "null"], "enum": ["skip", "allow", null] })
}

impl SetSchedule {
    /// The schedule with these changes applied.
    ///
    /// # Errors
    /// The invalid field, and why.
    pub fn over(&self, before: Option<&core::Schedule>) -> Result<core::Schedule, FieldError> {
        let zone = match &self.zone {
            Some(zone) => core::Zone::new(zone).map_err(|error| FieldError(format!("zone: {error}")))?,
            None => before.map(|before| before.zone.clone()).unwrap_or_default(),
        };
        Ok(core::Schedule {
            when: self.rhythm(before.map(|before| &before.when))?,
            zone,
            jitter_ms: self.jitter.map_or_else(|| before.map_or(0, |before| before.jitter_ms), |span| span.0),
            catch_up: self.catch_up.or(before.map(|before| before.catch_up)).unwrap_or_default(),
            overlap: self.overlap.or(before.map(|before| before.overlap)).unwrap_or_default(),
            paused: self.paused.or(before.map(|before| before.paused)).unwrap_or_default(),
        })
    }

    /// Validates the given fields alone, without the existing schedule.
    ///
    /// # Errors
    /// The invalid field, and why.
    pub fn checked(&self) -> Result<(), FieldError> {
        let any = core::Schedule {
            when: core::Rhythm::Every { ms: core::bounds::EVERY_MS, anchor: core::Time::EPOCH },
            zone: core::Zone::default(),
            jitter_ms: 0,
            catch_up: CatchUp::default(),
            overlap: Overlap::default(),
            paused: false,
        };
        self.over(Some(&any))?.check().map_err(|error| FieldError(error.to_string()))
    }

    fn rhythm(&self, before: Option<&core::Rhythm>) -> Result<core::Rhythm, FieldError> {
        let anchored = match before {
            Some(core::Rhythm::Every { ms, anchor }) => Some((*ms, *anchor)),
            _ => None,
        };
        match (&self.cron, self.every) {
            (Some(_), Some(_)) => Err(FieldError("a schedule has either cron or every, not both".to_owned())),
            (Some(_), None) if self.anchor.is_some() => {
                Err(FieldError("anchor belongs to every; a cron expression has none".to_owned()))
            }
            (Some(line), None) => {
                let cron = core::Cron::parse(line).map_err(|error| FieldError(format!("cron: {error}")))?;
                Ok(core::Rhythm::Cron(cron))
            }
            (None, Some(span)) => {
                let anchor = self.anchor.map(|at| at.0).or(anchored.map(|(_, anchor)| anchor));
                Ok(core::Rhythm::Every { ms: span.0, anchor: anchor.unwrap_or(core::Time::EPOCH) })
            }
            (None, None) => match (anchored, self.anchor, before) {
                (Some((ms, _)), Some(at), _) => Ok(core::Rhythm::Every { ms, anchor: at.0 }),
                (None, Some(_), _) => Err(FieldError("anchor belongs to every, which is missing".to_owned())),
                (_, None, Some(before)) => Ok(before.clone()),
                (_, None, None) => Err(FieldError("a new schedule needs cron or every".to_owned())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> SetSchedule {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_missing_stays_as_it_is() {
        let first = set(r#"{"cron":"0 3 * * *","zone":"europe/berlin","jitter":"5m","catch_up":"all"}"#);
        let first = first.over(None).unwrap();
        assert_eq!(set("{}").over(Some(&first)), Ok(first.clone()));
        let paused = set(r#"{"paused":true}"#).over(Some(&first)).unwrap();
        assert_eq!(paused, core::Schedule { paused: true, ..first.clone() });
        let every = set(r#"{"every":"90m","anchor":"2026-01-01T00:10:00Z"}"#).over(Some(&first)).unwrap();
        let anchor = core::Time::from_ms(1_767_226_200_000).unwrap();
        assert_eq!(every.when, core::Rhythm::Every { ms: 5_400_000, anchor });
        assert_eq!((every.zone, every.jitter_ms), (first.zone, 300_000));
        let slower =
            set(r#"{"every":"2h"}"#).over(Some(&core::Schedule { zone: core::Zone::default(), ..every }));
        assert_eq!(slower.unwrap().when, core::Rhythm::Every { ms: 7_200_000, anchor });
    }

    #[test]
    fn what_is_wrong_names_the_field() {
        for (text, message) in [
            ("{}", "a new schedule needs cron or every"),
            (r#"{"cron":"@daily","every":"1h"}"#, "a schedule has either cron or every, not both"),
            (r#"{"cron":"@daily","anchor":"2026-01-01T00:00:00Z"}"#, "anchor belongs to every"),
            (r#"{"anchor":"2026-01-01T00:00:00Z"}"#, "anchor belongs to every, which is missing"),
            (r#"{"cron":"61 * * * *"}"#, "cron: \"61\" is not a valid minute at column 1"),
            (
                r#"{"every":"1h","zone":"Berlin"}"#,
                "zone: \"Berlin\" is not a time zone; did you mean Europe/Berlin?",
            ),
        ] {
            let error = set(text).over(None).unwrap_err();
            assert!(error.0.starts_with(message), "{text}: {error}");
        }
        let error = serde_json::from_str::<SetSchedule>(r#"{"crn":"@daily"}"#).unwrap_err();
        assert!(error.to_string().starts_with("unknown field `crn`"), "{error}");
        assert!(serde_json::from_str::<SetSchedule>(r#"{"overlap":"queue"}"#).is_err());
    }
}
