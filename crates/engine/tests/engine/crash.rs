//! The engine on SQLite in a process of its own that is killed without warning, again and again: what was
//! acknowledged is there, and the hall goes on from it.
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{JobId, Json, Key, NewJob, Report, StateName, TypeName, WorkerName};
use jobhall_engine::{Config, Engine, SessionEvent, SystemClock};
use jobhall_store::Store;
use jobhall_store_sqlite::{Options, Sqlite};

const CHILD: &str = "JOBHALL_CRASH_TEST_STORE";
const ROUNDS: u64 = 12;

/// What the killed process had been told, by its own words.
#[derive(Default)]
struct Acknowledged {
    submitted: BTreeSet<u64>,
    succeeded: BTreeSet<u64>,
}

#[test]
fn h11_what_was_acknowledged_survives_a_kill_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let mut all = Acknowledged::default();
    for round in 0..ROUNDS {
        run_and_kill(&path, 200 + round * 170, &mut all);
        check(&path, &all);
    }
    assert!(all.submitted.len() > 500 && all.succeeded.len() > 100, "it did work between the kills");
    runtime().block_on(finish(&path));
    check(&path, &all);
}

/// Starts the child and kills it after this many acknowledgements: no time is measured, and no two kills hit the same
/// place.
fn run_and_kill(path: &Path, words: u64, all: &mut Acknowledged) {
    let exe = std::env::current_exe().unwrap();
    let mut child = Command::new(exe)
        .args(["--exact", "crash::the_child_that_is_killed", "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut heard = 0;
    for line in lines.map_while(Result::ok) {
        let (kind, id) = match line.split_once(' ') {
            Some((kind @ ("submitted" | "succeeded"), id)) => (kind, id.parse::<u64>().unwrap()),
            _ => continue,
        };
        match kind {
            "submitted" => all.submitted.insert(id),
            _ => all.succeeded.insert(id),
        };
        heard += 1;
        if heard == words {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(heard >= words, "the child ended by itself after {heard} words");
}

/// Everything acknowledged is in the store, and what succeeded is still a success.
fn check(path: &Path, all: &Acknowledged) {
    let store = Sqlite::open(path, Options::default()).unwrap();
    let ids: Vec<_> = all.submitted.iter().map(|&id| JobId::new(id).unwrap()).collect();
    let jobs = runtime().block_on(store.jobs(ids)).unwrap();
    for (id, job) in all.submitted.iter().zip(jobs) {
        let job = job.unwrap_or_else(|| panic!("job {id} was acknowledged and is gone"));
        assert_eq!(job.spec.params.as_str(), "{\"n\":1}");
        if all.succeeded.contains(id) {
            assert_eq!(
                job.status.state.name(),
                StateName::Succeeded,
                "job {id} was acknowledged as succeeded"
            );
        }
    }
}

/// Starts the engine once more with a worker, which finishes every job that is still open.
async fn finish(path: &Path) {
    let store = Arc::new(Sqlite::open(path, Options::default()).unwrap());
    let config = Config { lease_ms: 300, ..Config::default() };
    let engine = Engine::start(store.clone(), config, SystemClock::default()).await.unwrap();
    let worker = tokio::spawn(work(engine.clone(), |_| {}));
    wait_until_none_is_open(&store).await;
    worker.abort();
    engine.stop().await;
}

/// Waits for at most a minute.
async fn wait_until_none_is_open(store: &Sqlite) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let open = store.open_jobs(None, 100_000).await.unwrap().len();
        if open == 0 {
            return;
        }
        assert!(Instant::now() < end, "{open} jobs are still open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// Not a test of its own: the process that is killed.
#[test]
fn the_child_that_is_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    runtime().block_on(async {
        let store = Arc::new(Sqlite::open(path, Options::default()).unwrap());
        let engine = Engine::start(store, Config::default(), SystemClock::default()).await.unwrap();
        tokio::spawn(work(engine.clone(), |id| say("succeeded", id)));
        let numbers = Arc::new(AtomicU64::new(0));
        let submitters: Vec<_> =
            (0..8).map(|_| tokio::spawn(submit(engine.clone(), numbers.clone()))).collect();
        for submitter in submitters {
            submitter.await.unwrap();
        }
    });
}

fn say(kind: &str, id: JobId) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{kind} {id}").unwrap();
}

async fn submit(engine: Engine, numbers: Arc<AtomicU64>) {
    loop {
        let n = numbers.fetch_add(1, Ordering::Relaxed);
        let mut job = NewJob::new(TypeName::new("t").unwrap());
        job.params = Json::params("{\"n\":1}").unwrap();
        job.key = n.is_multiple_of(4).then(|| Key::new(&format!("k{}", n % 64)).unwrap());
        say("submitted", engine.submit_one(job).await.unwrap().id);
    }
}

/// A worker that succeeds at everything.
async fn work(engine: Engine, told: impl Fn(JobId)) {
    let name = WorkerName::new("w").unwrap();
    let session = engine.open_session(name, Abilities::default(), Accepts::default(), Vec::new()).await;
    let mut session = session.unwrap();
    let mut events = Vec::new();
    loop {
        session.renew().await.unwrap();
        session.vacancy(50, 100).await.unwrap();
        let mut ended = false;
        while !ended {
            events.clear();
            if session.next_many(&mut events, 100).await == 0 {
                return;
            }
            let mut reports = Vec::new();
            for event in &events {
                match event {
                    SessionEvent::Assigned(held) => {
                        reports.push((held.attempt, held.lease, Report::Succeeded(Json::null())));
                    }
                    SessionEvent::VacancyEnded(..) => ended = true,
                    _ => {}
                }
            }
            let ids: Vec<_> = reports.iter().map(|(attempt, ..)| attempt.job).collect();
            let answers = session.report_many(reports).await.unwrap();
            for (id, answer) in ids.into_iter().zip(answers) {
                if answer == Ok(StateName::Succeeded) {
                    told(id);
                }
            }
        }
    }
}
