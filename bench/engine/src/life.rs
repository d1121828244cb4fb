//! Life cycles of no-op jobs: submitted by many clients, claimed or assigned at the submit, and reported in batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobhall_bench_raw_store::rows::params;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{Json, NewJob, Report, StateName, TypeName, WorkerName};
use jobhall_engine::{Assignment, Engine, Session, SessionEvent, Submit};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::setup::{Hall, report, rounded};
use crate::{Failed, Options};

/// Maximum number of submitted and not completed jobs: clients wait when workers are behind, so that a run is steady.
pub const ROOM: usize = 4_096;
/// Maximum number of slots of one vacancy.
const SLOTS: u32 = 1_024;
/// Number of vacancies that a worker keeps open if jobs are assigned at the submit.
const KEPT_OPEN: usize = 2;
const WAIT_MS: u64 = 600_000;
const EVENTS: usize = 4_096;
const RENEW_AFTER: Duration = Duration::from_secs(5);

/// How jobs are assigned to workers.
///
/// `Queued`: a worker opens a vacancy with exactly as many slots as there are *answered* submits for which no vacancy
/// was opened yet (`Shared::queued` counts them). An answered job is among the ready jobs of the kernel, so every
/// slot takes such a job immediately and no vacancy ever waits: a submit finds none.
///
/// `HandedOver`: every worker keeps vacancies waiting, with more slots in total than there are clients, and no job
/// ever waits for one.
///
/// Both are checked after the run with the feed, which has every change: `Queued` must show each job in `queued`,
/// `HandedOver` none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// First queued, then claimed.
    Queued,
    /// Inserted already assigned.
    HandedOver,
}

/// The submitted jobs, in turn, and the workers.
pub struct Trade {
    /// At least one.
    pub jobs: Vec<NewJob>,
    /// One session per worker.
    pub workers: Vec<(Abilities, Accepts)>,
    /// Number of vacancies that a worker keeps open if jobs are assigned at the submit.
    pub kept_open: usize,
}

impl Trade {
    /// One class, and as many workers as the options set.
    fn plain(options: &Options) -> Result<Trade, Failed> {
        let worker = (Abilities::default(), Accepts::parse("type=noop")?);
        Ok(Trade { jobs: vec![noop()?], workers: vec![worker; options.workers], kept_open: KEPT_OPEN })
    }
}

struct Shared {
    way: Way,
    jobs: Vec<NewJob>,
    /// The job that is submitted next.
    turn: AtomicUsize,
    stop: AtomicBool,
    submitted: AtomicU64,
    completed: AtomicU64,
    /// One permit for each answered submit without a vacancy. Only if jobs are queued first.
    queued: Semaphore,
    /// One permit for each job that may still be submitted.
    room: Semaphore,
}

/// The measurement on an empty store.
pub async fn alone(options: &Options, way: Way) -> Result<Value, Failed> {
    let mut hall = Hall::open(options, "engine", 0).await?;
    let report = measure(&mut hall, options, way).await?;
    hall.engine.stop().await;
    Ok(Value::Object(report))
}

/// One measurement on an open hall.
pub async fn measure(hall: &mut Hall, options: &Options, way: Way) -> Result<Map<String, Value>, Failed> {
    measure_trade(hall, options, way, Trade::plain(options)?).await
}

/// One measurement with these jobs, in turns.
pub async fn measure_jobs(
    hall: &mut Hall,
    options: &Options,
    way: Way,
    jobs: &[NewJob],
) -> Result<Map<String, Value>, Failed> {
    let trade = Trade { jobs: jobs.to_vec(), ..Trade::plain(options)? };
    measure_trade(hall, options, way, trade).await
}

/// One measurement with other jobs and workers.
pub async fn measure_trade(
    hall: &mut Hall,
    options: &Options,
    way: Way,
    trade: Trade,
) -> Result<Map<String, Value>, Failed> {
    hall.count_changes().await?;
    hall.take_commits();
    let Trade { jobs, workers: offered, kept_open } = trade;
    let shared = Arc::new(Shared {
        way,
        jobs,
        turn: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        submitted: AtomicU64::new(0),
        completed: AtomicU64::new(0),
        queued: Semaphore::new(0),
        room: Semaphore::new(ROOM),
    });
    let workers = workers(hall, offered, kept_open, &shared).await?;
    let clients: Vec<JoinHandle<Result<(), Failed>>> = (0..options.submitters)
        .map(|_| tokio::spawn(client(hall.engine.clone(), options.bulk, shared.clone())))
        .collect();
    let completed = || shared.completed.load(Ordering::Relaxed);
    sleep(Duration::from_secs_f64(options.warmup)).await;
    let before = hall.look(completed())?;
    sleep(Duration::from_secs_f64(options.seconds)).await;
    let after = hall.look(completed())?;
    shared.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await??;
    }
    let drained = Instant::now();
    while completed() < shared.submitted.load(Ordering::Relaxed) {
        if drained.elapsed() > Duration::from_secs(30) {
            return Err("jobs were left open".into());
        }
        sleep(Duration::from_millis(1)).await;
    }
    shared.queued.close();
    for worker in workers {
        worker.abort();
        match worker.await {
            Ok(done) => done?,
            Err(error) if error.is_cancelled() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut report = report(&before, &after);
    report.insert("submitters".to_owned(), json!(options.submitters));
    check(&hall.count_changes().await?, completed(), way, &mut report)?;
    if options.database.is_some() {
        // The database does not count commits; every commit of this program changes jobs.
        let commits = hall.take_commits().max(1);
        report.insert("mean_batch".to_owned(), rounded(completed() as f64 / commits as f64, 1));
    }
    Ok(report)
}

/// Checks that the jobs were assigned in the expected way, and all succeeded.
fn check(
    changes: &BTreeMap<StateName, u64>,
    lives: u64,
    way: Way,
    report: &mut Map<String, Value>,
) -> Result<(), Failed> {
    let of = |state| changes.get(&state).copied().unwrap_or(0);
    let queued = of(StateName::Queued);
    report.insert("all_lives".to_owned(), json!(lives));
    report.insert("queued_first".to_owned(), json!(queued));
    let expected = if way == Way::Queued { lives } else { 0 };
    let whole = of(StateName::Assigned) == lives && of(StateName::Succeeded) == lives;
    if whole && queued == expected && changes.values().sum::<u64>() == 2 * lives + expected {
        return Ok(());
    }
    Err(format!("{lives} lives, {expected} of them queued first, but the feed has {changes:?}").into())
}

/// A job that does nothing.
pub fn noop() -> Result<NewJob, Failed> {
    let mut job = NewJob::new(TypeName::new("noop")?);
    job.params = Json::params(&params())?;
    Ok(job)
}

/// Submits and waits for the response, repeatedly.
async fn client(engine: Engine, bulk: usize, shared: Arc<Shared>) -> Result<(), Failed> {
    while !shared.stop.load(Ordering::Relaxed) {
        shared.room.acquire_many(u32::try_from(bulk)?).await?.forget();
        let first = shared.turn.fetch_add(bulk, Ordering::Relaxed);
        let jobs = (first..first + bulk).map(|turn| shared.jobs[turn % shared.jobs.len()].clone()).collect();
        engine.submit(Submit { jobs, ..Submit::default() }).await?;
        shared.submitted.fetch_add(bulk as u64, Ordering::Relaxed);
        if shared.way == Way::Queued {
            shared.queued.add_permits(bulk);
        }
    }
    Ok(())
}

async fn workers(
    hall: &Hall,
    offered: Vec<(Abilities, Accepts)>,
    kept_open: usize,
    shared: &Arc<Shared>,
) -> Result<Vec<JoinHandle<Result<(), Failed>>>, Failed> {
    let mut workers = Vec::new();
    for (number, (abilities, accepts)) in offered.into_iter().enumerate() {
        let name = WorkerName::new(&format!("worker-{number}"))?;
        let session = hall.engine.open_session(name, abilities, accepts, Vec::new()).await?;
        let worker = Worker { session, shared: shared.clone(), renewed: Instant::now(), events: Vec::new() };
        workers.push(match shared.way {
            Way::Queued => tokio::spawn(worker.claim()),
            Way::HandedOver => {
                for _ in 0..kept_open {
                    worker.session.vacancy(SLOTS, WAIT_MS).await?;
                }
                tokio::spawn(worker.be_handed())
            }
        });
    }
    Ok(workers)
}

struct Worker {
    session: Session,
    shared: Arc<Shared>,
    renewed: Instant,
    events: Vec<SessionEvent>,
}

impl Worker {
    /// Claims all queued jobs, and reports them in one batch.
    async fn claim(mut self) -> Result<(), Failed> {
        let shared = self.shared.clone();
        // The semaphore is closed at the end.
        while let Ok(one) = shared.queued.acquire().await {
            one.forget();
            let more = shared.queued.available_permits().min(SLOTS as usize - 1);
            let slots = 1 + u32::try_from(shared.queued.forget_permits(more))?;
            self.session.vacancy(slots, WAIT_MS).await?;
            let mut assigned = Vec::with_capacity(slots as usize);
            while assigned.len() < slots as usize {
                self.hear(&mut assigned).await?;
            }
            self.report(assigned).await?;
        }
        Ok(())
    }

    /// Reports assigned jobs, and opens a new vacancy for each that is filled.
    async fn be_handed(mut self) -> Result<(), Failed> {
        loop {
            let mut assigned = Vec::new();
            for _ in 0..self.hear(&mut assigned).await? {
                self.session.vacancy(SLOTS, WAIT_MS).await?;
            }
            self.report(assigned).await?;
        }
    }

    /// Reads the events of the session; returns how many of its vacancies are filled.
    async fn hear(&mut self, assigned: &mut Vec<Assignment>) -> Result<usize, Failed> {
        let mut over = 0;
        if self.session.next_many(&mut self.events, EVENTS).await == 0 {
            return Err("the session is over".into());
        }
        for event in self.events.drain(..) {
            match event {
                SessionEvent::Assigned(assignment) => assigned.push(*assignment),
                SessionEvent::VacancyEnded(..) => over += 1,
                other => return Err(format!("a worker received {other:?}").into()),
            }
        }
        Ok(over)
    }

    async fn report(&mut self, assigned: Vec<Assignment>) -> Result<(), Failed> {
        let n = assigned.len();
        let passed = || Report::Succeeded(Json::null());
        let reports = assigned.into_iter().map(|one| (one.attempt, one.lease, passed())).collect();
        for answer in self.session.report_many(reports).await? {
            answer?;
        }
        self.shared.completed.fetch_add(n as u64, Ordering::Relaxed);
        self.shared.room.add_permits(n);
        if self.renewed.elapsed() > RENEW_AFTER {
            self.session.renew().await?;
            self.renewed = Instant::now();
        }
        Ok(())
    }
}
