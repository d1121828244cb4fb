//! Related jobs compared with the same jobs without relations, in turns: a chain, a fan, a group.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{After, GroupId, Json, NewJob, Report, WorkerName};
use jobhall_engine::{Engine, NewGroup, SessionEvent, Submit};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use crate::life::noop;
use crate::setup::{Hall, report};
use crate::{Failed, Options};

/// Number of jobs per submit.
const BULK: usize = 1_000;
/// Number of slots of a worker that takes all it can get.
const SLOTS: u32 = 1_024;
const WAIT_MS: u64 = 600_000;
const EVENTS: usize = 4_096;
const RENEW_AFTER: Duration = Duration::from_secs(5);

/// How jobs are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each depends on the previous one; one runs at a time.
    Chain,
    /// All depend on the first, and the last depends on all.
    Fan,
    /// All are members of one group, which ends with them.
    Group,
}

/// Related and unrelated jobs in turns on one store.
pub async fn measure(options: &Options, shape: Shape, jobs: usize) -> Result<Value, Failed> {
    let hall = Hall::open(options, "relations", 0).await?;
    let (mut unrelated, mut related) = (Vec::new(), Vec::new());
    run(&hall, shape, jobs / 10, false, options.workers).await?;
    for turn in 0..options.alternations.max(1) {
        // The second one has a larger store, and has to handle what the first one left.
        for is_related in [turn % 2 == 1, turn % 2 == 0] {
            let side = if is_related { &mut related } else { &mut unrelated };
            side.push(run(&hall, shape, jobs, is_related, options.workers).await?);
        }
    }
    hall.engine.stop().await;
    Ok(json!({ "jobs": jobs, "related": related, "unrelated": unrelated }))
}

/// Submits and completes all jobs; measured from the first submit to the last end.
async fn run(
    hall: &Hall,
    shape: Shape,
    jobs: usize,
    related: bool,
    workers: usize,
) -> Result<Map<String, Value>, Failed> {
    let engine = &hall.engine;
    let before = hall.look(0)?;
    let group = match shape {
        Shape::Group if related => Some(make_group(engine).await?),
        _ => None,
    };
    submit(engine, shape, jobs, related, group).await?;
    if let Some(group) = group {
        engine.close_group(group).await?;
    }
    let completed = Arc::new(AtomicU64::new(0));
    let (workers, slots) = if shape == Shape::Chain { (1, 1) } else { (workers, SLOTS) };
    let tasks: Vec<JoinHandle<Result<(), Failed>>> = (0..workers)
        .map(|at| tokio::spawn(work(engine.clone(), at, slots, jobs as u64, completed.clone())))
        .collect();
    for task in tasks {
        task.await??;
    }
    if let Some(group) = group {
        while engine.group(group).await?.group.end.is_none() {
            tokio::task::yield_now().await;
        }
        let counts = engine.group(group).await?.counts;
        if counts.succeeded != jobs as u64 {
            return Err(format!("a group of {jobs} ended with {counts:?}").into());
        }
    }
    Ok(report(&before, &hall.look(jobs as u64)?))
}

async fn make_group(engine: &Engine) -> Result<GroupId, Failed> {
    let submit = Submit { jobs: Vec::new(), ..Submit::default() };
    Ok(engine.create_group(NewGroup::default(), submit).await?.id)
}

async fn submit(
    engine: &Engine,
    shape: Shape,
    jobs: usize,
    related: bool,
    group: Option<GroupId>,
) -> Result<(), Failed> {
    let job = NewJob { group, ..noop()? };
    let mut made = Vec::with_capacity(jobs);
    while made.len() < jobs {
        // The last job of a fan is submitted alone, because all others must exist before.
        let last = shape == Shape::Fan && made.len() + 1 >= jobs;
        let n = if last { 1 } else { BULK.min(jobs - made.len() - usize::from(shape == Shape::Fan)) };
        let batch = (0..n).map(|at| {
            let after = match shape {
                _ if !related => Vec::new(),
                Shape::Chain if at > 0 => vec![After::Position(at - 1)],
                Shape::Chain => made.last().map(|&id| After::Job(id)).into_iter().collect(),
                Shape::Fan if last => made[1..].iter().map(|&id| After::Job(id)).collect(),
                Shape::Fan => match made.first() {
                    Some(&first) => vec![After::Job(first)],
                    None if at > 0 => vec![After::Position(0)],
                    None => Vec::new(),
                },
                Shape::Group => Vec::new(),
            };
            NewJob { after, ..job.clone() }
        });
        let submitted = engine.submit(Submit { jobs: batch.collect(), ..Submit::default() }).await?;
        made.extend(submitted.iter().map(|one| one.id));
    }
    Ok(())
}

/// Takes jobs and reports them immediately, until all are done.
async fn work(
    engine: Engine,
    at: usize,
    slots: u32,
    jobs: u64,
    completed: Arc<AtomicU64>,
) -> Result<(), Failed> {
    let name = WorkerName::new(&format!("worker-{at}"))?;
    let accepts = Accepts::parse("type=noop")?;
    let mut session = engine.open_session(name, Abilities::parse("")?, accepts, Vec::new()).await?;
    session.vacancy(slots, WAIT_MS).await?;
    let (mut events, mut renewed) = (Vec::new(), Instant::now());
    loop {
        if renewed.elapsed() > RENEW_AFTER {
            session.renew().await?;
            renewed = Instant::now();
        }
        let look = Duration::from_millis(5);
        let heard = tokio::time::timeout(look, session.next_many(&mut events, EVENTS)).await;
        if heard.is_err() && completed.load(Ordering::Relaxed) >= jobs {
            session.close().await?;
            return Ok(());
        }
        let (mut reports, mut over) = (Vec::new(), false);
        for event in events.drain(..) {
            match event {
                SessionEvent::Assigned(one) => {
                    reports.push((one.attempt, one.lease, Report::Succeeded(Json::null())));
                }
                SessionEvent::VacancyEnded(..) => over = true,
                other => return Err(format!("a worker received {other:?}").into()),
            }
        }
        let n = reports.len() as u64;
        for answer in session.report_many(reports).await? {
            answer?;
        }
        let all = completed.fetch_add(n, Ordering::Relaxed) + n;
        if over && all < jobs {
            session.vacancy(slots, WAIT_MS).await?;
        } else if over {
            session.close().await?;
            return Ok(());
        }
    }
}
