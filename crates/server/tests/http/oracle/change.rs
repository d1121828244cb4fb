//! Which jobs a token may change.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::actor::Actor;
use super::requests::Asked;

/// All jobs, by id.
pub type Jobs = BTreeMap<u64, Value>;

/// Checks what changed during some requests of an actor. A job out of its reach changes only as a consequence: if a
/// related job within reach has ended, now or in the requests before. Returns the jobs that have ended.
pub fn check(
    actor: &Actor,
    before: &Jobs,
    after: &Jobs,
    ended_before: &BTreeSet<u64>,
    batch: &[Asked],
) -> BTreeSet<u64> {
    let changed = |(id, job): &(&u64, &Value)| after.get(id) != Some(job);
    let reached = |job: &Value| actor.changes(job["queue"].as_str().unwrap());
    let ends = before.iter().filter(|(id, job)| is_open(job) && !after.get(id).is_some_and(is_open));
    let ended: BTreeSet<u64> = ends.filter(|(_, job)| reached(job)).map(|(id, _)| *id).collect();
    let excused = related(before, after, ended.union(ended_before).copied().collect());
    for (id, job) in before.iter().filter(changed).filter(|(_, job)| !reached(job)) {
        assert!(excused.contains(id), "{actor} changed {job} to {:?} by one of {batch:#?}", after.get(id));
    }
    for (id, job) in after.iter().filter(|(id, _)| !before.contains_key(id)) {
        let consequence = job["retry_of"].is_null() && excused.contains(id);
        assert!(reached(job) || consequence, "{actor} made {job} by one of {batch:#?}");
        let named = job["after"].as_array().unwrap().iter().chain([&job["copy_of"], &job["parent"]]);
        for id in named.filter_map(Value::as_u64).filter(|_| reached(job) && !consequence) {
            let seen = after.get(&id).or_else(|| before.get(&id)).is_none_or(reached);
            assert!(seen, "{actor} made {job}, which names job {id}, by one of {batch:#?}");
        }
        // A group has jobs of all queues.
        let grouped = actor.is_limited() && !job["group"].is_null();
        assert!(!grouped, "{actor} made {job} in a group by one of {batch:#?}");
    }
    ended
}

fn is_open(job: &Value) -> bool {
    job["completed_at"].is_null()
}

/// These jobs and all that are related to them, over any number of steps.
fn related(before: &Jobs, after: &Jobs, mut known: BTreeSet<u64>) -> BTreeSet<u64> {
    let all: Vec<_> = before.iter().chain(after).collect();
    if known.is_empty() {
        return known;
    }
    loop {
        let ties: BTreeSet<_> =
            all.iter().filter(|(id, _)| known.contains(id)).flat_map(|(id, job)| ties(**id, job)).collect();
        let more = all.iter().filter(|(id, job)| ties_any(&ties, **id, job)).map(|(id, _)| **id);
        let more: BTreeSet<_> = known.iter().copied().chain(more).collect();
        if more.len() == known.len() {
            return known;
        }
        known = more;
    }
}

fn ties_any(ties_known: &BTreeSet<String>, id: u64, job: &Value) -> bool {
    ties(id, job).iter().any(|tie| ties_known.contains(tie))
}

/// What ties a job to others: two jobs with a common tie are related.
fn ties(id: u64, job: &Value) -> Vec<String> {
    let mut ties = vec![format!("job {id}")];
    let ids = job["after"].as_array().unwrap().iter().chain([&job["copy_of"], &job["parent"]]);
    ties.extend(ids.filter_map(Value::as_u64).map(|id| format!("job {id}")));
    ties.extend(job["group"].as_u64().map(|id| format!("group {id}")));
    ties.extend(job["key"].as_str().map(|key| format!("key {} {key}", job["type"])));
    // Its jobs wait for one place.
    ties.extend((job["type"] == "limited").then(|| "limit".to_owned()));
    ties
}
