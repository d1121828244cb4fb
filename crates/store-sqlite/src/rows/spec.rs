//! Specs as rows: how a spec is bound, and how it is read.

use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{
    Backoff, GroupId, JobId, JobSpec, Json, Key, Outcome, OutcomeSet, Owner, QueueName, RetryPolicy,
    ScheduleName, Tag, Timeouts, Windows,
};
use rusqlite::{Row, Statement};

use crate::error::{SqlError, damaged};
use crate::rows::row::{flag, from_json, job_id_or_null, job_type, key, text, text_or_null, time, to_json};
use crate::writer::upkeep;

/// Binds a spec to `insert_spec`.
pub(crate) fn bind(to: &mut Statement<'_>, id: JobId, spec: &JobSpec) -> Result<(), SqlError> {
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

/// Binds a spec to `insert_spec_member`.
pub(crate) fn bind_member(
    to: &mut Statement<'_>,
    id: JobId,
    spec: &JobSpec,
    group: GroupId,
) -> Result<(), SqlError> {
    bind(to, id, spec)?;
    to.raw_bind_parameter(15, group.get().cast_signed())?;
    Ok(())
}

/// Binds a spec to `insert_spec_whole` or `replace_spec`.
pub(crate) fn bind_whole(to: &mut Statement<'_>, id: JobId, spec: &JobSpec) -> Result<(), SqlError> {
    let flag = |set: bool| set.then_some(1);
    let number = |id: Option<JobId>| id.map(|id| id.get().cast_signed());
    let after: Vec<u64> = spec.after.iter().map(|id| id.get()).collect();
    let tags: Vec<&str> = spec.tags.iter().map(Tag::as_str).collect();
    bind(to, id, spec)?;
    to.raw_bind_parameter(15, Some(spec.uses.as_str()).filter(|uses| !uses.is_empty()))?;
    to.raw_bind_parameter(16, flag(spec.avoid))?;
    to.raw_bind_parameter(17, Some(spec.windows.as_str()).filter(|windows| !windows.is_empty()))?;
    to.raw_bind_parameter(18, Some(spec.throttle_factor).filter(|&factor| factor != 1))?;
    to.raw_bind_parameter(19, spec.timeouts.total_ms.map(u64::cast_signed))?;
    to.raw_bind_parameter(20, spec.timeouts.silence_ms.map(u64::cast_signed))?;
    to.raw_bind_parameter(21, (!after.is_empty()).then(|| to_json(&after)).transpose()?)?;
    to.raw_bind_parameter(22, flag(spec.after_any))?;
    to.raw_bind_parameter(23, number(spec.parent))?;
    to.raw_bind_parameter(24, spec.group.map(|group| group.get().cast_signed()))?;
    to.raw_bind_parameter(25, flag(spec.attached))?;
    to.raw_bind_parameter(26, number(spec.copy_of))?;
    to.raw_bind_parameter(27, spec.owner.as_ref().map(Owner::as_str))?;
    to.raw_bind_parameter(28, (!tags.is_empty()).then(|| to_json(&tags)).transpose()?)?;
    to.raw_bind_parameter(29, spec.schedule.as_ref().map(ScheduleName::as_str))?;
    to.raw_bind_parameter(30, flag(spec.retry.at_most_once))?;
    Ok(())
}

fn outcome_bits(set: OutcomeSet) -> u8 {
    Outcome::ALL.into_iter().filter(|&outcome| set.contains(outcome)).fold(0, |bits, o| bits | 1 << o as u8)
}

/// A spec whose first column is at `first`, in the order of `spec_columns.sql`.
pub(crate) fn spec(row: &Row<'_>, first: usize) -> Result<JobSpec, SqlError> {
    Ok(JobSpec {
        job_type: job_type(text(row, first)?)?,
        key: text_or_null(row, first + 1)?.map(key).transpose()?,
        queue: queue(text(row, first + 2)?)?,
        needs: needs(text(row, first + 3)?)?,
        priority: row.get(first + 4)?,
        retry: RetryPolicy { at_most_once: flag(row, first + 28)?, ..retry(row, first + 5)? },
        created_at: time(row, first + 10)?,
        retry_of: job_id_or_null(row, first + 11)?,
        params: Json::trusted(text(row, first + 12)?),
        uses: text_or_null(row, first + 13)?
            .map_or(Ok(Uses::default()), |text| Uses::parse(text).map_err(|error| damaged("uses", error)))?,
        avoid: flag(row, first + 14)?,
        windows: text_or_null(row, first + 15)?.map_or(Ok(Windows::default()), |text| {
            Windows::parse(text).map_err(|error| damaged("windows", error))
        })?,
        throttle_factor: row.get::<_, Option<u32>>(first + 16)?.unwrap_or(1),
        timeouts: Timeouts {
            total_ms: ms_or_null(row, first + 17)?,
            silence_ms: ms_or_null(row, first + 18)?,
        },
        after: match text_or_null(row, first + 19)? {
            Some(text) => upkeep::ids(&from_json::<Vec<u64>>("after", text)?)?.into(),
            None => Box::default(),
        },
        after_any: flag(row, first + 20)?,
        parent: job_id_or_null(row, first + 21)?,
        group: job_id_or_null(row, first + 22)?.map(GroupId::of),
        attached: flag(row, first + 23)?,
        copy_of: job_id_or_null(row, first + 24)?,
        owner: text_or_null(row, first + 25)?.map(owner).transpose()?,
        tags: text_or_null(row, first + 26)?.map_or(Ok(Box::default()), tags)?,
        schedule: match text_or_null(row, first + 27)? {
            Some(text) => Some(ScheduleName::new(text).map_err(|error| damaged("schedule", error))?),
            None => None,
        },
    })
}

/// A spec without rarely used columns, whose first column is at `first`, in the order of `open_jobs.sql`. Names that
/// are equal to those of the spec before it are shared with it.
pub(crate) fn plain(row: &Row<'_>, first: usize, before: Option<&JobSpec>) -> Result<JobSpec, SqlError> {
    let (type_text, queue_text, needs_text) =
        (text(row, first)?, text(row, first + 2)?, text(row, first + 3)?);
    let job_type = match before.map(|spec| &spec.job_type) {
        Some(same) if same.as_str() == type_text => same.clone(),
        _ => job_type(type_text)?,
    };
    let queue = match before.map(|spec| &spec.queue) {
        Some(same) if same.as_str() == queue_text => same.clone(),
        _ => queue(queue_text)?,
    };
    let needs = match before.map(|spec| &spec.needs) {
        Some(same) if same.as_str() == needs_text => same.clone(),
        _ => needs(needs_text)?,
    };
    Ok(JobSpec {
        job_type,
        key: text_or_null(row, first + 1)?.map(key).transpose()?,
        queue,
        needs,
        priority: row.get(first + 4)?,
        retry: retry(row, first + 5)?,
        created_at: time(row, first + 10)?,
        retry_of: None,
        params: Json::trusted(text(row, first + 11)?),
        uses: Uses::default(),
        avoid: false,
        windows: Windows::default(),
        throttle_factor: 1,
        timeouts: Timeouts::default(),
        after: Box::default(),
        after_any: false,
        parent: None,
        group: None,
        attached: false,
        copy_of: None,
        owner: None,
        tags: Box::default(),
        schedule: None,
    })
}

fn queue(text: &str) -> Result<QueueName, SqlError> {
    QueueName::new(text).map_err(|error| damaged("queue", error))
}

fn needs(text: &str) -> Result<Needs, SqlError> {
    Needs::parse(text).map_err(|error| damaged("needs", error))
}

fn retry(row: &Row<'_>, first: usize) -> Result<RetryPolicy, SqlError> {
    let ms = row.get::<_, i64>(first + 2)?.cast_unsigned();
    let cap_ms = row.get::<_, Option<i64>>(first + 3)?.unwrap_or_default().cast_unsigned();
    let backoff = match row.get::<_, u8>(first + 1)? {
        0 => Backoff::Constant { ms },
        1 => Backoff::Linear { ms, cap_ms },
        2 => Backoff::Exponential { ms, cap_ms },
        other => return Err(damaged("backoff", other)),
    };
    let bits: u8 = row.get(first + 4)?;
    let on = Outcome::ALL.into_iter().filter(|&outcome| bits & 1 << outcome as u8 != 0).collect();
    Ok(RetryPolicy { max_attempts: row.get(first)?, backoff, on, at_most_once: false })
}

fn ms_or_null(row: &Row<'_>, column: usize) -> Result<Option<u64>, SqlError> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
}

pub(crate) fn owner(text: &str) -> Result<Owner, SqlError> {
    Owner::new(text).map_err(|error| damaged("owner", error))
}

/// JSON list of tags.
pub(crate) fn tags(text: &str) -> Result<Box<[Tag]>, SqlError> {
    let texts: Vec<String> = from_json("tags", text)?;
    texts.iter().map(|tag| Tag::new(tag).map_err(|error| damaged("tag", error))).collect()
}
