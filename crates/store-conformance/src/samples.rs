//! Sample jobs and units. Every change is made by `core`'s transition function, as in the engine.

use std::sync::Arc;

use jobhall_core::{
    Backoff, Decision, Event, Failure, Job, JobId, JobSpec, JobStatus, Json, Key, LeaseId, Outcome,
    OutcomeSet, QueueName, Report, RetryPolicy, Step, Time, TypeName, WorkerName, transition,
};
use jobhall_store::{Change, Insert, Unit};

/// The time `ms` after the start of the test.
pub(crate) fn at(ms: u64) -> Time {
    Time::EPOCH.plus_ms(1_700_000_000_000 + ms)
}

/// A small id.
pub(crate) fn id(n: u64) -> JobId {
    JobId::new(n).expect("a small number is an id")
}

pub(crate) fn type_name(name: &str) -> TypeName {
    TypeName::new(name).expect("a valid type")
}

pub(crate) fn worker(name: &str) -> WorkerName {
    WorkerName::new(name).expect("a valid worker")
}

pub(crate) fn spec(job_type: &str, key: Option<&str>, created_at: Time) -> JobSpec {
    let queue = QueueName::new("default").expect("a valid queue");
    let key = key.map(|key| Key::new(key).expect("a valid key"));
    JobSpec { key, retry: patient(), ..JobSpec::plain(type_name(job_type), queue, created_at) }
}

/// Three attempts with a short delay.
pub(crate) fn patient() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 3,
        backoff: Backoff::Constant { ms: 10 },
        on: OutcomeSet::of(&[Outcome::Failed, Outcome::Crashed, Outcome::TimedOut]),
        at_most_once: false,
    }
}

pub(crate) fn queued(id: JobId, spec: JobSpec) -> Job {
    let status = JobStatus::queued(spec.created_at, spec.created_at);
    Job { id, spec: Arc::new(spec), status }
}

/// A job that waits for the end of `holder`.
pub(crate) fn behind(id: JobId, spec: JobSpec, holder: JobId) -> Job {
    let status = JobStatus::behind(spec.created_at, spec.created_at, holder);
    Job { id, spec: Arc::new(spec), status }
}

/// The step that `core` decides for the event.
///
/// # Panics
/// If the event does not change the job.
pub(crate) fn decide(job: &Job, event: &Event<'_>, now: Time) -> Step {
    match transition(&job.status, event, now) {
        Ok(Decision::Step(step)) => *step,
        other => panic!("{} does not move {job:?}: {other:?}", event.name()),
    }
}

/// The claim event of a worker.
pub(crate) fn claim(lease: u128, name: &str) -> Event<'static> {
    Event::Claim { lease: LeaseId(lease), worker: worker(name) }
}

/// A success with this value.
pub(crate) fn passed(value: &str) -> Report {
    Report::Succeeded(Json::value(value).expect("valid JSON"))
}

pub(crate) fn failure(reason: &str) -> Failure {
    Failure::new(reason, "for the test")
}

/// The change for a decided step.
pub(crate) fn change_of(job: &Job, step: Step) -> Change {
    Change {
        id: job.id,
        expected: job.status.rev,
        status: step.status,
        spec: step.params.map(|params| Arc::new(JobSpec { params, ..(*job.spec).clone() })),
        past: step.past,
        want_spec: false,
    }
}

/// A unit with one new job.
pub(crate) fn inserting(job: Job) -> Unit {
    Unit { inserts: vec![insert(job)], ..Unit::default() }
}

/// An insert without reuse.
pub(crate) fn insert(job: Job) -> Insert {
    Insert { job, reuse: None }
}

pub(crate) fn changing(changes: impl Into<Vec<Change>>) -> Unit {
    Unit { changes: changes.into(), ..Unit::default() }
}
