//! The verdict on a run: the simulator's checkers on what was sent, received and stored, and additional checks on
//! processes, logs and pages of the API.

use std::collections::BTreeMap;

use jobhall_core::{AttemptId, JobId, Outcome, Report, State};
use jobhall_sim::{BlackBox, Violation};

use super::record::Entry;
use super::storm::Aftermath;
use super::work;

/// Invariants that cannot be checked from outside, and why.
pub const NOT_JUDGED: [(&str, &str); 4] = [
    (
        "order among matching jobs",
        "the knowledge of the leader at the time of a claim is not visible from outside",
    ),
    ("a renewed lease is kept", "a kill loses the time of the last renewal, so a lease may end either way"),
    ("a pause before the next attempt", "how long it must be is known to the hall alone"),
    (
        "the report of a worker process after a cancel",
        "it keeps no record, and a stopped command leaves no trace",
    ),
];

/// The first violation that the simulator's checkers find.
pub fn violation(aftermath: &Aftermath) -> Option<Violation> {
    let mut outside = BlackBox::new(aftermath.stored.clone());
    for entry in &aftermath.book.entries {
        match entry.clone() {
            Entry::Sent(request) => outside.sent(&request),
            Entry::Heard(request, answer, at) => outside.heard(request, answer, at),
            Entry::Assigned(attempt, lease, params, asked_at) => {
                outside.assigned(attempt, lease, &params, asked_at);
            }
        }
    }
    for (attempt, code) in &aftermath.traces.ended {
        if let Some(job) = aftermath.stored.jobs.get(&attempt.job) {
            outside.worked(*attempt, work::report(job, *code));
        }
    }
    for job in aftermath.stored.jobs.values().filter(|job| !work::is_own(job)) {
        if matches!(job.status.state, State::Cancelled(_)) {
            outside.worked(AttemptId { job: job.id, claim: job.status.claim }, Report::Cancelled);
        }
    }
    outside.judge()
}

/// Attempts that began under one leader and ended by a report under the next.
pub fn kept(aftermath: &Aftermath) -> usize {
    let stored = &aftermath.stored;
    let past = stored.attempts.values().flatten().map(|past| (past.assigned_at, past.ended_at, past.outcome));
    let last = stored.jobs.values().filter_map(|job| {
        let (state, last) = (&job.status.state, AttemptId { job: job.id, claim: job.status.claim });
        Some((state.lease()?.assigned_at, state.ended_at()?, outcome(aftermath, last)?))
    });
    let own = past.chain(last).filter(|(.., outcome)| *outcome != Outcome::Lost);
    let changes = &aftermath.book.changes;
    own.filter(|(began, ended, _)| changes.iter().any(|(from, to)| began < from && to < ended)).count()
}

/// Checks besides those of the simulator.
pub fn beyond(aftermath: &Aftermath) {
    one_job_per_tag(aftermath);
    pages_are_rows(aftermath);
    traces_are_attempts(aftermath);
    let (early, compared) = early(aftermath);
    assert!(early.is_none() && compared > 0, "began early: {early:?} of {compared}");
    logs_are_whole(aftermath);
}

/// A request is executed once, however often it was sent; only a manual retry executes it again.
fn one_job_per_tag(aftermath: &Aftermath) {
    let mut tags: BTreeMap<String, JobId> = BTreeMap::new();
    for job in aftermath.stored.jobs.values().filter(|job| job.spec.retry_of.is_none()) {
        if let Some(other) = tags.insert(work::tag(job), job.id) {
            panic!("I4: jobs {other} and {} are one request", job.id);
        }
    }
}

/// The API shows what is stored, and completed jobs shown during the run were final.
fn pages_are_rows(aftermath: &Aftermath) {
    assert_eq!(aftermath.shown.len(), aftermath.stored.jobs.len(), "I1: every job is shown");
    for page in &aftermath.shown {
        let id = page["id"].as_u64().unwrap();
        let job = &aftermath.stored.jobs[&JobId::new(id).unwrap()];
        let status = &job.status;
        assert_eq!(page["state"], status.state.name().as_str(), "job {id}");
        assert_eq!(page["attempt"], status.attempt, "job {id}");
        let attempts = aftermath.stored.attempts[&job.id].len() + usize::from(status.state.lease().is_some());
        assert_eq!(page["attempts"].as_array().map_or(0, Vec::len), attempts, "job {id}");
        if let Some(first) = aftermath.book.completed.get(&id) {
            assert_eq!(first, page, "I2: job {id} was completed and changed");
        }
        if let Some(told) = aftermath.book.events.get(&id) {
            assert_eq!(told, status.state.name().as_str(), "I2: job {id} ended differently from its event");
        }
    }
}

/// No command ran without a claim, twice under one claim, or again after it had succeeded.
fn traces_are_attempts(aftermath: &Aftermath) {
    for (attempt, times) in &aftermath.traces.began {
        let job = aftermath.stored.jobs.get(&attempt.job).expect("I1: a command of a job that is not stored");
        assert!(attempt.claim <= job.status.claim, "I3: {attempt} ran and was never claimed");
        assert_eq!(*times, 1, "I3: {attempt} ran {times} times");
        let again = attempt.claim < job.status.claim;
        let passed = outcome(aftermath, *attempt) == Some(Outcome::Succeeded);
        assert!(!(again && passed), "I3: {attempt} succeeded, and its job ran again");
    }
    for attempt in aftermath.traces.ended.keys() {
        assert!(aftermath.traces.began.contains_key(attempt), "{attempt} ended and never began");
    }
}

/// A job with a claim before its earliest start time, and the number of compared claims.
pub fn early(aftermath: &Aftermath) -> (Option<JobId>, usize) {
    let (mut early, mut compared) = (None, 0);
    for job in aftermath.stored.jobs.values() {
        let Some(not_before) = work::not_before(job) else { continue };
        let past = aftermath.stored.attempts[&job.id].iter().map(|past| past.assigned_at);
        for began in past.chain(job.status.state.lease().map(|lease| lease.assigned_at)) {
            early = early.or((began < not_before).then_some(job.id));
            compared += 1;
        }
    }
    (early, compared)
}

/// The log of every attempt whose command ended, and whose end the server knows, is complete and exact.
fn logs_are_whole(aftermath: &Aftermath) {
    let mut compared = 0;
    for (attempt, log) in &aftermath.logs {
        let job = &aftermath.stored.jobs[&attempt.job];
        if matches!(outcome(aftermath, *attempt), Some(Outcome::Succeeded | Outcome::Failed)) {
            let wanted = work::log(job);
            assert!(*log == wanted, "{attempt}: {} bytes of log, wanted {}", log.len(), wanted.len());
            compared += 1;
        }
    }
    assert!(compared > 0, "no log was compared");
}

fn outcome(aftermath: &Aftermath, attempt: AttemptId) -> Option<Outcome> {
    let past = aftermath.stored.attempts[&attempt.job].iter().find(|past| past.claim == attempt.claim);
    let job = &aftermath.stored.jobs[&attempt.job];
    past.map(|past| past.outcome).or(match &job.status.state {
        _ if job.status.claim != attempt.claim => None,
        State::Succeeded(success) => Some(success.outcome),
        State::Failed(defeat) | State::Crashed(defeat) | State::Cancelled(defeat) => Some(defeat.outcome),
        _ => None,
    })
}
