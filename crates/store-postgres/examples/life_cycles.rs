//! Measures how many job life cycles per second the store handles, on its own cluster: insert, claim and end in one
//! commit per batch each, with two commits in progress.
//!
//! `cargo run --release -p jobhall-store-postgres --example life_cycles -- [SECONDS]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobhall_core::{
    Decision, Dice, Event, Job, JobId, JobSpec, JobStatus, Json, Key, LeaseId, QueueName, Report, Time,
    TypeName, WorkerName, transition,
};
use jobhall_store::{Change, Insert, Store, Unit};
use jobhall_store_postgres::{Database, Leadership, Node, Options, Postgres};
use jobhall_throwaway::Cluster;

fn spec(key: Option<Key>) -> JobSpec {
    let job_type = TypeName::new("thumbnail").expect("a name");
    let queue = QueueName::new("default").expect("a name");
    let params = Json::trusted(&format!("{{\"file\":\"{}\"}}", "x".repeat(200)));
    JobSpec { key, params, ..JobSpec::plain(job_type, queue, Time::EPOCH.plus_ms(1_700_000_000_000)) }
}

fn moved(job: &mut Job, event: &Event<'_>) -> Change {
    let Ok(Decision::Step(step)) = transition(&job.status, event, job.status.updated_at.plus_ms(1)) else {
        panic!("{} does not move {job:?}", event.name());
    };
    let expected = std::mem::replace(&mut job.status, step.status.clone()).rev;
    Change { id: job.id, expected, status: step.status, spec: None, past: None, want_spec: false }
}

fn claim(job: &mut Job) -> Change {
    let lease = LeaseId(u128::from(job.id.get()) << 64 | 0xABCD);
    moved(job, &Event::Claim { lease, worker: WorkerName::new("worker-1").expect("a name") })
}

fn end(job: &mut Job) -> Change {
    let lease = job.status.state.lease().expect("a claimed job").id;
    let report = Report::Succeeded(Json::null());
    let retry = job.spec.retry;
    let event =
        Event::Report { claim: job.status.claim, lease, report: &report, retry: &retry, dice: Dice(0) };
    moved(job, &event)
}

fn inserting(jobs: &[Job]) -> Vec<Unit> {
    let inserts = jobs.iter().map(|job| Insert { job: job.clone(), reuse: None }).collect();
    vec![Unit { inserts, ..Unit::default() }]
}

fn changing(changes: impl Iterator<Item = Change>) -> Vec<Unit> {
    changes.map(|change| Unit { changes: vec![change], ..Unit::default() }).collect()
}

async fn commit(store: &Postgres, units: Vec<Unit>) {
    let committed = store.commit(units).await.expect("a commit");
    assert!(committed.results.iter().all(Result::is_ok), "refused");
}

#[derive(Clone, Copy)]
struct Course {
    batch: u64,
    fused: bool,
    keyed: bool,
    lanes: u64,
}

/// Life cycles of every `lanes`th batch.
async fn live(store: &Postgres, time: Duration, course: Course, lane: u64) -> u64 {
    let Course { batch, fused, keyed, lanes } = course;
    let plain = Arc::new(spec(None));
    let (begin, mut turn, mut lives) = (Instant::now(), lane, 0);
    while begin.elapsed() < time {
        let first = turn * batch + 1;
        let mut jobs: Vec<Job> = (first..first + batch)
            .map(|n| {
                let key = keyed.then(|| Key::new(&format!("photo-{n}")).expect("a key"));
                let spec = if keyed { Arc::new(spec(key)) } else { plain.clone() };
                let status = JobStatus::queued(spec.created_at, spec.created_at);
                Job { id: JobId::new(n).expect("an id"), spec, status }
            })
            .collect();
        turn += lanes;
        if fused {
            jobs.iter_mut().for_each(|job| drop(claim(job)));
            commit(store, inserting(&jobs)).await;
        } else {
            commit(store, inserting(&jobs)).await;
            commit(store, changing(jobs.iter_mut().map(claim))).await;
        }
        commit(store, changing(jobs.iter_mut().map(end))).await;
        lives += batch;
    }
    lives
}

async fn measure(cluster: &Cluster, time: Duration, course: Course) {
    let database = cluster.database();
    let node = Node { name: "lives".to_owned(), url: String::new() };
    let opened = Database::open(Options::new(database.url())).expect("a database");
    let Ok(Leadership::Mine(store)) = opened.lead(node).await else { panic!("the leadership is free") };
    let begin = Instant::now();
    let lanes = (0..course.lanes).map(|lane| live(&store, time, course, lane));
    let lives: u64 = futures_util::future::join_all(lanes).await.into_iter().sum();
    println!(
        "batch {:5} {:5} {:5} lanes {}: {:7.0} lives/s",
        course.batch,
        if course.fused { "fused" } else { "sep" },
        if course.keyed { "keyed" } else { "plain" },
        course.lanes,
        lives as f64 / begin.elapsed().as_secs_f64(),
    );
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(3, |text| text.parse().expect("a number of seconds"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let cluster = Cluster::start();
    for keyed in [false, true] {
        for fused in [false, true] {
            for (batch, lanes) in [(1, 2), (100, 1), (100, 2), (100, 8), (1_000, 2)] {
                let course = Course { batch, fused, keyed, lanes };
                runtime.block_on(measure(&cluster, Duration::from_secs(seconds), course));
            }
        }
    }
}
