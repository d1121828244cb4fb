//! Values for the unit tests of the parts.

use std::sync::Arc;

use jobhall_core::{
    Decision, Event, Group, GroupId, Job, JobId, JobSpec, JobStatus, LeaseId, QueueName, Time, TypeName,
    WorkerName, transition,
};

use crate::jobs::entry::{Entry, Shared};
use crate::kernel::{JobTask, JobWork, Task};
use crate::matching::board::{Board, Rank};

pub(crate) fn id(n: u64) -> JobId {
    JobId::new(n).unwrap()
}

pub(crate) fn time(ms: u64) -> Time {
    Time::EPOCH.plus_ms(ms)
}

pub(crate) fn worker(name: &str) -> WorkerName {
    WorkerName::new(name).unwrap()
}

pub(crate) fn rank(n: u64) -> Rank {
    Rank { priority: 100, run_at: Time::EPOCH, id: id(n) }
}

pub(crate) fn spec() -> JobSpec {
    let (job_type, queue) = (TypeName::new("t").unwrap(), QueueName::new("q").unwrap());
    JobSpec::plain(job_type, queue, Time::EPOCH)
}

/// A job of this spec that is not placed and that is counted nowhere.
pub(crate) fn entry(board: &mut Board, spec: JobSpec, status: JobStatus) -> Entry {
    let (known, counted) = (board.enter_job(&spec), status.name(Time::EPOCH));
    Entry::new(Job { id: id(1), spec: Arc::new(spec), status }, known, counted, (Shared::Free, false))
}

/// The status after an event.
pub(crate) fn after(status: &JobStatus, event: &Event<'_>) -> JobStatus {
    match transition(status, event, status.updated_at.plus_ms(1)) {
        Ok(Decision::Step(step)) => step.status,
        other => panic!("{other:?}"),
    }
}

/// The status of a new job that is assigned to a worker.
pub(crate) fn assigned() -> JobStatus {
    let claim = Event::Claim { lease: LeaseId(1), worker: worker("w") };
    after(&JobStatus::queued(Time::EPOCH, Time::EPOCH), &claim)
}

/// A task that is recognised by this number.
pub(crate) fn task<T: From<JobTask>>(n: u64) -> T {
    JobTask { id: id(n), work: JobWork::Orphan, rounds: 0, read: None }.into()
}

/// The numbers of such tasks.
pub(crate) fn numbers<T: Clone + Into<Task>>(tasks: &[T]) -> Vec<u64> {
    let number = |task: &T| match task.clone().into() {
        Task::Job(JobTask { id, .. }) => id.get(),
        task @ Task::Hall(_) => panic!("{task:?}"),
    };
    tasks.iter().map(number).collect()
}

pub(crate) fn group() -> Group {
    Group {
        id: GroupId::new(1_000).unwrap(),
        rev: 1,
        name: None,
        owner: None,
        tags: Box::default(),
        retry_of: None,
        created_at: Time::EPOCH,
        closed: false,
        cancel: None,
        fails: false,
        end: None,
    }
}
