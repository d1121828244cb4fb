//! Specs as columns and as a row.

use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{
    Backoff, GroupId, JobId, JobSpec, Json, Key, Outcome, OutcomeSet, Owner, QueueName, RetryPolicy,
    ScheduleName, Tag, Timeouts, Windows,
};
use serde::Serialize;
use tokio_postgres::Row;

use crate::connect::wire::Step;
use crate::error::{PgError, damaged};
use crate::rows::row::{
    bits, flag, from_json, get, ids, job_id_or_null, job_type, key, number, text, text_or_null, time, to_json,
};
use crate::rows::shapes::Shapes;

/// Rows of `specs` to write.
#[derive(Default)]
pub(crate) struct Specs<'a> {
    rows: Vec<Asked<'a>>,
    /// Whether a row has a rare column.
    odd: bool,
}

/// One row.
struct Asked<'a> {
    id: JobId,
    spec: &'a JobSpec,
}

impl<'a> Specs<'a> {
    /// Whether there are no rows to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds the spec of a job.
    pub(crate) fn push(&mut self, id: JobId, spec: &'a JobSpec) {
        self.odd |= !spec.is_plain() || spec.retry_of.is_some();
        self.rows.push(Asked { id, spec });
    }

    /// The specs of new jobs. If no row is odd, half the columns are not sent, and the rest is sent as shapes.
    pub(crate) fn inserted(&self) -> Result<Vec<Step>, PgError> {
        if self.odd {
            return Ok(vec![self.step(include_str!("../sql/insert_spec.sql"))?]);
        }
        let parts = Shapes::of(&self.rows, asked_alike);
        let steps = parts.iter().map(|part| {
            let step =
                Step::new(include_str!("../sql/insert_spec_plain.sql")).with(part.rows(|row| number(row.id)));
            let step = step.with(part.rows(Asked::key)).with(part.rows(Asked::params)).with(part.numbers());
            let step = step.with(part.each(Asked::job_type)).with(part.each(Asked::queue));
            let step = step.with(part.each(Asked::needs)).with(part.each(Asked::priority));
            let step = step.with(part.each(Asked::max_attempts)).with(part.each(|row| row.backoff().0));
            let step = step.with(part.each(|row| row.backoff().1)).with(part.each(|row| row.backoff().2));
            step.with(part.each(Asked::retry_on)).with(part.each(Asked::created_at))
        });
        Ok(steps.collect())
    }

    /// All columns, in the order of the parameters of `insert_spec` and `replace_spec`.
    pub(crate) fn step(&self, sql: &'static str) -> Result<Step, PgError> {
        let step = Step::new(sql).with(self.column(|row| number(row.id))).with(self.column(Asked::job_type));
        let step = step
            .with(self.column(Asked::key))
            .with(self.column(Asked::queue))
            .with(self.column(Asked::needs));
        let step = step.with(self.column(Asked::priority)).with(self.column(Asked::max_attempts));
        let step = step.with(self.column(|row| row.backoff().0)).with(self.column(|row| row.backoff().1));
        let step = step.with(self.column(|row| row.backoff().2)).with(self.column(Asked::retry_on));
        let step =
            step.with(self.column(Asked::created_at)).with(self.column(|row| row.spec.retry_of.map(number)));
        let step = step.with(self.column(Asked::params));
        self.company(self.wishes(step))
    }

    /// The columns about time and place.
    fn wishes(&self, step: Step) -> Step {
        let told = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        let step = step.with(self.column(|row| told(row.spec.uses.as_str())));
        let step = step.with(self.column(|row| row.spec.avoid.then_some(true)));
        let step = step.with(self.column(|row| told(row.spec.windows.as_str())));
        let step = step.with(self.column(|row| {
            let factor = row.spec.throttle_factor;
            Some(factor.cast_signed()).filter(|_| factor != 1)
        }));
        let step = step.with(self.column(|row| row.spec.timeouts.total_ms.map(u64::cast_signed)));
        step.with(self.column(|row| row.spec.timeouts.silence_ms.map(u64::cast_signed)))
    }

    /// The columns about owner, group and dependencies.
    fn company(&self, step: Step) -> Result<Step, PgError> {
        let step = step.with(self.texts(|spec| spec.after.iter().map(|id| id.get()).collect::<Vec<_>>())?);
        let step = step.with(self.column(|row| row.spec.after_any.then_some(true)));
        let step = step.with(self.column(|row| row.spec.parent.map(number)));
        let step = step.with(self.column(|row| row.spec.group.map(|group| group.get().cast_signed())));
        let step = step.with(self.column(|row| row.spec.attached.then_some(true)));
        let step = step.with(self.column(|row| row.spec.copy_of.map(number)));
        let step = step.with(self.column(|row| row.spec.owner.as_ref().map(Owner::as_str)));
        let step = step.with(self.texts(|spec| spec.tags.iter().map(Tag::as_str).collect::<Vec<_>>())?);
        let step = step.with(self.column(|row| row.spec.schedule.as_ref().map(ScheduleName::as_str)));
        Ok(step.with(self.column(|row| row.spec.retry.at_most_once.then_some(true))))
    }

    fn column<T>(&self, of: impl Fn(&Asked<'a>) -> T) -> Vec<T> {
        self.rows.iter().map(of).collect()
    }

    /// Lists as JSON; none for an empty list.
    fn texts<T: Serialize>(
        &self,
        of: impl Fn(&'a JobSpec) -> Vec<T>,
    ) -> Result<Vec<Option<String>>, PgError> {
        let lists = self.rows.iter().map(|row| of(row.spec));
        lists.map(|list| (!list.is_empty()).then(|| to_json(&list)).transpose()).collect()
    }
}

/// Whether two specs that are not odd differ only in id, key and params.
fn asked_alike(a: &Asked<'_>, b: &Asked<'_>) -> bool {
    let (a, b) = (a.spec, b.spec);
    a.created_at == b.created_at
        && a.priority == b.priority
        && a.retry == b.retry
        && (&a.job_type, &a.queue, &a.needs) == (&b.job_type, &b.queue, &b.needs)
}

impl<'a> Asked<'a> {
    fn job_type(&self) -> &'a str {
        self.spec.job_type.as_str()
    }

    fn key(&self) -> Option<&'a str> {
        self.spec.key.as_ref().map(Key::as_str)
    }

    fn queue(&self) -> &'a str {
        self.spec.queue.as_str()
    }

    fn needs(&self) -> &'a str {
        self.spec.needs.as_str()
    }

    fn priority(&self) -> i32 {
        self.spec.priority
    }

    fn max_attempts(&self) -> i32 {
        self.spec.retry.max_attempts.into()
    }

    /// The kind, the first delay and the maximum delay.
    fn backoff(&self) -> (i16, i64, Option<i64>) {
        let (which, ms, cap_ms) = match self.spec.retry.backoff {
            Backoff::Constant { ms } => (0, ms, None),
            Backoff::Linear { ms, cap_ms } => (1, ms, Some(cap_ms)),
            Backoff::Exponential { ms, cap_ms } => (2, ms, Some(cap_ms)),
        };
        (which, ms.cast_signed(), cap_ms.map(u64::cast_signed))
    }

    fn retry_on(&self) -> i16 {
        outcome_bits(self.spec.retry.on)
    }

    fn created_at(&self) -> i64 {
        self.spec.created_at.as_ms()
    }

    fn params(&self) -> &'a str {
        self.spec.params.as_str()
    }
}

fn outcome_bits(set: OutcomeSet) -> i16 {
    Outcome::ALL.into_iter().filter(|&outcome| set.contains(outcome)).fold(0, |bits, o| bits | 1 << o as i16)
}

/// A spec whose first column is at `first`, in the order of `spec_columns.sql`.
pub(crate) fn spec(row: &Row, first: usize) -> Result<JobSpec, PgError> {
    Ok(JobSpec {
        job_type: job_type(text(row, first)?)?,
        key: text_or_null(row, first + 1)?.map(key).transpose()?,
        queue: QueueName::new(text(row, first + 2)?).map_err(|error| damaged("queue", error))?,
        needs: Needs::parse(text(row, first + 3)?).map_err(|error| damaged("needs", error))?,
        priority: get(row, first + 4)?,
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
        throttle_factor: match get::<Option<i32>>(row, first + 16)? {
            Some(_) => bits(row, first + 16)?,
            None => 1,
        },
        timeouts: Timeouts {
            total_ms: ms_or_null(row, first + 17)?,
            silence_ms: ms_or_null(row, first + 18)?,
        },
        after: match text_or_null(row, first + 19)? {
            Some(text) => ids(from_json::<Vec<i64>>("after", text)?)?.into(),
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

fn retry(row: &Row, first: usize) -> Result<RetryPolicy, PgError> {
    let ms = get::<i64>(row, first + 2)?.cast_unsigned();
    let cap_ms = || {
        let cap = get::<Option<i64>>(row, first + 3)?.ok_or_else(|| damaged("backoff", "it has no cap"))?;
        Ok::<_, PgError>(cap.cast_unsigned())
    };
    let backoff = match get::<i16>(row, first + 1)? {
        0 => Backoff::Constant { ms },
        1 => Backoff::Linear { ms, cap_ms: cap_ms()? },
        2 => Backoff::Exponential { ms, cap_ms: cap_ms()? },
        other => return Err(damaged("backoff", other)),
    };
    let set: i16 = get(row, first + 4)?;
    let on: Vec<_> = Outcome::ALL.into_iter().filter(|&outcome| set & 1 << outcome as i16 != 0).collect();
    let max_attempts = u16::try_from(get::<i32>(row, first)?).map_err(|error| damaged("attempts", error))?;
    Ok(RetryPolicy { max_attempts, backoff, on: OutcomeSet::of(&on), at_most_once: false })
}

fn ms_or_null(row: &Row, column: usize) -> Result<Option<u64>, PgError> {
    Ok(get::<Option<i64>>(row, column)?.map(i64::cast_unsigned))
}

pub(crate) fn owner(text: &str) -> Result<Owner, PgError> {
    Owner::new(text).map_err(|error| damaged("owner", error))
}

/// JSON list of tags.
pub(crate) fn tags(text: &str) -> Result<Box<[Tag]>, PgError> {
    let texts: Vec<String> = from_json("tags", text)?;
    texts.iter().map(|tag| Tag::new(tag).map_err(|error| damaged("tag", error))).collect()
}
