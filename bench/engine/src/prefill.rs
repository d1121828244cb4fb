//! A store with existing data: completed jobs, and queued jobs that match no worker. It is written through the
//! store's port, so that it is like the store of a real hall: blocks of completed jobs are closed, and a start reads
//! only the others.

use std::path::Path;
use std::sync::Arc;

use jobhall_bench_raw_store::rows::params;
use jobhall_core::needs::Needs;
use jobhall_core::{
    Decision, Dice, Event, Job, JobId, JobSpec, JobStatus, Json, LeaseId, QueueName, Report, Time, TypeName,
    WorkerName, transition,
};
use jobhall_store::{BlockChange, Committed, Insert, Store, Unit};
use jobhall_store_sqlite::{Options, Sqlite};

use crate::Failed;

/// Number of jobs per block and per commit.
const BATCH: u64 = 20_000;
/// The time of the existing data.
const THEN_MS: i64 = 1_700_000_000_000;

/// Writes the store; returns its last feed number.
pub async fn write(path: &Path, queued: u64, completed: u64) -> Result<u64, Failed> {
    let store = Sqlite::open(path, Options::default())?;
    let then = Time::from_ms(THEN_MS)?;
    let spec = spec(then)?;
    let ended = ended(&spec, then)?;
    let mut last = fill(&store, completed, &spec, &ended, true).await?;
    last = last.max(fill(&store, queued, &spec, &JobStatus::queued(then, then), false).await?);
    Ok(last)
}

async fn fill(
    store: &Sqlite,
    jobs: u64,
    spec: &Arc<JobSpec>,
    life: &JobStatus,
    close: bool,
) -> Result<u64, Failed> {
    let (mut left, mut last) = (jobs, 0);
    let mut under_way = None;
    while left > 0 {
        let n = left.min(BATCH);
        left -= n;
        let block = store.take_block(n).await?;
        let job = |id| Ok(Job { id: JobId::new(id)?, spec: spec.clone(), status: life.clone() });
        let jobs: Result<Vec<Job>, Failed> = (block.first.get()..=block.last.get()).map(job).collect();
        let unit = |job| Unit { inserts: vec![Insert { job, reuse: None }], ..Unit::default() };
        let next = store.commit(jobs?.into_iter().map(unit).collect());
        if let Some(before) = under_way.replace(next) {
            last = committed(&before.await?)?;
        }
        if close {
            store.settle_blocks(vec![BlockChange::Close(block.first)]).await?;
        }
    }
    if let Some(before) = under_way {
        last = committed(&before.await?)?;
    }
    Ok(last)
}

fn committed(done: &Committed) -> Result<u64, Failed> {
    if done.results.iter().any(Result::is_err) {
        return Err("a prefilled job was refused".into());
    }
    Ok(done.feed.ok_or("a commit without a feed row")?)
}

/// A spec of a separate class, whose requirements no worker meets.
fn spec(then: Time) -> Result<Arc<JobSpec>, Failed> {
    Ok(Arc::new(JobSpec {
        params: Json::params(&params())?,
        needs: Needs::parse("gpu>=1").map_err(|error| error.to_string())?,
        ..JobSpec::plain(TypeName::new("stuck")?, QueueName::new("default")?, then)
    }))
}

/// The status of a job that succeeded at the first attempt.
fn ended(spec: &JobSpec, then: Time) -> Result<JobStatus, Failed> {
    let lease = LeaseId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    let claim = Event::Claim { lease, worker: WorkerName::new("worker-1")? };
    let claimed = step(&JobStatus::queued(then, then), &claim, then)?;
    let report = Report::Succeeded(Json::null());
    let report = Event::Report { claim: 1, lease, report: &report, retry: &spec.retry, dice: Dice(0) };
    step(&claimed, &report, then)
}

fn step(life: &JobStatus, event: &Event<'_>, now: Time) -> Result<JobStatus, Failed> {
    match transition(life, event, now) {
        Ok(Decision::Step(step)) => Ok(step.status),
        Ok(Decision::Same) => Err("a step changed nothing".into()),
        Err(refusal) => Err(refusal.to_string().into()),
    }
}
