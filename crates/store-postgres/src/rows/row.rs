//! Jobs as rows: conversion to columns, and from a row. The conversion is lossless.

use std::sync::Arc;

use jobhall_core::{
    Again, Blocked, Failure, Indicator, Job, JobId, JobStatus, Json, Key, Lease, LeaseId, Leased, Outcome,
    PastAttempt, QueueName, State, StateName, StopRequest, StopWhy, Success, Time, TypeName, Unsuccessful,
    WaitFor, Waiting, WorkerName,
};
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::{PgError, damaged};
use crate::rows::spec;

/// The stored form of a pending stop.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredStop {
    pub(crate) at: i64,
    pub(crate) failure: Failure,
    /// Whether the timeout caused it; otherwise it was requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) timed_out: bool,
}

/// The stored form of a suspended attempt.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredWait {
    pub(crate) since: i64,
    /// None: it waits for jobs; otherwise for external work.
    pub(crate) until: Option<i64>,
}

/// An id as a column value.
pub(crate) fn number(id: JobId) -> i64 {
    id.get().cast_signed()
}

/// JSON for a column.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, PgError> {
    serde_json::to_string(value).map_err(|error| damaged("JSON", error))
}

/// JSON of a column.
pub(crate) fn from_json<T: for<'a> Deserialize<'a>>(what: &str, text: &str) -> Result<T, PgError> {
    serde_json::from_str(text).map_err(|error| damaged(what, error))
}

/// A value of a column.
pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, PgError> {
    row.try_get(column).map_err(|error| damaged("column", error))
}

/// A whole job, in the order of the columns of `job.sql`.
pub(crate) fn job(row: &Row) -> Result<Job, PgError> {
    let status = JobStatus {
        rev: bits(row, 1)?,
        claim: bits(row, 3)?,
        attempt: bits(row, 4)?,
        lost: small(row, 5)?,
        snoozed: bits(row, 6)?,
        unaccepted: small(row, 7)?,
        hold: flag(row, 22)?,
        run_at: time(row, 8)?,
        updated_at: time(row, 9)?,
        again: text_or_null(row, 19)?.map(|params| Box::new(Again { params: Json::trusted(params) })),
        state: state(row)?,
    };
    Ok(Job { id: job_id(row, 0)?, spec: Arc::new(spec::spec(row, 28)?), status })
}

fn state(row: &Row) -> Result<State, PgError> {
    let error = || text_or_null(row, 20)?.map(|text| from_json::<Failure>("error", text)).transpose();
    let name = state_name(row, 2)?;
    Ok(match name {
        StateName::Queued => State::Queued(error()?.map(Box::new)),
        StateName::Blocked => {
            State::Blocked(Blocked { holder: job_id_or_null(row, 15)?, dependencies: flag(row, 23)? })
        }
        StateName::Assigned => State::Assigned(held(row, error()?)?),
        StateName::Accepted => State::Accepted(held(row, error()?)?),
        StateName::Running => State::Running(held(row, error()?)?),
        StateName::Waiting => State::Waiting(Box::new(waiting(row)?)),
        StateName::Succeeded => State::Succeeded(Box::new(Success {
            at: time(row, 17)?,
            outcome: outcome(row, 16)?,
            value: text_or_null(row, 21)?.map_or_else(Json::null, Json::trusted),
            last: lease(row)?.ok_or_else(|| damaged("success", "it has no lease"))?,
        })),
        StateName::Failed | StateName::Crashed | StateName::Cancelled => {
            let failure = error()?.ok_or_else(|| damaged("end", "it has no error"))?;
            let (at, outcome) = (time(row, 17)?, outcome(row, 16)?);
            let defeat = Box::new(Unsuccessful { at, outcome, failure, last: lease(row)? });
            match name {
                StateName::Failed => State::Failed(defeat),
                StateName::Crashed => State::Crashed(defeat),
                _ => State::Cancelled(defeat),
            }
        }
        StateName::Scheduled | StateName::Retrying => return Err(damaged("state", name)),
    })
}

fn held(row: &Row, error: Option<Failure>) -> Result<Box<Leased>, PgError> {
    let lease = lease(row)?.ok_or_else(|| damaged("hold", "it has no lease"))?;
    let stop = match text_or_null(row, 18)? {
        Some(text) => {
            let StoredStop { at, failure, timed_out } = from_json("cancel", text)?;
            let why = if timed_out { StopWhy::TimeOut } else { StopWhy::Cancel };
            Some(StopRequest { at: moment(at)?, why, failure })
        }
        None => None,
    };
    let early = text_or_null(row, 26)?.map(|text| from_json("early", text)).transpose()?;
    Ok(Box::new(Leased { lease, stop, error, early }))
}

fn waiting(row: &Row) -> Result<Waiting, PgError> {
    let text = text_or_null(row, 24)?.ok_or_else(|| damaged("wait", "its reason to wait is missing"))?;
    let StoredWait { since, until } = from_json("waits", text)?;
    let on = match until {
        Some(until) => WaitFor::External { until: moment(until)? },
        None => WaitFor::Jobs,
    };
    Ok(Waiting { held: *held(row, None)?, on, since: moment(since)? })
}

fn lease(row: &Row) -> Result<Option<Lease>, PgError> {
    let Some(lease) = get::<Option<&[u8]>>(row, 10)? else { return Ok(None) };
    Ok(Some(Lease {
        id: LeaseId(number128(lease)?),
        worker: worker(row, 11)?,
        assigned_at: time(row, 12)?,
        accepted_at: time_or_null(row, 13)?,
        started_at: time_or_null(row, 14)?,
        waited_ms: get::<Option<i64>>(row, 25)?.unwrap_or(0).cast_unsigned(),
        progress: progress(row, 27)?,
    }))
}

/// A row of `attempts.sql`.
pub(crate) fn attempt(row: &Row) -> Result<PastAttempt, PgError> {
    let claim: i64 = get(row, 0)?;
    Ok(PastAttempt {
        claim: u32::try_from(claim).map_err(|error| damaged("claim", error))?,
        lease: LeaseId(number128(get(row, 1)?)?),
        worker: worker(row, 2)?,
        assigned_at: time(row, 3)?,
        accepted_at: time_or_null(row, 4)?,
        started_at: time_or_null(row, 5)?,
        ended_at: time(row, 6)?,
        outcome: outcome(row, 7)?,
        failure: from_json("error", text(row, 8)?)?,
        progress: progress(row, 9)?,
    })
}

/// None if nothing was reported.
pub(crate) fn stored_progress(progress: &[Indicator]) -> Result<Option<String>, PgError> {
    (!progress.is_empty()).then(|| to_json(&progress)).transpose()
}

fn progress(row: &Row, column: usize) -> Result<Box<[Indicator]>, PgError> {
    let text = text_or_null(row, column)?;
    text.map_or(Ok(Box::default()), |text| from_json("progress", text))
}

fn code(row: &Row, column: usize) -> Result<usize, PgError> {
    let code: i16 = get(row, column)?;
    usize::try_from(code).map_err(|error| damaged("code", error))
}

/// The state of a code.
pub(crate) fn state_name(row: &Row, column: usize) -> Result<StateName, PgError> {
    let code = code(row, column)?;
    StateName::ALL.get(code).copied().ok_or_else(|| damaged("state code", code))
}

fn outcome(row: &Row, column: usize) -> Result<Outcome, PgError> {
    let code = code(row, column)?;
    Outcome::ALL.get(code).copied().ok_or_else(|| damaged("outcome code", code))
}

pub(crate) fn job_type(text: &str) -> Result<TypeName, PgError> {
    TypeName::new(text).map_err(|error| damaged("type", error))
}

pub(crate) fn queue(text: &str) -> Result<QueueName, PgError> {
    QueueName::new(text).map_err(|error| damaged("queue", error))
}

pub(crate) fn key(text: &str) -> Result<Key, PgError> {
    Key::new(text).map_err(|error| damaged("key", error))
}

fn worker(row: &Row, column: usize) -> Result<WorkerName, PgError> {
    WorkerName::new(text(row, column)?).map_err(|error| damaged("worker", error))
}

fn moment(ms: i64) -> Result<Time, PgError> {
    Time::from_ms(ms).map_err(|error| damaged("time", error))
}

pub(crate) fn time(row: &Row, column: usize) -> Result<Time, PgError> {
    moment(get(row, column)?)
}

fn time_or_null(row: &Row, column: usize) -> Result<Option<Time>, PgError> {
    get::<Option<i64>>(row, column)?.map(moment).transpose()
}

fn id(number: i64) -> Result<JobId, PgError> {
    JobId::new(number.cast_unsigned()).map_err(|error| damaged("id", error))
}

pub(crate) fn job_id(row: &Row, column: usize) -> Result<JobId, PgError> {
    id(get(row, column)?)
}

pub(crate) fn job_id_or_null(row: &Row, column: usize) -> Result<Option<JobId>, PgError> {
    get::<Option<i64>>(row, column)?.map(id).transpose()
}

pub(crate) fn ids(numbers: impl IntoIterator<Item = i64>) -> Result<Vec<JobId>, PgError> {
    numbers.into_iter().map(id).collect()
}

/// true, or NULL.
pub(crate) fn flag(row: &Row, column: usize) -> Result<bool, PgError> {
    Ok(get::<Option<bool>>(row, column)?.unwrap_or(false))
}

/// A text, borrowed.
pub(crate) fn text(row: &Row, column: usize) -> Result<&str, PgError> {
    get(row, column)
}

/// A text, borrowed, or NULL.
pub(crate) fn text_or_null(row: &Row, column: usize) -> Result<Option<&str>, PgError> {
    get(row, column)
}

/// A 32-bit number.
pub(crate) fn bits(row: &Row, column: usize) -> Result<u32, PgError> {
    Ok(get::<i32>(row, column)?.cast_unsigned())
}

fn small(row: &Row, column: usize) -> Result<u16, PgError> {
    u16::try_from(get::<i32>(row, column)?).map_err(|error| damaged("count", error))
}

/// A 16-byte number.
pub(crate) fn number128(bytes: &[u8]) -> Result<u128, PgError> {
    let bytes = bytes.try_into().map_err(|_| damaged("number", "it does not have 16 bytes"))?;
    Ok(u128::from_be_bytes(bytes))
}
