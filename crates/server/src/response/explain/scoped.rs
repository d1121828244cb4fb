//! An explanation for a token that is limited to queues. Workers serve all queues, and limits of types hold for all
//! queues, so other workers and jobs outside of the scope are counted, not named. The workers that hold or held the job
//! are named: they are among its attempts.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jobhall_core::{JobId, StateName};
use jobhall_engine::{Blocker, EndWhy, Explanation, Missing, Why, WorkerWhy};
use jobhall_protocol as wire;
use serde_json::{Map, Value, json};

use super::{reason, reason_with};

/// The other jobs that an explanation names.
pub(crate) fn named(explanation: &Explanation) -> Vec<JobId> {
    let states = |jobs: &[(JobId, StateName)]| jobs.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    let of = |why: &Why| match why {
        Why::KeyHeld(holder) => vec![holder.job],
        Why::Dependencies { first, .. } => first.iter().map(|blocker| blocker.job).collect(),
        Why::WaitsForJobs { jobs, .. } => states(jobs),
        Why::Limited(limited) => match limited.missing {
            Missing::Behind(job) => vec![job],
            Missing::Places | Missing::Tokens => limited.by.clone(),
        },
        _ => Vec::new(),
    };
    explanation.why.iter().flat_map(of).collect()
}

/// Why a job is not running, without other workers and with no other jobs than these.
pub(crate) fn scoped(
    explanation: &Explanation,
    seen: &HashSet<JobId>,
    causes: &[(JobId, EndWhy)],
) -> wire::Explanation {
    let id = explanation.id;
    let reason = |why: &Why| match why {
        Why::Ended(_) => reason_with(id, why, causes),
        _ => limited(id, why, seen),
    };
    let mut reasons: Vec<_> = explanation.why.iter().map(reason).collect();
    // Reasons that differ by a name alone are the same without it.
    reasons.dedup();
    wire::Explanation { id: id.get(), state: explanation.state.to_string(), reasons }
}

/// Every reason is listed, so that a new one is not shown before someone has decided what it may name.
fn limited(id: JobId, why: &Why, seen: &HashSet<JobId>) -> wire::Reason {
    let of_seen = |jobs: &[(JobId, StateName)]| -> Vec<_> {
        jobs.iter().filter(|(id, _)| seen.contains(id)).copied().collect()
    };
    match why {
        Why::KeyHeld(holder) if !seen.contains(&holder.job) => {
            told("key_held", "its key is held by another job, which must end first", json!({}))
        }
        Why::Dependencies { first, more } => {
            let shown = first.iter().filter(|blocker| seen.contains(&blocker.job));
            let shown: Vec<_> = shown.map(without_why).collect();
            let open = first.len() + more;
            if shown.is_empty() {
                let text = format!("it depends on {}, which must end first", count(open, "other job"));
                return told("dependencies", &text, json!({ "jobs": [], "more": open }));
            }
            reason(id, &Why::Dependencies { more: open - shown.len(), first: shown })
        }
        Why::KeyHeld(holder) => reason(id, &Why::KeyHeld(without_why(holder))),
        Why::WaitsForJobs { jobs, open } => {
            reason(id, &Why::WaitsForJobs { jobs: of_seen(jobs), open: *open })
        }
        Why::Silent { worker, silent_ms, until, ends, .. } => {
            let (worker, returned) = (worker.clone(), false);
            let (silent_ms, until, ends) = (*silent_ms, *until, *ends);
            reason(id, &Why::Silent { worker, silent_ms, until, ends, returned })
        }
        Why::NoMatchingWorker(workers) => no_match(workers),
        Why::TooLarge(large) => {
            let terms: Vec<_> = large.iter().map(|large| &*large.term).collect();
            let text = format!("it uses more than any worker has: {}", terms.join(", "));
            let resources = large.iter().map(|large| json!({ "name": large.name, "term": large.term }));
            told("too_large", &text, json!({ "resources": resources.collect::<Vec<_>>() }))
        }
        Why::NoVacancy(workers) => {
            let n = workers.len();
            let text = format!("no matching worker has a free slot: {}", count(n, "busy worker"));
            told("no_vacancy", &text, json!({ "worker_count": n }))
        }
        Why::WorkersPaused { paused, draining } => {
            let (paused, draining) = (paused.len(), draining.len());
            let text = format!(
                "matching workers take no new jobs: {} paused, {} draining",
                count(paused, "worker"),
                count(draining, "worker")
            );
            told("workers_paused", &text, json!({ "paused_count": paused, "draining_count": draining }))
        }
        Why::UsedUp(workers) => {
            let (n, missing) = (workers.len(), workers.iter().flat_map(|used| &used.missing));
            let names: BTreeSet<_> = missing.map(|short| short.name.to_string()).collect();
            let list = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let text = format!("other jobs use what it would use on {}: {list}", count(n, "worker"));
            told("used_up", &text, json!({ "worker_count": n, "resources": names }))
        }
        Why::ReservedForOther { .. } => {
            let text = "what is free on a matching worker is reserved for another job, which has waited long";
            told("reserved_for_other", text, json!({}))
        }
        Why::Reserved(_) => {
            let text =
                "a worker is reserved for it, because it has waited long: later jobs leave enough for it";
            told("reserved", text, json!({}))
        }
        Why::Limited(limit) => {
            let mut limit = limit.clone();
            limit.by.retain(|job| seen.contains(job));
            let hidden = matches!(limit.missing, Missing::Behind(job) if !seen.contains(&job));
            let mut reason = reason(id, &Why::Limited(limit.clone()));
            if hidden {
                reason.text =
                    format!("a limit of {}: another job precedes it and does not fit yet", limit.of);
                reason.data.insert("behind".to_owned(), Value::Null);
            }
            reason
        }
        Why::NotDue(_)
        | Why::Window { .. }
        | Why::Jitter { .. }
        | Why::Backoff { .. }
        | Why::DependenciesEnded
        | Why::GroupCancelled(_)
        | Why::NoWorkers(_)
        | Why::Avoids(_)
        | Why::Dispatching
        | Why::NotAccepted(_)
        | Why::Running(_)
        | Why::Lost { .. }
        | Why::Cancelling(_)
        | Why::WaitsForRoom(_)
        | Why::WaitsExternal { .. }
        | Why::TimingOut { .. }
        | Why::LongerThanExpected { .. }
        | Why::StorageUnavailable
        | Why::Paused(_)
        | Why::OnHold
        | Why::Ended(_)
        | Why::Succeeded => reason(id, why),
    }
}

/// The reasons of another job may name workers and jobs. They are given by the explanation of that job.
fn without_why(blocker: &Blocker) -> Blocker {
    Blocker { why: None, ..blocker.clone() }
}

/// How many workers do not meet each term of the job, and how many accept other jobs only.
fn no_match(workers: &[WorkerWhy]) -> wire::Reason {
    let mut terms: BTreeMap<&str, usize> = BTreeMap::new();
    for unmet in workers.iter().flat_map(|worker| worker.needs.iter().chain(&worker.uses)) {
        *terms.entry(&*unmet.term).or_default() += 1;
    }
    let others = workers.iter().filter(|worker| !worker.accepts.is_empty()).count();
    let mut text = format!("none of {} matches", count(workers.len(), "connected worker"));
    for (term, n) in &terms {
        text += &format!("\n  {term}: not met by {}", count(*n, "worker"));
    }
    if others > 0 {
        text += &format!("\n  its type or queue: not accepted by {}", count(others, "worker"));
    }
    let unmet: Vec<_> = terms.iter().map(|(term, n)| json!({ "term": term, "worker_count": n })).collect();
    let data = json!({ "worker_count": workers.len(), "unmet": unmet, "not_accepting": others });
    told("no_matching_worker", &text, data)
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn told(code: &str, text: &str, data: Value) -> wire::Reason {
    let data = match data {
        Value::Object(data) => data,
        _ => Map::new(),
    };
    wire::Reason { code: code.to_owned(), text: text.to_owned(), fix: None, data }
}
