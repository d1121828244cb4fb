//! Passes of retention over a store of completed jobs: what they read, how long they take, and how much memory they use.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobhall_bench_raw_store::machine;
use jobhall_core::{Retention, TypeConfig, TypeName};
use jobhall_engine::{Config, Engine, SystemClock};
use jobhall_store_sqlite::Sqlite;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::observed::{Observed, Pass};
use crate::setup::rounded;
use crate::{Failed, Options, prefill};

/// Time between two passes. Rules are changed right after a pass, so that none is in progress.
const INTERVAL_MS: u64 = 1_000;
const DAY_MS: u64 = 24 * 3_600_000;
/// Longer than the jobs of the store are old.
const LONG_MS: u64 = 50 * 365 * DAY_MS;
/// Time between two looks whether all jobs are counted.
const LOOK: Duration = Duration::from_millis(5);
/// How long an engine that was stopped may take to close its store.
const CLOSING: Duration = Duration::from_secs(30);

/// An engine whose passes are observed.
struct Retaining {
    engine: Engine,
    store: Arc<Observed>,
    passes: mpsc::UnboundedReceiver<Pass>,
    begun: Instant,
    /// Resident memory before the start.
    rss: u64,
}

/// Measures passes that can remove nothing, one that removes a tenth, and the first one after a restart.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let path = options.directory.join("retention.db");
    let jobs = options.completed;
    prefill::write(&path, 0, jobs).await?;
    fs::File::open(&path)?.sync_all()?;
    let mut hall = Retaining::start(&path).await?;
    let counted = hall.count(jobs).await?;
    hall.wait_between_passes().await?;
    let young = hall.pass("all jobs are too young for every rule", forever()).await?;
    hall.wait_between_passes().await?;
    hall.set_other_type(Some(DAY_MS)).await?;
    let old = hall.pass("the jobs are older than the rule of another type", forever()).await?;
    let again = hall.next("the same again").await?;
    hall.wait_between_passes().await?;
    hall.set_other_type(None).await?;
    let kept = jobs - jobs / 10;
    let rule = Retention { keep_count: Some(kept), ..forever() };
    let removing = hall.pass("a tenth is removed", rule).await?;
    let after = hall.next("the next one").await?;
    hall.engine.stop().await;
    drop(hall);
    let mut hall = Retaining::start(&path).await?;
    let recounted = hall.count(kept).await?;
    let restarted = hall.next("after a restart, nothing to remove").await?;
    hall.engine.stop().await;
    Ok(json!({
        "completed": jobs,
        "store_bytes": fs::metadata(&path)?.len(),
        "counts": [counted, recounted],
        "passes": [young, old, again, removing, after, restarted],
    }))
}

/// Opens the store once the engine before has closed it.
async fn open(path: &Path) -> Result<Sqlite, Failed> {
    let end = Instant::now() + CLOSING;
    loop {
        match Sqlite::open(path, jobhall_store_sqlite::Options::default()) {
            Err(_) if Instant::now() < end => tokio::time::sleep(LOOK).await,
            result => return Ok(result?),
        }
    }
}

/// A rule that removes nothing.
fn forever() -> Retention {
    Retention { keep_ms: Some(LONG_MS), keep_count: None }
}

impl Retaining {
    async fn start(path: &Path) -> Result<Retaining, Failed> {
        let (begun, rss) = (Instant::now(), machine::resident_bytes()?);
        let (store, passes) = Observed::new(Arc::new(open(path).await?));
        let config = Config { retention_ms: INTERVAL_MS, ..Config::default() };
        let engine = Engine::start(store.clone(), config, SystemClock::default()).await?;
        Ok(Retaining { engine, store, passes, begun, rss })
    }

    /// Waits until the completed jobs are counted, which happens once after a start.
    async fn count(&mut self, jobs: u64) -> Result<Value, Failed> {
        let found = loop {
            match self.engine.counts().await?.kept {
                Some((found, _)) => break found,
                None => tokio::time::sleep(LOOK).await,
            }
        };
        let read = self.store.counted();
        if (found, read) != (jobs, jobs) {
            return Err(format!("{found} jobs were counted, {read} read, there are {jobs}").into());
        }
        Ok(json!({
            "counted": found,
            "seconds_since_start": rounded(self.begun.elapsed().as_secs_f64(), 3),
            "rss_before_start": self.rss,
            "rss_after": machine::resident_bytes()?,
        }))
    }

    /// Waits until a pass has ended.
    async fn wait_between_passes(&mut self) -> Result<(), Failed> {
        while self.passes.try_recv().is_ok() {}
        self.passes.recv().await.ok_or("the engine has stopped")?;
        Ok(())
    }

    async fn set_other_type(&self, keep_ms: Option<u64>) -> Result<(), Failed> {
        let other = TypeName::new("other")?;
        let config = keep_ms.map(|keep_ms| TypeConfig { keep_ms: Some(keep_ms), ..TypeConfig::of(&other) });
        self.engine.set_type(other, config, None).await?;
        Ok(())
    }

    /// The first whole pass with this rule.
    async fn pass(&mut self, what: &str, rule: Retention) -> Result<Value, Failed> {
        let before = machine::resident_bytes()?;
        self.engine.set_retention(rule, None).await?;
        self.begun_after(what, Instant::now(), before).await
    }

    /// The next whole pass.
    async fn next(&mut self, what: &str) -> Result<Value, Failed> {
        let before = machine::resident_bytes()?;
        self.begun_after(what, Instant::now(), before).await
    }

    async fn begun_after(&mut self, what: &str, moment: Instant, rss_before: u64) -> Result<Value, Failed> {
        loop {
            let pass = self.passes.recv().await.ok_or("the engine has stopped")?;
            if pass.begun >= moment {
                return Ok(json!({
                    "pass": what,
                    "rows_read": pass.read,
                    "pages": pass.pages,
                    "removed": pass.removed,
                    "seconds": rounded(pass.seconds, 4),
                    "rss_before": rss_before,
                    "rss_after": machine::resident_bytes()?,
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_reads_only_what_it_can_remove() {
        let directory = tempfile::tempdir().unwrap();
        let words = ["--dir", directory.path().to_str().unwrap(), "--completed", "30000"];
        let options = crate::options(words.map(str::to_owned).into_iter()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        let report = runtime.block_on(measure(&options)).unwrap();
        let figures: Vec<_> = report["passes"].as_array().unwrap().iter().collect();
        let figures =
            |name: &str| -> Vec<u64> { figures.iter().map(|pass| pass[name].as_u64().unwrap()).collect() };
        assert_eq!(figures("removed"), [0, 0, 0, 3_000, 0, 0], "{report}");
        let read = figures("rows_read");
        // A page of 1,000 rows may be read by the pass before, while the rule is set.
        assert!((29_000..=30_000).contains(&read[1]), "what cannot be removed is read once: {report}");
        assert_eq!(read[2], 0, "and not again: {report}");
        assert!([0, 4, 5].iter().all(|at| read[*at] <= 1_000), "{report}");
        assert!((3_000..=4_000).contains(&read[3]), "{report}");
    }
}
