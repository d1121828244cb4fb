//! Wire form of the reasons why a job is not running: text for people, data for programs.

use jobhall_core::needs::{Number, Unmet};
use jobhall_core::{JobId, StateName, Time, WorkerName};
use jobhall_engine::{Explanation, LimitOf, LimitWhy, Missing, TooLarge, UsedUp, Why, WorkerWhy};
use jobhall_protocol as wire;
use jobhall_protocol::{Span, Timestamp};
use serde_json::{Map, Value, json};

/// Why a job is not running.
pub(crate) fn explanation(explanation: &Explanation) -> wire::Explanation {
    wire::Explanation {
        id: explanation.id.get(),
        state: explanation.state.to_string(),
        reasons: explanation.why.iter().map(reason).collect(),
    }
}

fn reason(why: &Why) -> wire::Reason {
    let (code, text) = match why {
        Why::NotDue(at) => ("not_due", format!("scheduled to start at {}", Timestamp(*at))),
        Why::Window { windows, opens } => {
            ("window", format!("its windows are closed until {}: {windows}", Timestamp(*opens)))
        }
        Why::Jitter { schedule, run_at } => {
            let at = Timestamp(*run_at);
            ("jitter", format!("schedule {schedule} spreads its jobs and starts this one at {at}"))
        }
        Why::Backoff { run_at, error } => {
            ("backoff", format!("waiting to retry at {}, after: {}", Timestamp(*run_at), error.reason))
        }
        Why::KeyHeld(_) => ("key_held", why.to_string()),
        Why::DependenciesEnded => ("dependencies_ended", why.to_string()),
        Why::Dependencies { .. } => ("dependencies", why.to_string()),
        Why::GroupCancelled(_) => ("group_cancelled", why.to_string()),
        Why::NoWorkers => ("no_workers", why.to_string()),
        Why::NoMatchingWorker(_) => ("no_matching_worker", why.to_string()),
        Why::NoVacancy(_) => ("no_vacancy", why.to_string()),
        Why::TooLarge(_) => ("too_large", why.to_string()),
        Why::UsedUp(_) => ("used_up", why.to_string()),
        Why::ReservedForOther { .. } => ("reserved_for_other", why.to_string()),
        Why::Reserved(_) => ("reserved", why.to_string()),
        Why::Avoids(_) => ("avoids", why.to_string()),
        Why::Dispatching => ("dispatching", why.to_string()),
        Why::NotAccepted(_) => ("not_accepted", why.to_string()),
        Why::Running(_) => ("running", why.to_string()),
        Why::Cancelling(_) => ("cancelling", why.to_string()),
        Why::WaitsForJobs { .. } => ("waits_for_jobs", why.to_string()),
        Why::WaitsForRoom(_) => ("waits_for_room", why.to_string()),
        Why::WaitsExternal { until, attempt } => {
            let text =
                format!("attempt {attempt} waits for an outcome from outside until {}", Timestamp(*until));
            ("waits_external", text)
        }
        Why::TimingOut { .. } => ("timing_out", why.to_string()),
        Why::LongerThanExpected { expected_ms, worked_ms } => {
            let (expected, worked) = (Span(*expected_ms), Span(*worked_ms));
            let text = format!("longer than expected: {worked}; jobs of its type usually take {expected}");
            ("longer_than_expected", text)
        }
        Why::StorageUnavailable => ("storage_unavailable", why.to_string()),
        Why::Paused(_) => ("paused", why.to_string()),
        Why::OnHold => ("on_hold", why.to_string()),
        Why::Limited(limited) => ("limited", limited.words(|at| Timestamp(at).to_string())),
        Why::Completed(_) => ("completed", why.to_string()),
    };
    wire::Reason { code: code.to_owned(), text, data: data(why) }
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
        Why::KeyHeld(job) => json!({ "job": job.get() }),
        Why::Dependencies { first, more } => json!({ "jobs": jobs(first), "more": more }),
        Why::GroupCancelled(group) => json!({ "group": group.get() }),
        Why::NoMatchingWorker(workers) => {
            json!({ "workers": workers.iter().map(unsuited).collect::<Vec<_>>() })
        }
        Why::TooLarge(large) => json!({ "resources": large.iter().map(too_large).collect::<Vec<_>>() }),
        Why::NoVacancy(workers) | Why::Avoids(workers) => json!({ "workers": names(workers) }),
        Why::UsedUp(workers) => json!({ "workers": workers.iter().map(used_up).collect::<Vec<_>>() }),
        Why::ReservedForOther { worker, job } => json!({ "worker": worker.to_string(), "job": job.get() }),
        Why::Reserved(worker)
        | Why::NotAccepted(worker)
        | Why::Running(worker)
        | Why::Cancelling(worker)
        | Why::WaitsForRoom(worker) => json!({ "worker": worker.to_string() }),
        Why::WaitsForJobs { jobs: some, open } => json!({ "jobs": jobs(some), "open": open }),
        Why::WaitsExternal { until, attempt } => json!({ "until": moment(*until), "attempt": attempt }),
        Why::TimingOut { worker, .. } => json!({ "worker": worker.to_string() }),
        Why::LongerThanExpected { expected_ms, worked_ms } => {
            json!({ "expected": Span(*expected_ms).to_string(), "worked": Span(*worked_ms).to_string() })
        }
        Why::Paused(of) => owner(of),
        Why::Limited(limited) => limit(limited),
        Why::Completed(state) => json!({ "state": state.to_string() }),
        Why::DependenciesEnded
        | Why::NoWorkers
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
    let missing = match limited.missing {
        Missing::Places => json!("places"),
        Missing::Tokens(_) => json!("tokens"),
        Missing::Behind(_) => json!("turn"),
    };
    let more = [
        ("by", json!(limit.by.as_ref().map(ToString::to_string))),
        ("value", json!(limited.value)),
        ("concurrency", json!(limit.concurrency)),
        ("weight", json!(limited.weight)),
        ("taken", json!(limited.taken)),
        ("jobs", json!(ids(&limited.by))),
        ("holders", json!(limited.jobs)),
        ("missing", missing),
        (
            "until",
            json!(match limited.missing {
                Missing::Tokens(at) => Some(moment(at)),
                _ => None,
            }),
        ),
        (
            "behind",
            json!(match limited.missing {
                Missing::Behind(job) => Some(job.get()),
                _ => None,
            }),
        ),
    ];
    if let Value::Object(data) = &mut data {
        data.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    data
}
