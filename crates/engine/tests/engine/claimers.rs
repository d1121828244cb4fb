//! Limits are exact however many workers take jobs at once: the real engine on the durable store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::rig::{job, passed, worker};
use jobhall_core::limits::{KeyExpression, Limit, Rate};
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{Json, NewJob, QueueConfig, QueueName, StateName};
use jobhall_engine::{Config, Engine, Session, SessionEvent, Submit, SystemClock};
use jobhall_store::{JobFilter, Store};
use jobhall_store_sqlite::{Options, Sqlite};

const CLAIMERS: u64 = 32;
const JOBS: u64 = 1_500;
const LIMIT: u64 = 12;
const CUSTOMERS: u64 = 7;
const OF_EACH: u64 = 3;

/// Weights that workers have in hand.
#[derive(Default)]
struct InHand {
    all: AtomicU64,
    of: [AtomicU64; 7],
    most: AtomicU64,
    done: AtomicU64,
}

impl InHand {
    fn take(&self, customer: usize, weight: u64) {
        let all = self.all.fetch_add(weight, Ordering::SeqCst) + weight;
        let own = self.of[customer].fetch_add(weight, Ordering::SeqCst) + weight;
        assert!(all <= LIMIT, "{all} in hand of {LIMIT}");
        assert!(own <= OF_EACH, "{own} in hand of {OF_EACH} for one customer");
        self.most.fetch_max(all, Ordering::SeqCst);
    }

    fn leave(&self, customer: usize, weight: u64) {
        self.all.fetch_sub(weight, Ordering::SeqCst);
        self.of[customer].fetch_sub(weight, Ordering::SeqCst);
    }
}

fn wanted(n: u64) -> NewJob {
    let params = Json::params(&format!("{{\"customer\":{}}}", n % CUSTOMERS)).unwrap();
    NewJob { params, throttle_factor: u32::try_from(1 + n % 3).unwrap(), ..job("t") }
}

fn customer(params: &str) -> usize {
    params.trim_start_matches("{\"customer\":").trim_end_matches('}').parse().unwrap()
}

async fn work(mut session: Session, in_hand: Arc<InHand>) {
    let mut credit = 4;
    session.credit(credit).await.unwrap();
    while let Some(event) = session.next().await {
        let SessionEvent::Assigned(assignment) = event else { continue };
        let (at, weight) =
            (customer(assignment.spec.params.as_str()), u64::from(assignment.spec.throttle_factor));
        in_hand.take(at, weight);
        session.accept(assignment.attempt, assignment.lease).await.unwrap();
        in_hand.leave(at, weight);
        let report = vec![(assignment.attempt, assignment.lease, passed())];
        session.report_many(report).await.unwrap().remove(0).unwrap();
        in_hand.done.fetch_add(1, Ordering::SeqCst);
        credit += 1;
        session.credit(credit).await.unwrap();
    }
}

/// The weights of leased jobs in one look at the store.
async fn leased(store: &Sqlite) -> u64 {
    let states = vec![StateName::Assigned, StateName::Accepted, StateName::Running];
    let filter = JobFilter { states, ..JobFilter::default() };
    let page = store.list(filter, None, 1_000).await.unwrap();
    page.jobs.iter().map(|job| u64::from(job.spec.throttle_factor)).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn h14_a_limit_is_exact_under_32_claimers() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(directory.path().join("hall.db"), Options::default()).unwrap());
    let engine = Engine::start(store.clone(), Config::default(), SystemClock::default()).await.unwrap();
    let of_each = KeyExpression::parse("params.customer").unwrap();
    let limits = vec![
        Limit { by: None, concurrency: u32::try_from(LIMIT).ok(), rate: None },
        Limit { by: Some(of_each), concurrency: u32::try_from(OF_EACH).ok(), rate: None },
        Limit {
            by: None,
            concurrency: None,
            rate: Some(Rate { count: 100_000, per_ms: 1_000, burst: None }),
        },
    ];
    let queue = QueueName::new("default").unwrap();
    engine.set_queue(queue, Some(QueueConfig { limits, ..QueueConfig::default() }), None).await.unwrap();
    let in_hand = Arc::new(InHand::default());
    let mut workers = Vec::new();
    for n in 0..CLAIMERS {
        let name = worker(&format!("w{n}"));
        let session = engine.open_session(name, Abilities::default(), Accepts::default(), Vec::new());
        workers.push(tokio::spawn(work(session.await.unwrap(), in_hand.clone())));
    }
    for first in (0..JOBS).step_by(50) {
        let jobs = (first..first + 50).map(wanted).collect();
        engine.submit(Submit { jobs, ..Submit::default() }).await.unwrap();
    }
    let (mut looks, mut most) = (0, 0);
    let all_done = async {
        while in_hand.done.load(Ordering::SeqCst) < JOBS {
            let leased = leased(&store).await;
            assert!(leased <= LIMIT, "{leased} leased of {LIMIT}");
            (looks, most) = (looks + 1, most.max(leased));
            if let Some(broken) = workers.iter().position(tokio::task::JoinHandle::is_finished) {
                workers.remove(broken).await.unwrap();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), all_done).await.expect("all jobs in time");
    assert!(looks > 20 && most > LIMIT / 2, "{looks} looks saw {most} at most");
    assert_eq!(leased(&store).await, 0);
    workers.into_iter().for_each(|worker| worker.abort());
    engine.stop().await;
}
