//! Measures how many job life cycles per second the store handles: insert, claim and end in one commit per batch
//! each.
//!
//! `cargo run --release -p jobhall-store-sqlite --example lives -- FOLDER [SECONDS]`

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobhall_core::{
    Decision, Dice, Event, Job, JobId, JobSpec, JobStatus, Json, Key, LeaseId, QueueName, Report, Time,
    TypeName, WorkerName, transition,
};
use jobhall_store::{Change, Insert, Store, Unit};
use jobhall_store_sqlite::{Options, Sqlite};

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

async fn commit(store: &Sqlite, units: Vec<Unit>) {
    let committed = store.commit(units).await.expect("a commit");
    assert!(committed.results.iter().all(Result::is_ok), "refused: is the folder empty?");
}

/// CPU time used by this process, in microseconds (Linux; its clock ticks every 10 ms).
fn processor_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10_000
}

#[derive(Clone, Copy)]
struct Course {
    batch: u64,
    fused: bool,
    keyed: bool,
}

async fn measure(folder: &Path, time: Duration, course: Course) {
    let Course { batch, fused, keyed } = course;
    let path = folder.join(format!("lives-{batch}-{fused}-{keyed}.db"));
    let store = Sqlite::open(&path, Options::default()).expect("a store");
    let plain = Arc::new(spec(None));
    let (begin, used, mut next) = (Instant::now(), processor_us(), 1);
    while begin.elapsed() < time {
        let mut jobs: Vec<Job> = (next..next + batch)
            .map(|n| {
                let key = keyed.then(|| Key::new(&format!("photo-{n}")).expect("a key"));
                let spec = if keyed { Arc::new(spec(key)) } else { plain.clone() };
                let status = JobStatus::queued(spec.created_at, spec.created_at);
                Job { id: JobId::new(n).expect("an id"), spec, status }
            })
            .collect();
        next += batch;
        if fused {
            jobs.iter_mut().for_each(|job| drop(claim(job)));
            commit(&store, inserting(&jobs)).await;
        } else {
            commit(&store, inserting(&jobs)).await;
            commit(&store, changing(jobs.iter_mut().map(claim))).await;
        }
        commit(&store, changing(jobs.iter_mut().map(end))).await;
    }
    let (lives, seconds, stats) = (next - 1, begin.elapsed().as_secs_f64(), store.stats());
    println!(
        "batch {batch:5} {:5} {:5}: {:7.0} lives/s, {:6.2} us of processor and {:5} bytes of log per life",
        if fused { "fused" } else { "sep" },
        if keyed { "keyed" } else { "plain" },
        lives as f64 / seconds,
        (processor_us() - used) as f64 / lives as f64,
        stats.bytes / lives
    );
    drop(store);
    for suffix in ["", ".lock"] {
        std::fs::remove_file(format!("{}{suffix}", path.display())).expect("to remove the store");
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder");
    let seconds = arguments.next().map_or(3, |text| text.parse().expect("a number of seconds"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for keyed in [false, true] {
        for fused in [false, true] {
            for batch in [1, 10, 100, 1_000] {
                let course = Course { batch, fused, keyed };
                runtime.block_on(measure(folder.as_ref(), Duration::from_secs(seconds), course));
            }
        }
    }
}
