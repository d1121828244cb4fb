//! Conversion from engine values to wire types.

use std::borrow::Cow;

use jobhall_core::{
    Failure, Job, JobStatus, Json, Lease, PastAttempt, Rhythm, State, Time, TypeConfig, TypeName,
};
use jobhall_engine::{Assignment, Shown, ShownGroup, ShownSchedule};
use jobhall_protocol as wire;
use jobhall_protocol::{Span, Timestamp};
use serde_json::value::RawValue;

use crate::auth::tokens::Tokens;
use crate::error::ApiError;

/// Maximum size of the data of errors of ended attempts that are shown with a job, from the newest on.
const DATA_BYTES: usize = 64 << 10;

/// A document that was validated when it was received.
pub(crate) fn raw(json: &Json) -> Result<Box<RawValue>, ApiError> {
    RawValue::from_string(json.as_str().to_owned()).map_err(ApiError::internal)
}

fn failure(failure: &Failure) -> Result<wire::Failure, ApiError> {
    let data = failure.data.as_ref().map(raw).transpose()?;
    Ok(wire::Failure { reason: failure.reason.clone(), explanation: failure.explanation.clone(), data })
}

/// A job without its attempts, as shown in lists.
pub(crate) fn job(job: &Job, now: Time) -> Result<wire::Job, ApiError> {
    let (spec, status) = (&job.spec, as_of(job, now));
    let lease = status.state.lease();
    let result = match &status.state {
        State::Succeeded(success) => Some(raw(&success.value)?),
        _ => None,
    };
    Ok(wire::Job {
        id: job.id.get(),
        disposition: None,
        params_differ: false,
        job_type: spec.job_type.to_string(),
        key: spec.key.as_ref().map(ToString::to_string),
        queue: spec.queue.to_string(),
        params: raw(&spec.params)?,
        needs: spec.needs.to_string(),
        uses: spec.uses.to_string(),
        avoid: spec.avoid,
        windows: spec.windows.to_string(),
        schedule: spec.schedule.as_ref().map(ToString::to_string),
        priority: spec.priority,
        throttle_factor: spec.throttle_factor,
        hold: status.hold,
        state: status.name(now).to_string(),
        attempt: status.attempt,
        max_attempts: spec.retry.max_attempts,
        lost: status.lost,
        snoozed: status.snoozed,
        at_most_once: spec.retry.at_most_once,
        run_at: Timestamp(status.run_at),
        created_at: Timestamp(spec.created_at),
        updated_at: Timestamp(status.updated_at),
        started_at: lease.and_then(|lease| lease.started_at).map(Timestamp),
        completed_at: status.state.ended_at().map(Timestamp),
        worker: lease.map(|lease| lease.worker.to_string()),
        progress: Vec::new(),
        result,
        result_artifact: None,
        error: status.state.error().map(failure).transpose()?,
        retry_of: spec.retry_of.map(|id| id.get()),
        after: spec.after.iter().map(|id| id.get()).collect(),
        after_any: spec.after_any,
        group: spec.group.map(|id| id.get()),
        attached: spec.attached,
        copy_of: spec.copy_of.map(|id| id.get()),
        owner: spec.owner.as_ref().map(ToString::to_string),
        tags: spec.tags.iter().map(ToString::to_string).collect(),
        cancel_requested: status.state.leased().is_some_and(|held| held.is_cancelled()),
        timing_out: status.state.leased().is_some_and(|held| held.stop.is_some() && !held.is_cancelled()),
        longer_than_expected: false,
        timeouts: spec.timeouts.into(),
        parent: spec.parent.map(|id| id.get()),
        attempts: Vec::new(),
    })
}

/// The current state: when a waiting job starts depends on its windows, which is not stored.
fn as_of(job: &Job, now: Time) -> Cow<'_, JobStatus> {
    let windows = &job.spec.windows;
    if windows.is_always() || !matches!(job.status.state, State::Queued(_)) {
        return Cow::Borrowed(&job.status);
    }
    Cow::Owned(JobStatus { run_at: windows.start_of(job.status.run_at, now), ..job.status.clone() })
}

/// A job with these ended attempts, its last attempt and its progress.
pub(crate) fn shown(shown: &Shown, past: &[PastAttempt], now: Time) -> Result<wire::Job, ApiError> {
    let mut left = DATA_BYTES;
    let mut attempts = Vec::with_capacity(past.len() + 1);
    for past in past.iter().rev() {
        let data = past.failure.data.as_ref().map_or(0, |data| data.as_str().len());
        attempts.push(past_attempt(&shown.job, past, data <= left)?);
        left = left.saturating_sub(data);
    }
    attempts.reverse();
    attempts.extend(last_attempt(&shown.job)?);
    let progress = shown.progress.clone();
    let longer_than_expected = shown.longer_than_ms.is_some();
    Ok(wire::Job { attempts, progress, longer_than_expected, ..job(&shown.job, now)? })
}

/// An ended attempt, with or without the data of its error.
pub(crate) fn past_attempt(
    job: &Job,
    past: &PastAttempt,
    with_data: bool,
) -> Result<wire::Attempt, ApiError> {
    let Failure { reason, explanation, .. } = &past.failure;
    let error = match with_data {
        true => failure(&past.failure)?,
        false => wire::Failure { reason: reason.clone(), explanation: explanation.clone(), data: None },
    };
    Ok(wire::Attempt {
        id: format!("{}-{}", job.id, past.claim),
        worker: past.worker.to_string(),
        assigned_at: Timestamp(past.assigned_at),
        accepted_at: past.accepted_at.map(Timestamp),
        started_at: past.started_at.map(Timestamp),
        ended_at: Some(Timestamp(past.ended_at)),
        outcome: Some(past.outcome.to_string()),
        error: Some(error),
        progress: past.progress.to_vec(),
    })
}

/// The current attempt, or the attempt that ended the job.
pub(crate) fn last_attempt(job: &Job) -> Result<Option<wire::Attempt>, ApiError> {
    let Some(lease) = job.status.state.lease() else {
        return Ok(None);
    };
    let Lease { worker, assigned_at, accepted_at, started_at, progress, .. } = lease;
    let outcome = match &job.status.state {
        State::Succeeded(success) => Some(success.outcome),
        State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => Some(defeat.outcome),
        _ => None,
    };
    Ok(Some(wire::Attempt {
        id: format!("{}-{}", job.id, job.status.claim),
        worker: worker.to_string(),
        assigned_at: Timestamp(*assigned_at),
        accepted_at: accepted_at.map(Timestamp),
        started_at: started_at.map(Timestamp),
        ended_at: job.status.state.ended_at().map(Timestamp),
        outcome: outcome.map(|outcome| outcome.to_string()),
        error: job.status.state.error().map(failure).transpose()?,
        progress: progress.to_vec(),
    }))
}

/// A job for a worker, with the lease that only the worker receives.
pub(crate) fn assigned(
    assignment: &Assignment,
    lease_ms: u64,
    tokens: &Tokens,
) -> Result<wire::Assigned, ApiError> {
    Ok(wire::Assigned {
        id: assignment.attempt.to_string(),
        lease: format!("{:032x}", assignment.lease.0),
        lease_ms,
        token: tokens.of_attempt(assignment.attempt, assignment.lease),
        job: assigned_job(assignment)?,
    })
}

/// The part of a job that a worker needs.
pub(crate) fn assigned_job(assignment: &Assignment) -> Result<wire::AssignedJob, ApiError> {
    let spec = &assignment.spec;
    Ok(wire::AssignedJob {
        id: assignment.attempt.job.get(),
        job_type: spec.job_type.to_string(),
        key: spec.key.as_ref().map(ToString::to_string),
        queue: spec.queue.to_string(),
        params: raw(&spec.params)?,
        attempt: assignment.number,
        external: assignment.external,
        at_most_once: spec.retry.at_most_once,
        inputs: u32::try_from(spec.after.len()).unwrap_or(u32::MAX),
    })
}

/// A group with the counts of its members, and the jobs that were created with it.
pub(crate) fn group(shown: &ShownGroup, jobs: &[jobhall_core::Submitted]) -> Result<wire::Group, ApiError> {
    let ShownGroup { group, state, counts } = shown;
    Ok(wire::Group {
        id: group.id.get(),
        name: group.name.as_ref().map(ToString::to_string),
        owner: group.owner.as_ref().map(ToString::to_string),
        tags: group.tags.iter().map(ToString::to_string).collect(),
        state: state.to_string(),
        closed: group.closed,
        cancel_requested: group.cancel.is_some(),
        fails: group.fails,
        error: group.cancel.as_ref().map(failure).transpose()?,
        counts: wire::GroupCounts {
            total: counts.total(),
            pending: counts.pending,
            active: counts.active,
            succeeded: counts.succeeded,
            failed: counts.failed,
            crashed: counts.crashed,
            cancelled: counts.cancelled,
        },
        retry_of: group.retry_of.map(|id| id.get()),
        created_at: Timestamp(group.created_at),
        completed_at: group.end.map(|end| Timestamp(end.at)),
        jobs: jobs.iter().map(submitted).collect(),
    })
}

/// The answer to one submitted job.
pub(crate) fn submitted(made: &jobhall_core::Submitted) -> wire::Submitted {
    let (disposition, params_differ) = (made.disposition.to_string(), made.disposition.params_differ());
    wire::Submitted { id: made.id.get(), disposition, params_differ }
}

pub(crate) fn schedule(shown: &ShownSchedule) -> Result<wire::Schedule, ApiError> {
    let schedule = &shown.config.schedule;
    let (cron, every) = match &schedule.when {
        Rhythm::Cron(cron) => (Some(cron.to_string()), None),
        Rhythm::Every { ms, anchor } => (None, Some((Span(*ms), Timestamp(*anchor)))),
    };
    Ok(wire::Schedule {
        name: shown.name.to_string(),
        cron,
        every: every.map(|(span, _)| span),
        anchor: every.map(|(_, anchor)| anchor),
        zone: schedule.zone.to_string(),
        jitter: Span(schedule.jitter_ms),
        catch_up: schedule.catch_up,
        overlap: schedule.overlap,
        paused: schedule.paused,
        job: (&shown.config.job).try_into().map_err(ApiError::internal)?,
        last_tick: shown.last.map(|(tick, _)| Timestamp(tick)),
        last_job: shown.last.map(|(_, id)| id.get()),
        next_tick: shown.next_tick.map(Timestamp),
    })
}

pub(crate) fn type_settings(name: &TypeName, config: &TypeConfig) -> wire::TypeSettings {
    wire::TypeSettings {
        name: name.to_string(),
        retry: config.retry.into(),
        keep_ms: config.keep_ms,
        keep_count: config.keep_count,
        reuse_window_ms: config.reuse_window_ms,
        paused: config.paused,
        limits: config.limits.iter().map(wire::Limit::from).collect(),
        timeouts: config.timeouts.into(),
        expected_ms: config.expected_ms,
        external: config.external,
    }
}

#[cfg(test)]
mod tests {
    use jobhall_core::{JobId, JobSpec, QueueName, Windows};

    use super::*;

    #[test]
    fn a_stored_job_that_missed_its_window_is_told_with_the_next_opening() {
        let noon = Time::from_ms(1_768_478_400_000).unwrap();
        let (job_type, queue) = (TypeName::new("t").unwrap(), QueueName::new("q").unwrap());
        let windows = Windows::parse("12:00-13:00").unwrap();
        let spec = JobSpec { windows, ..JobSpec::plain(job_type, queue, noon) };
        let row =
            Job { id: JobId::new(1).unwrap(), spec: spec.into(), status: JobStatus::queued(noon, noon) };
        let told = |hours: u64| {
            let told = job(&row, noon.plus_ms(hours * 3_600_000)).unwrap();
            (told.state, told.run_at.0)
        };
        assert_eq!(told(0), ("queued".to_owned(), noon));
        let tomorrow = noon.plus_ms(24 * 3_600_000);
        assert_eq!(told(1), ("scheduled".to_owned(), tomorrow));
        assert_eq!(told(24), ("queued".to_owned(), tomorrow));
    }
}
