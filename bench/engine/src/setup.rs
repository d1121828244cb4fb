//! An engine on a durable store, and its counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jobhall_bench_raw_store::machine::{self, Sample};
use jobhall_core::StateName;
use jobhall_engine::{Config, Engine, SystemClock};
use jobhall_store::Store;
use jobhall_store_postgres::{Database, Leadership, Node};
use jobhall_store_sqlite::{Sqlite, Stats};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::{Failed, Options};

/// Number of feed rows read at once.
const PAGE: usize = 1_000;

/// An engine and its store.
pub struct Hall {
    pub engine: Engine,
    store: Arc<dyn Store>,
    /// The embedded store, which has counters.
    sqlite: Option<Arc<Sqlite>>,
    /// Feed rows up to this number existed before, or have been counted.
    seen: u64,
    commits: u64,
}

/// A snapshot of all counters.
pub struct Look {
    machine: Sample,
    stats: Stats,
    threads: BTreeMap<String, f64>,
    lives: u64,
}

impl Hall {
    /// Opens the store of this name and starts an engine on it: a file, or the database in the options, which is the
    /// same for every name. Feed rows up to `seen` existed before.
    pub async fn open(options: &Options, name: &str, seen: u64) -> Result<Hall, Failed> {
        let (store, sqlite): (Arc<dyn Store>, _) = match &options.database {
            Some(url) => (kernel(url).await?, None),
            None => {
                let file = options.directory.join(format!("{name}.db"));
                let store = Arc::new(Sqlite::open(file, jobhall_store_sqlite::Options::default())?);
                (store.clone(), Some(store))
            }
        };
        let engine = Engine::start(store.clone(), Config::default(), SystemClock::default()).await?;
        let mut hall = Hall { engine, store, sqlite, seen, commits: 0 };
        if options.database.is_some() {
            hall.count_changes().await?;
        }
        Ok(hall)
    }

    /// Takes a snapshot; `lives` is the number of jobs completed so far.
    pub fn look(&self, lives: u64) -> Result<Look, Failed> {
        let stats = self.sqlite.as_ref().map(|store| store.stats()).unwrap_or_default();
        let (machine, threads) = (Sample::now()?, machine::cpu_by_thread()?);
        Ok(Look { machine, stats, threads, lives })
    }

    /// Number of commits whose feed rows were counted since the last call.
    pub fn take_commits(&mut self) -> u64 {
        std::mem::take(&mut self.commits)
    }

    /// Number of changes to each state in the feed since the last count. Every change of a job is in the feed, so a
    /// job that was inserted as assigned has no `queued`.
    pub async fn count_changes(&mut self) -> Result<BTreeMap<StateName, u64>, Failed> {
        let mut found = BTreeMap::new();
        loop {
            let page = self.store.feed(self.seen, PAGE).await?;
            let Some(last) = page.rows.last() else { return Ok(found) };
            self.seen = last.n;
            self.commits += page.rows.len() as u64;
            for entry in page.rows.iter().flat_map(|row| &row.entries) {
                *found.entry(entry.state).or_insert(0) += 1;
            }
        }
    }
}

/// Takes the leadership of a database. The previous leader releases it after a moment.
async fn kernel(url: &str) -> Result<Arc<dyn Store>, Failed> {
    let options = jobhall_store_postgres::Options::new(url);
    let database = tokio::task::spawn_blocking(move || Database::open(options)).await??;
    let node = Node { name: "bench".to_owned(), url: String::new() };
    loop {
        match database.lead(node.clone()).await? {
            Leadership::Mine(store) => return Ok(store),
            Leadership::Theirs(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// The difference between two snapshots.
pub fn report(before: &Look, after: &Look) -> Map<String, Value> {
    let used = after.machine.since(&before.machine);
    let lives = after.lives - before.lives;
    let commits = after.stats.transactions - before.stats.transactions;
    let per_life = |total: f64| total / lives.max(1) as f64;
    let threads: Map<_, _> = after
        .threads
        .iter()
        .map(|(name, cpu)| (name, cpu - before.threads.get(name).unwrap_or(&0.0)))
        .filter(|(_, cpu)| *cpu > 0.0)
        .map(|(name, cpu)| (name.clone(), rounded(cpu, 2)))
        .collect();
    let pairs = [
        ("lives", json!(lives)),
        ("seconds", rounded(used.seconds, 3)),
        ("lives_per_second", rounded(lives as f64 / used.seconds, 0)),
        ("commits", json!(commits)),
        ("calls", json!(after.stats.calls - before.stats.calls)),
        ("checkpoints", json!(after.stats.checkpoints - before.stats.checkpoints)),
        ("mean_batch", rounded(lives as f64 / commits.max(1) as f64, 1)),
        ("cpu_seconds", rounded(used.cpu_seconds, 2)),
        ("cpu_us_per_life", rounded(per_life(used.cpu_seconds * 1e6), 2)),
        ("cpu_seconds_by_thread", Value::Object(threads)),
        ("bytes", json!(used.bytes)),
        ("bytes_per_life", rounded(per_life(used.bytes as f64), 0)),
        ("steal_percent", rounded(used.steal_percent, 1)),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A number with this many decimal places.
pub fn rounded(number: f64, digits: i32) -> Value {
    let scale = 10_f64.powi(digits);
    json!((number * scale).round() / scale)
}
