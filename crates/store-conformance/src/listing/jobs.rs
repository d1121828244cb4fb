//! Jobs and their attempts.

use jobhall_core::{
    Backoff, Job, JobSpec, JobStatus, Json, Lease, Leased, Outcome, PastAttempt, Report, RetryPolicy, State,
    StopWhy, Unsuccessful, Verdict, WaitFor, When,
};
use jobhall_store::Store;

use super::row::{Row, joined};
use crate::wait;

/// The rows of all jobs, oldest first.
pub(super) fn all(store: &dyn Store) -> Vec<Row> {
    let jobs = super::jobs_of(store);
    jobs.iter()
        .flat_map(|job| {
            let past = wait(store.attempts(job.id, 0, usize::MAX)).expect("the attempts");
            of_job(job).into_iter().chain(past.iter().map(attempt)).collect::<Vec<_>>()
        })
        .collect()
}

fn of_job(job: &Job) -> Vec<Row> {
    let Job { id, spec, status } = job;
    let head = Row::new(format!("job {id}"))
        .with("type", &spec.job_type)
        .maybe("key", spec.key.as_ref())
        .with("queue", &spec.queue)
        .with("state", status.state.name())
        .maybe("outcome", status.state.outcome());
    let rows = [head, asked(spec), related(spec), progress(status)];
    rows.into_iter().chain(state(&status.state)).collect()
}

fn asked(spec: &JobSpec) -> Row {
    Row::new("  asked")
        .with("params", spec.params.as_str())
        .time("created_at", Some(spec.created_at))
        .with("needs", format!("{:?}", spec.needs.as_str()))
        .with("uses", format!("{:?}", spec.uses.to_string()))
        .flag("avoid", spec.avoid)
        .with("windows", format!("{:?}", spec.windows.as_str()))
        .with("throttle_factor", spec.throttle_factor)
        .maybe("total_ms", spec.timeouts.total_ms)
        .maybe("silence_ms", spec.timeouts.silence_ms)
        .with("priority", spec.priority)
        .with("retry", policy(&spec.retry))
}

fn policy(RetryPolicy { max_attempts, backoff, on, at_most_once }: &RetryPolicy) -> String {
    let backoff = match backoff {
        Backoff::Constant { ms } => format!("constant:{ms}"),
        Backoff::Linear { ms, cap_ms } => format!("linear:{ms}..{cap_ms}"),
        Backoff::Exponential { ms, cap_ms } => format!("exponential:{ms}..{cap_ms}"),
    };
    let on = joined(Outcome::ALL.into_iter().filter(|&outcome| on.contains(outcome)), ",");
    let once = if *at_most_once { " at_most_once" } else { "" };
    format!("{max_attempts}x {backoff} on:{on}{once}")
}

fn related(spec: &JobSpec) -> Row {
    Row::new("  related")
        .maybe("retry_of", spec.retry_of)
        .list("after", &spec.after)
        .flag("after_any", spec.after_any)
        .maybe("parent", spec.parent)
        .maybe("group", spec.group)
        .flag("attached", spec.attached)
        .maybe("copy_of", spec.copy_of)
        .maybe("owner", spec.owner.as_ref())
        .list("tags", &spec.tags)
        .maybe("schedule", spec.schedule.as_ref())
}

fn progress(status: &JobStatus) -> Row {
    Row::new("  progress")
        .with("rev", status.rev)
        .with("claim", status.claim)
        .with("attempt", status.attempt)
        .with("lost", status.lost)
        .with("snoozed", status.snoozed)
        .with("unaccepted", status.unaccepted)
        .flag("hold", status.hold)
        .time("run_at", Some(status.run_at))
        .time("updated_at", Some(status.updated_at))
        .maybe("again", status.again.as_ref().map(|again| again.params.as_str()))
}

/// The fields of the state besides its name.
fn state(state: &State) -> Vec<Row> {
    match state {
        State::Queued(None) => Vec::new(),
        State::Queued(error) => vec![Row::new("  last").failure("error", error.as_deref())],
        State::Blocked(blocked) => {
            let row = Row::new("  blocked").maybe("by_key_of", blocked.holder);
            vec![row.flag("by_dependencies", blocked.dependencies)]
        }
        State::Assigned(held) | State::Accepted(held) | State::Running(held) => leased(held),
        State::Waiting(waiting) => {
            let row = Row::new("  waits").time("since", Some(waiting.since));
            let row = match waiting.on {
                WaitFor::Jobs => row.with("for", "jobs"),
                WaitFor::External { until } => row.with("for", "external").time("until", Some(until)),
            };
            [vec![row], leased(&waiting.held)].concat()
        }
        State::Succeeded(success) => {
            let row = Row::new("  ended").time("at", Some(success.at)).with("value", success.value.as_str());
            vec![row, lease(&success.last)]
        }
        State::Failed(end) | State::Crashed(end) | State::Cancelled(end) => unsuccessful(end),
    }
}

fn unsuccessful(end: &Unsuccessful) -> Vec<Row> {
    let row = Row::new("  ended").time("at", Some(end.at)).failure("error", Some(&end.failure));
    [row].into_iter().chain(end.last.as_ref().map(lease)).collect()
}

fn leased(held: &Leased) -> Vec<Row> {
    let stop = held.stop.as_ref().map(|stop| {
        let why = match stop.why {
            StopWhy::TimeOut => "time_out",
            StopWhy::Cancel => "cancel",
        };
        Row::new("  stop").with("why", why).time("at", Some(stop.at)).failure("error", Some(&stop.failure))
    });
    let before = held.error.as_ref().map(|error| Row::new("  last").failure("error", Some(error)));
    let early = held.early.as_deref().map(early);
    [Some(lease(&held.lease)), stop, before, early].into_iter().flatten().collect()
}

fn lease(lease: &Lease) -> Row {
    Row::new("  lease")
        .with("id", format!("{:032x}", lease.id.0))
        .with("worker", &lease.worker)
        .time("assigned_at", Some(lease.assigned_at))
        .time("accepted_at", lease.accepted_at)
        .time("started_at", lease.started_at)
        .with("waited_ms", lease.waited_ms)
        .progress(&lease.progress)
}

fn early(report: &Report) -> Row {
    let row = Row::new("  early").with("outcome", report.outcome()).failure("error", report.failure());
    match report {
        Report::Succeeded(value) | Report::Skipped(value) => row.with("value", value.as_str()),
        Report::Failed(_, verdict) | Report::Crashed(_, verdict) | Report::TimedOut(_, verdict) => {
            row.maybe("retry", verdict.as_ref().map(retry))
        }
        Report::Cancelled => row,
    }
}

fn retry(verdict: &Verdict) -> String {
    let when = match verdict.when {
        When::Never => "never".to_owned(),
        When::Now => "now".to_owned(),
        When::In(ms) => format!("in:{ms}"),
        When::Snooze(ms) => format!("snooze:{ms}"),
    };
    format!("{when} {}", verdict.params.as_ref().map_or("", Json::as_str))
}

fn attempt(past: &PastAttempt) -> Row {
    Row::new(format!("  attempt {}", past.claim))
        .with("outcome", past.outcome)
        .with("lease", format!("{:032x}", past.lease.0))
        .with("worker", &past.worker)
        .time("assigned_at", Some(past.assigned_at))
        .time("accepted_at", past.accepted_at)
        .time("started_at", past.started_at)
        .time("ended_at", Some(past.ended_at))
        .failure("error", Some(&past.failure))
        .progress(&past.progress)
}
