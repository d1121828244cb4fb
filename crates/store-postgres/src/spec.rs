//! What was asked for as columns and as a row.

use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{
    Backoff, GroupId, JobId, Json, Key, Outcome, OutcomeSet, Owner, QueueName, RetryPolicy, ScheduleName,
    Spec, Tag, Timeouts, Windows,
};
use tokio_postgres::Row;

use crate::row::{
    bits, flag, from_json, get, ids, job_id_or_null, job_type, key, number, text, text_or_null, time, to_json,
};
use crate::shapes::Shapes;
use crate::trouble::{Trouble, damaged};
use crate::wire::Step;

/// Columns of `specs`, in the order of the parameters of `insert_spec` and `replace_spec`.
#[derive(Default)]
pub(crate) struct Specs<'a> {
    id: Vec<i64>,
    job_type: Vec<&'a str>,
    key: Vec<Option<&'a str>>,
    queue: Vec<&'a str>,
    needs: Vec<&'a str>,
    priority: Vec<i32>,
    max_attempts: Vec<i32>,
    backoff: Vec<i16>,
    backoff_ms: Vec<i64>,
    backoff_cap_ms: Vec<Option<i64>>,
    retry_on: Vec<i16>,
    created_at: Vec<i64>,
    retry_of: Vec<Option<i64>>,
    params: Vec<&'a str>,
    uses: Vec<Option<&'a str>>,
    avoid: Vec<Option<bool>>,
    windows: Vec<Option<&'a str>>,
    throttle_factor: Vec<Option<i32>>,
    total_ms: Vec<Option<i64>>,
    silence_ms: Vec<Option<i64>>,
    after: Vec<Option<String>>,
    after_any: Vec<Option<bool>>,
    parent: Vec<Option<i64>>,
    group_id: Vec<Option<i64>>,
    attached: Vec<Option<bool>>,
    copy_of: Vec<Option<i64>>,
    owner: Vec<Option<&'a str>>,
    tags: Vec<Option<String>>,
    schedule: Vec<Option<&'a str>>,
    /// Whether one of them asks for something in particular.
    odd: bool,
}

impl<'a> Specs<'a> {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    /// What is asked for by a job.
    pub(crate) fn push(&mut self, id: JobId, spec: &'a Spec) -> Result<(), Trouble> {
        let (backoff, ms, cap_ms) = match spec.retry.backoff {
            Backoff::Constant { ms } => (0, ms, None),
            Backoff::Linear { ms, cap_ms } => (1, ms, Some(cap_ms)),
            Backoff::Exponential { ms, cap_ms } => (2, ms, Some(cap_ms)),
        };
        self.id.push(number(id));
        self.job_type.push(spec.job_type.as_str());
        self.key.push(spec.key.as_ref().map(Key::as_str));
        self.queue.push(spec.queue.as_str());
        self.needs.push(spec.needs.as_str());
        self.priority.push(spec.priority);
        self.max_attempts.push(spec.retry.max_attempts.into());
        self.backoff.push(backoff);
        self.backoff_ms.push(ms.cast_signed());
        self.backoff_cap_ms.push(cap_ms.map(u64::cast_signed));
        self.retry_on.push(outcome_bits(spec.retry.on));
        self.created_at.push(spec.created_at.as_ms());
        self.retry_of.push(spec.retry_of.map(number));
        self.params.push(spec.params.as_str());
        self.odd |= !spec.is_plain() || spec.retry_of.is_some();
        self.push_wishes(spec);
        self.push_company(spec)
    }

    /// When and where it may run.
    fn push_wishes(&mut self, spec: &'a Spec) {
        self.uses.push(Some(spec.uses.as_str()).filter(|uses| !uses.is_empty()));
        self.avoid.push(spec.avoid.then_some(true));
        self.windows.push(Some(spec.windows.as_str()).filter(|windows| !windows.is_empty()));
        let factor = spec.throttle_factor;
        self.throttle_factor.push(Some(factor.cast_signed()).filter(|_| factor != 1));
        self.total_ms.push(spec.timeouts.total_ms.map(u64::cast_signed));
        self.silence_ms.push(spec.timeouts.silence_ms.map(u64::cast_signed));
    }

    /// Whom it belongs to and comes after.
    fn push_company(&mut self, spec: &'a Spec) -> Result<(), Trouble> {
        let after: Vec<u64> = spec.after.iter().map(|id| id.get()).collect();
        let tags: Vec<&str> = spec.tags.iter().map(Tag::as_str).collect();
        self.after.push((!after.is_empty()).then(|| to_json(&after)).transpose()?);
        self.after_any.push(spec.after_any.then_some(true));
        self.parent.push(spec.parent.map(number));
        self.group_id.push(spec.group.map(|group| group.get().cast_signed()));
        self.attached.push(spec.attached.then_some(true));
        self.copy_of.push(spec.copy_of.map(number));
        self.owner.push(spec.owner.as_ref().map(Owner::as_str));
        self.tags.push((!tags.is_empty()).then(|| to_json(&tags)).transpose()?);
        self.schedule.push(spec.schedule.as_ref().map(ScheduleName::as_str));
        Ok(())
    }

    /// Those of new jobs. Where none of them is odd, half the columns are not sent, and the rest as shapes.
    pub(crate) fn inserted(self) -> Vec<Step<'a>> {
        if self.odd {
            return vec![self.step(include_str!("sql/insert_spec.sql"))];
        }
        let parts = Shapes::of(self.id.len(), |a, b| self.asked_alike(a, b));
        let steps = parts.iter().map(|part| {
            let step = Step::new(include_str!("sql/insert_spec_plain.sql")).with(part.rows(&self.id));
            let step = step.with(part.rows(&self.key)).with(part.rows(&self.params));
            let step = step.with(part.numbers.clone()).with(part.each(&self.job_type));
            let step = step.with(part.each(&self.queue)).with(part.each(&self.needs));
            let step = step.with(part.each(&self.priority)).with(part.each(&self.max_attempts));
            let step = step.with(part.each(&self.backoff)).with(part.each(&self.backoff_ms));
            let step = step.with(part.each(&self.backoff_cap_ms)).with(part.each(&self.retry_on));
            step.with(part.each(&self.created_at))
        });
        steps.collect()
    }

    /// Whether two that are not odd differ in nothing but id, key and params.
    fn asked_alike(&self, a: usize, b: usize) -> bool {
        let named = |row: usize| (self.job_type[row], self.queue[row], self.needs[row]);
        let tried = |row: usize| {
            let pause = (self.backoff[row], self.backoff_ms[row], self.backoff_cap_ms[row]);
            (self.created_at[row], self.priority[row], self.max_attempts[row], pause, self.retry_on[row])
        };
        tried(a) == tried(b) && named(a) == named(b)
    }

    /// For `insert_spec` and `replace_spec`.
    pub(crate) fn step(self, sql: &'static str) -> Step<'a> {
        let step = Step::new(sql).with(self.id).with(self.job_type).with(self.key).with(self.queue);
        let step = step.with(self.needs).with(self.priority).with(self.max_attempts).with(self.backoff);
        let step = step.with(self.backoff_ms).with(self.backoff_cap_ms).with(self.retry_on);
        let step = step.with(self.created_at).with(self.retry_of).with(self.params).with(self.uses);
        let step = step.with(self.avoid).with(self.windows).with(self.throttle_factor).with(self.total_ms);
        let step = step.with(self.silence_ms).with(self.after).with(self.after_any).with(self.parent);
        let step = step.with(self.group_id).with(self.attached).with(self.copy_of).with(self.owner);
        step.with(self.tags).with(self.schedule)
    }
}

fn outcome_bits(set: OutcomeSet) -> i16 {
    Outcome::ALL.into_iter().filter(|&outcome| set.contains(outcome)).fold(0, |bits, o| bits | 1 << o as i16)
}

/// A spec whose first column is at `first`, in the order of `job.sql`.
pub(crate) fn spec(row: &Row, first: usize) -> Result<Spec, Trouble> {
    Ok(Spec {
        job_type: job_type(text(row, first)?)?,
        key: text_or_null(row, first + 1)?.map(key).transpose()?,
        queue: QueueName::new(text(row, first + 2)?).map_err(|error| damaged("queue", error))?,
        needs: Needs::parse(text(row, first + 3)?).map_err(|error| damaged("needs", error))?,
        priority: get(row, first + 4)?,
        retry: retry(row, first + 5)?,
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

fn retry(row: &Row, first: usize) -> Result<RetryPolicy, Trouble> {
    let ms = get::<i64>(row, first + 2)?.cast_unsigned();
    let cap_ms = || {
        let cap = get::<Option<i64>>(row, first + 3)?.ok_or_else(|| damaged("backoff", "it has no cap"))?;
        Ok::<_, Trouble>(cap.cast_unsigned())
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
    Ok(RetryPolicy { max_attempts, backoff, on: OutcomeSet::of(&on) })
}

fn ms_or_null(row: &Row, column: usize) -> Result<Option<u64>, Trouble> {
    Ok(get::<Option<i64>>(row, column)?.map(i64::cast_unsigned))
}

/// An owner.
pub(crate) fn owner(text: &str) -> Result<Owner, Trouble> {
    Owner::new(text).map_err(|error| damaged("owner", error))
}

/// JSON list of tags.
pub(crate) fn tags(text: &str) -> Result<Box<[Tag]>, Trouble> {
    let texts: Vec<String> = from_json("tags", text)?;
    texts.iter().map(|tag| Tag::new(tag).map_err(|error| damaged("tag", error))).collect()
}
