//! Jobs as rows: how a life is bound, and how a row is read back. Lossless: what comes back equals what went in.

use std::sync::Arc;

use jobhall_core::needs::Needs;
use jobhall_core::{
    Again, Backoff, CancelRequest, Defeat, Failure, Held, Job, JobId, Json, Key, LeaseId, Life, Outcome,
    OutcomeSet, PastAttempt, QueueName, RetryPolicy, Spec, State, StateName, Success, Tenure, Time, TypeName,
    WorkerName,
};
use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};
use serde::{Deserialize, Serialize};

use crate::trouble::{Trouble, damaged};

/// A cancel on its way, as stored.
#[derive(Serialize, Deserialize)]
struct StoredCancel {
    at: i64,
    failure: Failure,
}

/// Binds ?1 to ?19: what every write of a job's row sets. ?2 is the rev that a change was decided on.
pub(crate) fn bind_life(
    to: &mut Statement<'_>,
    id: JobId,
    expected: u32,
    life: &Life,
) -> Result<(), Trouble> {
    let state = &life.state;
    to.raw_bind_parameter(1, id.get().cast_signed())?;
    to.raw_bind_parameter(2, expected)?;
    to.raw_bind_parameter(3, life.rev)?;
    to.raw_bind_parameter(4, state.name() as u8)?;
    to.raw_bind_parameter(5, life.claim)?;
    to.raw_bind_parameter(6, life.attempt)?;
    to.raw_bind_parameter(7, life.lost)?;
    to.raw_bind_parameter(8, life.snoozed)?;
    to.raw_bind_parameter(9, life.unaccepted)?;
    to.raw_bind_parameter(10, life.run_at.as_ms())?;
    to.raw_bind_parameter(11, life.updated_at.as_ms())?;
    bind_tenure(to, state.tenure())?;
    to.raw_bind_parameter(17, stored_cancel(state)?)?;
    to.raw_bind_parameter(18, life.again.as_ref().map(|again| again.params.as_str()))?;
    to.raw_bind_parameter(19, stored_error(state)?)?;
    Ok(())
}

/// Binds ?12 to ?16.
fn bind_tenure(to: &mut Statement<'_>, tenure: Option<&Tenure>) -> Result<(), Trouble> {
    to.raw_bind_parameter(12, tenure.map(|tenure| tenure.lease.0.to_be_bytes()))?;
    to.raw_bind_parameter(13, tenure.map(|tenure| tenure.worker.as_str()))?;
    to.raw_bind_parameter(14, tenure.map(|tenure| tenure.assigned_at.as_ms()))?;
    to.raw_bind_parameter(15, tenure.and_then(|tenure| tenure.accepted_at).map(Time::as_ms))?;
    to.raw_bind_parameter(16, tenure.and_then(|tenure| tenure.started_at).map(Time::as_ms))?;
    Ok(())
}

/// Binds ?20 to ?23: what a blocked or a completed job has. A statement that ends a job has no ?20.
pub(crate) fn bind_end(to: &mut Statement<'_>, state: &State) -> Result<(), Trouble> {
    let (behind, outcome, value) = match state {
        State::Blocked(holder) => (Some(holder.get().cast_signed()), None, None),
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
) -> Result<(), Trouble> {
    to.raw_bind_parameter(24, live_key)?;
    to.raw_bind_parameter(25, next_key)?;
    Ok(())
}

fn stored_cancel(state: &State) -> Result<Option<String>, Trouble> {
    let Some(cancel) = state.held().and_then(|held| held.cancel.as_ref()) else { return Ok(None) };
    to_json(&StoredCancel { at: cancel.at.as_ms(), failure: cancel.failure.clone() }).map(Some)
}

fn stored_error(state: &State) -> Result<Option<String>, Trouble> {
    let before = state.held().and_then(|held| held.error.as_ref());
    before.or(state.error()).map(to_json).transpose()
}

/// JSON for a column.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, Trouble> {
    serde_json::to_string(value).map_err(|error| damaged("JSON", error))
}

/// JSON of a column.
pub(crate) fn from_json<T: for<'a> Deserialize<'a>>(what: &str, text: &str) -> Result<T, Trouble> {
    serde_json::from_str(text).map_err(|error| damaged(what, error))
}

/// Binds a spec to `insert_spec`.
pub(crate) fn bind_spec(to: &mut Statement<'_>, id: JobId, spec: &Spec) -> Result<(), Trouble> {
    let (backoff, ms, cap_ms) = match spec.retry.backoff {
        Backoff::Constant { ms } => (0u8, ms, None),
        Backoff::Linear { ms, cap_ms } => (1, ms, Some(cap_ms)),
        Backoff::Exponential { ms, cap_ms } => (2, ms, Some(cap_ms)),
    };
    to.raw_bind_parameter(1, id.get().cast_signed())?;
    to.raw_bind_parameter(2, spec.job_type.as_str())?;
    to.raw_bind_parameter(3, spec.key.as_ref().map(Key::as_str))?;
    to.raw_bind_parameter(4, spec.queue.as_str())?;
    to.raw_bind_parameter(5, spec.needs.as_str())?;
    to.raw_bind_parameter(6, spec.priority)?;
    to.raw_bind_parameter(7, spec.retry.max_attempts)?;
    to.raw_bind_parameter(8, backoff)?;
    to.raw_bind_parameter(9, ms.cast_signed())?;
    to.raw_bind_parameter(10, cap_ms.map(u64::cast_signed))?;
    to.raw_bind_parameter(11, outcome_bits(spec.retry.on))?;
    to.raw_bind_parameter(12, spec.created_at.as_ms())?;
    to.raw_bind_parameter(13, spec.retry_of.map(|id| id.get().cast_signed()))?;
    to.raw_bind_parameter(14, spec.params.as_str())?;
    Ok(())
}

fn outcome_bits(set: OutcomeSet) -> u8 {
    Outcome::ALL.into_iter().filter(|&outcome| set.contains(outcome)).fold(0, |bits, o| bits | 1 << o as u8)
}

/// A whole job, in the order of the columns of `job.sql`.
pub(crate) fn job(row: &Row<'_>) -> Result<Job, Trouble> {
    let life = Life {
        rev: row.get(1)?,
        claim: row.get(3)?,
        attempt: row.get(4)?,
        lost: row.get(5)?,
        snoozed: row.get(6)?,
        unaccepted: row.get(7)?,
        run_at: time(row, 8)?,
        updated_at: time(row, 9)?,
        again: text_or_null(row, 19)?.map(|params| Box::new(Again { params: Json::trusted(params) })),
        state: state(row)?,
    };
    Ok(Job { id: job_id(row, 0)?, spec: Arc::new(spec(row, 22)?), life })
}

fn state(row: &Row<'_>) -> Result<State, Trouble> {
    let error = || text_or_null(row, 20)?.map(|text| from_json::<Failure>("error", text)).transpose();
    let name = state_name(row.get(2)?)?;
    Ok(match name {
        StateName::Queued => State::Queued(error()?.map(Box::new)),
        StateName::Blocked => State::Blocked(job_id(row, 15)?),
        StateName::Assigned => State::Assigned(held(row, error()?)?),
        StateName::Accepted => State::Accepted(held(row, error()?)?),
        StateName::Running => State::Running(held(row, error()?)?),
        StateName::Succeeded => State::Succeeded(Box::new(Success {
            at: time(row, 17)?,
            outcome: outcome(row.get(16)?)?,
            value: text_or_null(row, 21)?.map_or_else(Json::null, Json::trusted),
            last: tenure(row)?.ok_or_else(|| damaged("success", "it has no lease"))?,
        })),
        StateName::Failed | StateName::Crashed | StateName::Cancelled => {
            let failure = error()?.ok_or_else(|| damaged("end", "it has no error"))?;
            let (at, outcome) = (time(row, 17)?, outcome(row.get(16)?)?);
            let defeat = Box::new(Defeat { at, outcome, failure, last: tenure(row)? });
            match name {
                StateName::Failed => State::Failed(defeat),
                StateName::Crashed => State::Crashed(defeat),
                _ => State::Cancelled(defeat),
            }
        }
        StateName::Scheduled | StateName::Retrying => return Err(damaged("state", name)),
    })
}

fn held(row: &Row<'_>, error: Option<Failure>) -> Result<Box<Held>, Trouble> {
    let tenure = tenure(row)?.ok_or_else(|| damaged("hold", "it has no lease"))?;
    let cancel = match text_or_null(row, 18)? {
        Some(text) => {
            let StoredCancel { at, failure } = from_json("cancel", text)?;
            Some(CancelRequest { at: moment(at)?, failure })
        }
        None => None,
    };
    Ok(Box::new(Held { tenure, cancel, error }))
}

fn tenure(row: &Row<'_>) -> Result<Option<Tenure>, Trouble> {
    if row.get_ref(10)? == ValueRef::Null {
        return Ok(None);
    }
    Ok(Some(Tenure {
        lease: LeaseId(number128(row, 10)?),
        worker: worker(text(row, 11)?)?,
        assigned_at: time(row, 12)?,
        accepted_at: time_or_null(row, 13)?,
        started_at: time_or_null(row, 14)?,
    }))
}

/// A spec whose first column is at `first`, in the order of `spec.sql`.
pub(crate) fn spec(row: &Row<'_>, first: usize) -> Result<Spec, Trouble> {
    let retry_of: Option<i64> = row.get(first + 11)?;
    Ok(Spec {
        job_type: job_type(text(row, first)?)?,
        key: text_or_null(row, first + 1)?.map(key).transpose()?,
        queue: QueueName::new(text(row, first + 2)?).map_err(|error| damaged("queue", error))?,
        needs: Needs::parse(text(row, first + 3)?).map_err(|error| damaged("needs", error))?,
        priority: row.get(first + 4)?,
        retry: retry(row, first + 5)?,
        created_at: time(row, first + 10)?,
        retry_of: retry_of.map(|_| job_id(row, first + 11)).transpose()?,
        params: Json::trusted(text(row, first + 12)?),
    })
}

fn retry(row: &Row<'_>, first: usize) -> Result<RetryPolicy, Trouble> {
    let ms = row.get::<_, i64>(first + 2)?.cast_unsigned();
    let cap_ms = row.get::<_, Option<i64>>(first + 3)?.unwrap_or_default().cast_unsigned();
    let backoff = match row.get::<_, u8>(first + 1)? {
        0 => Backoff::Constant { ms },
        1 => Backoff::Linear { ms, cap_ms },
        2 => Backoff::Exponential { ms, cap_ms },
        other => return Err(damaged("backoff", other)),
    };
    let bits: u8 = row.get(first + 4)?;
    let on: Vec<_> = Outcome::ALL.into_iter().filter(|&outcome| bits & 1 << outcome as u8 != 0).collect();
    Ok(RetryPolicy { max_attempts: row.get(first)?, backoff, on: OutcomeSet::of(&on) })
}

/// A row of `attempts.sql`.
pub(crate) fn attempt(row: &Row<'_>) -> Result<PastAttempt, Trouble> {
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
    })
}

/// Binds an ended attempt to `insert_attempt`.
pub(crate) fn bind_attempt(to: &mut Statement<'_>, id: JobId, past: &PastAttempt) -> Result<(), Trouble> {
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
    Ok(())
}

/// The name of a state code.
pub(crate) fn state_name(code: u8) -> Result<StateName, Trouble> {
    StateName::ALL.get(usize::from(code)).copied().ok_or_else(|| damaged("state code", code))
}

fn outcome(code: u8) -> Result<Outcome, Trouble> {
    Outcome::ALL.get(usize::from(code)).copied().ok_or_else(|| damaged("outcome code", code))
}

/// A type's name.
pub(crate) fn job_type(text: &str) -> Result<TypeName, Trouble> {
    TypeName::new(text).map_err(|error| damaged("type", error))
}

/// A job's key.
pub(crate) fn key(text: &str) -> Result<Key, Trouble> {
    Key::new(text).map_err(|error| damaged("key", error))
}

fn worker(text: &str) -> Result<WorkerName, Trouble> {
    WorkerName::new(text).map_err(|error| damaged("worker", error))
}

fn moment(ms: i64) -> Result<Time, Trouble> {
    Time::from_ms(ms).map_err(|error| damaged("time", error))
}

/// A moment.
pub(crate) fn time(row: &Row<'_>, column: usize) -> Result<Time, Trouble> {
    moment(row.get(column)?)
}

fn time_or_null(row: &Row<'_>, column: usize) -> Result<Option<Time>, Trouble> {
    row.get::<_, Option<i64>>(column)?.map(moment).transpose()
}

/// A job's id.
pub(crate) fn job_id(row: &Row<'_>, column: usize) -> Result<JobId, Trouble> {
    let number: i64 = row.get(column)?;
    JobId::new(number.cast_unsigned()).map_err(|error| damaged("id", error))
}

/// A text, not copied.
pub(crate) fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, Trouble> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// A text, not copied, or NULL.
pub(crate) fn text_or_null<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>, Trouble> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

/// A number of 16 bytes.
pub(crate) fn number128(row: &Row<'_>, column: usize) -> Result<u128, Trouble> {
    let bytes = row.get_ref(column)?.as_blob()?;
    let bytes = bytes.try_into().map_err(|_| damaged("number", "it has not 16 bytes"))?;
    Ok(u128::from_be_bytes(bytes))
}
