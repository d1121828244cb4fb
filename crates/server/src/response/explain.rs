//! Wire form of the reasons why a job is not running: text for people, data for programs.

mod causes;
mod fix;
mod scoped;

use jobhall_core::needs::{Number, Unmet};
use jobhall_core::{Class, JobId, StateName, Time, WorkerName};
use jobhall_engine::{
    Blocker, EndWhy, ExpectedStart, Explanation, Format, LimitOf, LimitWhy, Missing, TooLarge, UsedUp, Why,
    WorkerWhy, unserved,
};
use jobhall_protocol as wire;
use jobhall_protocol::{Span, Timestamp};
use serde_json::{Map, Value, json};

pub(crate) use causes::causes;
pub(crate) use scoped::{named, scoped};

/// How times and durations are written.
const FORMAT: Format = Format { time: moment, duration: |ms| Span(ms).to_string() };

/// Why a job is not running. `causes` are the ended jobs that ended it, the nearest first.
pub(crate) fn explanation(explanation: &Explanation, causes: &[(JobId, EndWhy)]) -> wire::Explanation {
    let reason = |why: &Why| reason_with(explanation.id, why, causes);
    wire::Explanation {
        id: explanation.id.get(),
        state: explanation.state.to_string(),
        reasons: explanation.why.iter().map(reason).collect(),
    }
}

fn reason(id: JobId, why: &Why) -> wire::Reason {
    let (text, fix) = (why.text(FORMAT), fix::fix(id, why));
    wire::Reason { code: code(why).to_owned(), text, fix, data: data(why) }
}

/// The same with the jobs that ended a job, which have the error to look at.
fn reason_with(id: JobId, why: &Why, causes: &[(JobId, EndWhy)]) -> wire::Reason {
    let mut reason = reason(id, why);
    if let (Why::Ended(_), Some((root, end))) = (why, causes.last()) {
        let lines = causes.iter().map(|(job, end)| format!("\n  job {job}: {end}"));
        reason.text.extend(lines);
        reason.fix = Some(fix::of_dependent(id, *root, end));
        let causes = causes.iter().map(|(job, end)| {
            let mut cause = ended(end);
            cause["job"] = json!(job.get());
            cause
        });
        reason.data.insert("causes".to_owned(), causes.collect());
    }
    reason
}

fn code(why: &Why) -> &'static str {
    match why {
        Why::NotDue(_) => "not_due",
        Why::Window { .. } => "window",
        Why::Jitter { .. } => "jitter",
        Why::Backoff { .. } => "backoff",
        Why::KeyHeld(_) => "key_held",
        Why::DependenciesEnded => "dependencies_ended",
        Why::Dependencies { .. } => "dependencies",
        Why::GroupCancelled(_) => "group_cancelled",
        Why::NoWorkers(_) => "no_workers",
        Why::NoMatchingWorker(_) => "no_matching_worker",
        Why::NoVacancy(_) => "no_vacancy",
        Why::WorkersPaused { .. } => "workers_paused",
        Why::TooLarge(_) => "too_large",
        Why::UsedUp(_) => "used_up",
        Why::ReservedForOther { .. } => "reserved_for_other",
        Why::Reserved(_) => "reserved",
        Why::Avoids(_) => "avoids",
        Why::Dispatching => "dispatching",
        Why::NotAccepted(_) => "not_accepted",
        Why::Running(_) => "running",
        Why::Silent { .. } => "silent",
        Why::Lost { .. } => "lost",
        Why::Cancelling(_) => "cancelling",
        Why::WaitsForJobs { .. } => "waits_for_jobs",
        Why::WaitsForRoom(_) => "waits_for_room",
        Why::WaitsExternal { .. } => "waits_external",
        Why::TimingOut { .. } => "timing_out",
        Why::LongerThanExpected { .. } => "longer_than_expected",
        Why::StorageUnavailable => "storage_unavailable",
        Why::Paused(_) => "paused",
        Why::OnHold => "on_hold",
        Why::Limited(_) => "limited",
        Why::Ended(ended) if ended.dependency.is_some() => "dependency",
        Why::Ended(ended) => ended.state.as_str(),
        Why::Succeeded => "succeeded",
    }
}

/// The names and numbers in the text, as data. A reason without any has no data.
fn data(why: &Why) -> Map<String, Value> {
    let data = match why {
        Why::NotDue(at) => json!({ "run_at": moment(*at) }),
        Why::Window { windows, opens } => json!({ "windows": windows.to_string(), "opens": moment(*opens) }),
        Why::Jitter { schedule, run_at } => {
            json!({ "schedule": schedule.to_string(), "run_at": moment(*run_at) })
        }
        Why::Backoff { run_at, error } => json!({ "run_at": moment(*run_at), "reason": error.reason }),
        Why::KeyHeld(holder) => blocker("job", holder),
        Why::Dependencies { first, more } => {
            let jobs: Vec<_> = first.iter().map(|job| blocker("id", job)).collect();
            json!({ "jobs": jobs, "more": more })
        }
        Why::NoWorkers(class) => wanted(class),
        Why::GroupCancelled(group) => json!({ "group": group.get() }),
        Why::NoMatchingWorker(workers) => {
            let all: Vec<_> = workers.iter().map(unsuited).collect();
            json!({ "workers": all, "unserved": unserved(workers) })
        }
        Why::TooLarge(large) => json!({ "resources": large.iter().map(too_large).collect::<Vec<_>>() }),
        Why::NoVacancy(workers) | Why::Avoids(workers) => json!({ "workers": names(workers) }),
        Why::WorkersPaused { paused, draining } => {
            json!({ "paused": names(paused), "draining": names(draining) })
        }
        Why::UsedUp(workers) => json!({ "workers": workers.iter().map(used_up).collect::<Vec<_>>() }),
        Why::ReservedForOther { worker, job } => json!({ "worker": worker.to_string(), "job": job.get() }),
        Why::Reserved(worker)
        | Why::NotAccepted(worker)
        | Why::Running(worker)
        | Why::Cancelling(worker)
        | Why::WaitsForRoom(worker) => json!({ "worker": worker.to_string() }),
        Why::Silent { worker, silent_ms, until, ends, returned } => json!({
            "worker": worker.to_string(), "silent_ms": silent_ms, "until": moment(*until),
            "then": if *ends { "crashed" } else { "retried" }, "returned": returned,
        }),
        Why::Lost { attempts, most, worker, run_at } => json!({
            "attempts": attempts, "most": most, "worker": worker.as_ref().map(ToString::to_string),
            "run_at": run_at.map(moment),
        }),
        Why::WaitsForJobs { jobs: some, open } => json!({ "jobs": jobs(some), "open": open }),
        Why::WaitsExternal { until, attempt } => json!({ "until": moment(*until), "attempt": attempt }),
        Why::TimingOut { worker, .. } => json!({ "worker": worker.to_string() }),
        Why::LongerThanExpected { expected_ms, worked_ms } => {
            json!({ "expected": Span(*expected_ms).to_string(), "worked": Span(*worked_ms).to_string() })
        }
        Why::Paused(of) => owner(of),
        Why::Limited(limited) => limit(limited),
        Why::Ended(end) => ended(end),
        Why::DependenciesEnded
        | Why::Succeeded
        | Why::Dispatching
        | Why::StorageUnavailable
        | Why::OnHold => Value::Null,
    };
    match data {
        Value::Object(data) => data,
        _ => Map::new(),
    }
}

fn moment(at: Time) -> String {
    Timestamp(at).to_string()
}

fn names(workers: &[WorkerName]) -> Vec<String> {
    workers.iter().map(ToString::to_string).collect()
}

fn ids(jobs: &[JobId]) -> Vec<u64> {
    jobs.iter().map(|id| id.get()).collect()
}

fn jobs(some: &[(JobId, StateName)]) -> Vec<Value> {
    some.iter().map(|(id, state)| json!({ "id": id.get(), "state": state.to_string() })).collect()
}

/// A job that another one waits for, and why it is not running itself.
fn blocker(name: &str, blocker: &Blocker) -> Value {
    let why = blocker.why.as_deref().map(|why| reason(blocker.job, why));
    json!({ name: blocker.job.get(), "state": blocker.state.to_string(), "why": why })
}

/// What a worker must match.
fn wanted(class: &Class) -> Value {
    let Class { queue, job_type, needs, uses } = class;
    json!({
        "type": job_type.to_string(), "queue": queue.to_string(), "needs": needs.to_string(), "uses": uses.to_string(),
    })
}

fn ended(end: &EndWhy) -> Value {
    json!({
        "state": end.state.to_string(),
        "outcome": end.outcome.to_string(),
        "reason": end.error.reason,
        "explanation": end.error.explanation,
        "attempt": end.tries,
        "max_attempts": end.max_attempts,
        "lost": end.lost,
        "dependency": end.dependency.map(JobId::get),
    })
}

/// A number for programs; its text is already a JSON number.
fn number(number: Number) -> Value {
    let text = number.to_string();
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

fn terms(unmet: &[Unmet]) -> Vec<Value> {
    unmet.iter().map(|one| json!({ "term": one.term, "name": one.name, "why": one.to_string() })).collect()
}

fn unsuited(worker: &WorkerWhy) -> Value {
    json!({
        "worker": worker.worker.to_string(),
        "needs": terms(&worker.needs),
        "uses": terms(&worker.uses),
        "accepts": terms(&worker.accepts),
    })
}

fn too_large(large: &TooLarge) -> Value {
    let largest = large.largest.as_ref();
    json!({
        "name": large.name,
        "term": large.term,
        "largest": largest.map(|(most, _)| number(*most)),
        "worker": largest.map(|(_, worker)| worker.to_string()),
    })
}

fn used_up(used: &UsedUp) -> Value {
    let missing = used.missing.iter().map(|short| {
        let (asked, left, total) = (number(short.asked), number(short.left), number(short.total));
        json!({ "name": short.name, "asked": asked, "left": left, "total": total })
    });
    let missing: Vec<_> = missing.collect();
    json!({ "worker": used.worker.to_string(), "missing": missing, "jobs": ids(&used.jobs) })
}

fn owner(of: &LimitOf) -> Value {
    match of {
        LimitOf::Queue(name) => json!({ "queue": name.to_string() }),
        LimitOf::Type(name) => json!({ "type": name.to_string() }),
    }
}

fn limit(limited: &LimitWhy) -> Value {
    let mut data = owner(&limited.of);
    let limit = &limited.limit;
    let (missing, behind) = match limited.missing {
        Missing::Places => ("places", None),
        Missing::Tokens => ("tokens", None),
        Missing::Behind(job) => ("turn", Some(job.get())),
    };
    let (expected_start, not_before) = match limited.start {
        Some(ExpectedStart::At(at) | ExpectedStart::About(at)) => (Some(moment(at)), None),
        Some(ExpectedStart::NotBefore(at)) => (None, Some(moment(at))),
        None => (None, None),
    };
    let ahead = limited.ahead;
    let more = [
        ("by", json!(limit.by.as_ref().map(ToString::to_string))),
        ("value", json!(limited.value)),
        ("concurrency", json!(limit.concurrency)),
        ("weight", json!(limited.weight)),
        ("taken", json!(limited.taken)),
        ("jobs", json!(ids(&limited.by))),
        ("holders", json!(limited.jobs)),
        ("missing", json!(missing)),
        ("behind", json!(behind)),
        ("ahead", json!(ahead.jobs)),
        ("more_ahead", json!(ahead.more)),
        ("position", json!((!ahead.more).then_some(ahead.jobs + 1))),
        ("expected_start", json!(expected_start)),
        ("not_before", json!(not_before)),
    ];
    if let Value::Object(data) = &mut data {
        data.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    data
}
