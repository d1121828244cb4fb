//! Jobs as rows: how a status is bound, and how a row is read. The conversion is lossless.

use std::sync::Arc;

use jobhall_core::{
    Again, Blocked, Failure, Indicator, Job, JobId, JobSpec, JobStatus, Json, Key, Lease, LeaseId, Leased,
    Outcome, PastAttempt, QueueName, State, StateName, StopRequest, StopWhy, Success, Time, TypeName,
    Unsuccessful, WaitFor, Waiting, WorkerName,
};
use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};
use serde::{Deserialize, Serialize};

use crate::error::{SqlError, damaged};
use crate::rows::spec;

/// The stored form of a pending stop.
#[derive(Serialize, Deserialize)]
struct StoredStop {
    at: i64,
    failure: Failure,
    /// Whether the timeout caused it; otherwise it was requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
}

/// The stored form of a suspended attempt.
#[derive(Serialize, Deserialize)]
struct StoredWait {
    since: i64,
    /// None: it waits for jobs; otherwise for external work.
    until: Option<i64>,
}

/// Binds ?1 to ?19 and ?26 to ?31: the columns that every write of a job sets.
pub(crate) fn bind_status(
    to: &mut Statement<'_>,
    id: JobId,
    expected: u32,
    status: &JobStatus,
) -> Result<(), SqlError> {
    let state = &status.state;
    bind_plain(to, id, expected, status)?;
    to.raw_bind_parameter(17, stored_stop(state)?)?;
    to.raw_bind_parameter(18, status.again.as_ref().map(|again| again.params.as_str()))?;
    to.raw_bind_parameter(19, stored_error(state)?)?;
    bind_waits(to, status)?;
    Ok(())
}

/// Binds ?1 to ?16: the columns of every job. ?2 is the rev that a change was decided on.
pub(crate) fn bind_plain(
    to: &mut Statement<'_>,
    id: JobId,
    expected: u32,
    status: &JobStatus,
) -> Result<(), SqlError> {
    let state = &status.state;
    to.raw_bind_parameter(1, id.get().cast_signed())?;
    to.raw_bind_parameter(2, expected)?;
    to.raw_bind_parameter(3, status.rev)?;
    to.raw_bind_parameter(4, state.name() as u8)?;
    to.raw_bind_parameter(5, status.claim)?;
    to.raw_bind_parameter(6, status.attempt)?;
    to.raw_bind_parameter(7, status.lost)?;
    to.raw_bind_parameter(8, status.snoozed)?;
    to.raw_bind_parameter(9, status.unaccepted)?;
    to.raw_bind_parameter(10, status.run_at.as_ms())?;
    to.raw_bind_parameter(11, status.updated_at.as_ms())?;
    bind_lease(to, state.lease())
}

/// Binds ?26 to ?31: columns that are rarely set.
fn bind_waits(to: &mut Statement<'_>, status: &JobStatus) -> Result<(), SqlError> {
    let depends = matches!(status.state, State::Blocked(blocked) if blocked.dependencies);
    let waits = match &status.state {
        State::Waiting(waiting) => {
            let until = match waiting.on {
                WaitFor::External { until } => Some(until.as_ms()),
                WaitFor::Jobs => None,
            };
            Some(to_json(&StoredWait { since: waiting.since.as_ms(), until })?)
        }
        _ => None,
    };
    let lease = status.state.lease();
    let waited_ms = lease.map_or(0, |lease| lease.waited_ms);
    let early = holding(&status.state).and_then(|held| held.early.as_ref());
    to.raw_bind_parameter(26, status.hold.then_some(1))?;
    to.raw_bind_parameter(27, depends.then_some(1))?;
    to.raw_bind_parameter(28, waits)?;
    to.raw_bind_parameter(29, Some(waited_ms.cast_signed()).filter(|&ms| ms > 0))?;
    to.raw_bind_parameter(30, early.map(to_json).transpose()?)?;
    to.raw_bind_parameter(31, stored_progress(lease.map_or(&[], |lease| &lease.progress))?)?;
    Ok(())
}

/// The lease of a live attempt, also of one that waits for external work.
fn holding(state: &State) -> Option<&Leased> {
    match state {
        State::Waiting(waiting) => Some(&waiting.held),
        state => state.leased(),
    }
}

/// Binds ?12 to ?16.
fn bind_lease(to: &mut Statement<'_>, lease: Option<&Lease>) -> Result<(), SqlError> {
    to.raw_bind_parameter(12, lease.map(|lease| lease.id.0.to_be_bytes()))?;
    to.raw_bind_parameter(13, lease.map(|lease| lease.worker.as_str()))?;
    to.raw_bind_parameter(14, lease.map(|lease| lease.assigned_at.as_ms()))?;
    to.raw_bind_parameter(15, lease.and_then(|lease| lease.accepted_at).map(Time::as_ms))?;
    to.raw_bind_parameter(16, lease.and_then(|lease| lease.started_at).map(Time::as_ms))?;
    Ok(())
}

/// Binds ?20 to ?23: the columns of a blocked or completed job. A statement that ends a job has no ?20.
pub(crate) fn bind_end(to: &mut Statement<'_>, state: &State) -> Result<(), SqlError> {
    let (behind, outcome, value) = match state {
        State::Blocked(blocked) => (blocked.holder.map(|id| id.get().cast_signed()), None, None),
        State::Succeeded(success) => (None, Some(success.outcome), Some(success.value.as_str())),
        State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => {
            (None, Some(defeat.outcome), None)
        }
        _ => (None, None, None),
    };
    to.raw_bind_parameter(20, behind)?;
    to.raw_bind_parameter(21, outcome.map(|outcome| outcome as u8))?;
    to.raw_bind_parameter(22, state.ended_at().map(Time::as_ms))?;
    to.raw_bind_parameter(23, value.filter(|&value| value != "null"))?;
    Ok(())
}

/// Binds ?24 and ?25: the place on the key.
pub(crate) fn bind_keys(
    to: &mut Statement<'_>,
    live_key: Option<&str>,
    next_key: Option<&str>,
) -> Result<(), SqlError> {
    to.raw_bind_parameter(24, live_key)?;
    to.raw_bind_parameter(25, next_key)?;
    Ok(())
}

fn stored_stop(state: &State) -> Result<Option<String>, SqlError> {
    let Some(stop) = holding(state).and_then(|held| held.stop.as_ref()) else { return Ok(None) };
    let timed_out = stop.why == StopWhy::TimeOut;
    to_json(&StoredStop { at: stop.at.as_ms(), failure: stop.failure.clone(), timed_out }).map(Some)
}

fn stored_error(state: &State) -> Result<Option<String>, SqlError> {
    let before = state.leased().and_then(|held| held.error.as_ref());
    before.or(state.error()).map(to_json).transpose()
}

/// None if nothing was reported.
fn stored_progress(progress: &[Indicator]) -> Result<Option<String>, SqlError> {
    (!progress.is_empty()).then(|| to_json(&progress)).transpose()
}

fn progress(row: &Row<'_>, column: usize) -> Result<Box<[Indicator]>, SqlError> {
    let text = text_or_null(row, column)?;
    text.map_or(Ok(Box::default()), |text| from_json("progress", text))
}

/// JSON for a column.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, SqlError> {
    serde_json::to_string(value).map_err(|error| damaged("JSON", error))
}

/// JSON of a column.
pub(crate) fn from_json<T: for<'a> Deserialize<'a>>(what: &str, text: &str) -> Result<T, SqlError> {
    serde_json::from_str(text).map_err(|error| damaged(what, error))
}

/// A whole job, in the order of the columns of `job.sql`.
pub(crate) fn job(row: &Row<'_>) -> Result<Job, SqlError> {
    let status = JobStatus {
        rev: row.get(1)?,
        claim: row.get(3)?,
        attempt: row.get(4)?,
        lost: row.get(5)?,
        snoozed: row.get(6)?,
        unaccepted: row.get(7)?,
        hold: flag(row, 22)?,
        run_at: time(row, 8)?,
        updated_at: time(row, 9)?,
        again: text_or_null(row, 19)?.map(|params| Box::new(Again { params: Json::trusted(params) })),
        state: state(row)?,
    };
    Ok(Job { id: job_id(row, 0)?, spec: Arc::new(spec::spec(row, 28)?), status })
}

/// A new job of `open_jobs.sql`; `before` is the spec of the job before it, with which it often shares names.
pub(crate) fn new_job(row: &Row<'_>, before: Option<&JobSpec>) -> Result<Job, SqlError> {
    let status = JobStatus::queued(time(row, 3)?, time(row, 2)?);
    Ok(Job { id: job_id(row, 1)?, spec: Arc::new(spec::plain(row, 4, before)?), status })
}

fn state(row: &Row<'_>) -> Result<State, SqlError> {
    let error = || text_or_null(row, 20)?.map(|text| from_json::<Failure>("error", text)).transpose();
    let name = state_name(row.get(2)?)?;
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
            outcome: outcome(row.get(16)?)?,
            value: text_or_null(row, 21)?.map_or_else(Json::null, Json::trusted),
            last: lease(row)?.ok_or_else(|| damaged("success", "it has no lease"))?,
        })),
        StateName::Failed | StateName::Crashed | StateName::Cancelled => {
            let failure = error()?.ok_or_else(|| damaged("end", "it has no error"))?;
            let (at, outcome) = (time(row, 17)?, outcome(row.get(16)?)?);
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

fn held(row: &Row<'_>, error: Option<Failure>) -> Result<Box<Leased>, SqlError> {
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

fn waiting(row: &Row<'_>) -> Result<Waiting, SqlError> {
    let text = text_or_null(row, 24)?.ok_or_else(|| damaged("wait", "its reason to wait is missing"))?;
    let StoredWait { since, until } = from_json("waits", text)?;
    let on = match until {
        Some(until) => WaitFor::External { until: moment(until)? },
        None => WaitFor::Jobs,
    };
    Ok(Waiting { held: *held(row, None)?, on, since: moment(since)? })
}

fn lease(row: &Row<'_>) -> Result<Option<Lease>, SqlError> {
    if row.get_ref(10)? == ValueRef::Null {
        return Ok(None);
    }
    Ok(Some(Lease {
        id: LeaseId(number128(row, 10)?),
        worker: worker(text(row, 11)?)?,
        assigned_at: time(row, 12)?,
        accepted_at: time_or_null(row, 13)?,
        started_at: time_or_null(row, 14)?,
        waited_ms: row.get::<_, Option<i64>>(25)?.unwrap_or(0).cast_unsigned(),
        progress: progress(row, 27)?,
    }))
}

/// A row of `attempts.sql`.
pub(crate) fn attempt(row: &Row<'_>) -> Result<PastAttempt, SqlError> {
    Ok(PastAttempt {
        claim: row.get(0)?,
        lease: LeaseId(number128(row, 1)?),
        worker: worker(text(row, 2)?)?,
        assigned_at: time(row, 3)?,
        accepted_at: time_or_null(row, 4)?,
        started_at: time_or_null(row, 5)?,
        ended_at: time(row, 6)?,
        outcome: outcome(row.get(7)?)?,
        failure: from_json("error", text(row, 8)?)?,
        progress: progress(row, 9)?,
    })
}

/// Binds an ended attempt to `insert_attempt`.
pub(crate) fn bind_attempt(to: &mut Statement<'_>, id: JobId, past: &PastAttempt) -> Result<(), SqlError> {
    to.raw_bind_parameter(1, id.get().cast_signed())?;
    to.raw_bind_parameter(2, past.claim)?;
    to.raw_bind_parameter(3, past.lease.0.to_be_bytes())?;
    to.raw_bind_parameter(4, past.worker.as_str())?;
    to.raw_bind_parameter(5, past.assigned_at.as_ms())?;
    to.raw_bind_parameter(6, past.accepted_at.map(Time::as_ms))?;
    to.raw_bind_parameter(7, past.started_at.map(Time::as_ms))?;
    to.raw_bind_parameter(8, past.ended_at.as_ms())?;
    to.raw_bind_parameter(9, past.outcome as u8)?;
    to.raw_bind_parameter(10, to_json(&past.failure)?)?;
    to.raw_bind_parameter(11, stored_progress(&past.progress)?)?;
    Ok(())
}

pub(crate) fn state_name(code: u8) -> Result<StateName, SqlError> {
    StateName::ALL.get(usize::from(code)).copied().ok_or_else(|| damaged("state code", code))
}

fn outcome(code: u8) -> Result<Outcome, SqlError> {
    Outcome::ALL.get(usize::from(code)).copied().ok_or_else(|| damaged("outcome code", code))
}

pub(crate) fn job_type(text: &str) -> Result<TypeName, SqlError> {
    TypeName::new(text).map_err(|error| damaged("type", error))
}

pub(crate) fn queue(text: &str) -> Result<QueueName, SqlError> {
    QueueName::new(text).map_err(|error| damaged("queue", error))
}

pub(crate) fn key(text: &str) -> Result<Key, SqlError> {
    Key::new(text).map_err(|error| damaged("key", error))
}

fn worker(text: &str) -> Result<WorkerName, SqlError> {
    WorkerName::new(text).map_err(|error| damaged("worker", error))
}

fn moment(ms: i64) -> Result<Time, SqlError> {
    Time::from_ms(ms).map_err(|error| damaged("time", error))
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Result<Time, SqlError> {
    moment(row.get(column)?)
}

fn time_or_null(row: &Row<'_>, column: usize) -> Result<Option<Time>, SqlError> {
    row.get::<_, Option<i64>>(column)?.map(moment).transpose()
}

pub(crate) fn job_id(row: &Row<'_>, column: usize) -> Result<JobId, SqlError> {
    let number: i64 = row.get(column)?;
    JobId::new(number.cast_unsigned()).map_err(|error| damaged("id", error))
}

pub(crate) fn job_id_or_null(row: &Row<'_>, column: usize) -> Result<Option<JobId>, SqlError> {
    row.get::<_, Option<i64>>(column)?.map(|_| job_id(row, column)).transpose()
}

/// 1, or NULL.
pub(crate) fn flag(row: &Row<'_>, column: usize) -> Result<bool, SqlError> {
    Ok(row.get::<_, Option<i64>>(column)?.is_some())
}

/// A text, borrowed.
pub(crate) fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, SqlError> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// A text, borrowed, or NULL.
pub(crate) fn text_or_null<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>, SqlError> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

/// A 16-byte number.
pub(crate) fn number128(row: &Row<'_>, column: usize) -> Result<u128, SqlError> {
    let bytes = row.get_ref(column)?.as_blob()?;
    let bytes = bytes.try_into().map_err(|_| damaged("number", "it does not have 16 bytes"))?;
    Ok(u128::from_be_bytes(bytes))
}
