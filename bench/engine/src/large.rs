//! The same job life cycles on an empty store and on a large one, in turns, in one process.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::life::{self, Way};
use crate::setup::{Hall, rounded};
use crate::{Failed, Options, prefill};

/// Measures both in turns.
pub async fn measure(options: &Options) -> Result<Value, Failed> {
    let path = options.directory.join("large.db");
    let (queued, completed) = (options.queued, options.completed);
    let begun = Instant::now();
    let seen = prefill::write(&path, queued, completed).await?;
    // Data of the prefill must be written back before the measurement.
    fs::File::open(&path)?.sync_all()?;
    let prefill_seconds = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let mut large = Hall::open(options, "large", seen).await?;
    let start_seconds = begun.elapsed().as_secs_f64();
    let bytes = fs::metadata(&path)?.len();
    let (mut on_empty, mut on_large) = (Vec::new(), Vec::new());
    for turn in 0..options.alternations {
        let mut empty = Hall::open(options, &format!("empty-{turn}"), 0).await?;
        on_empty.push(life::measure(&mut empty, options, Way::Queued).await?);
        empty.engine.stop().await;
        drop(empty);
        sleep(Duration::from_millis(200)).await;
        on_large.push(life::measure(&mut large, options, Way::Queued).await?);
        sleep(Duration::from_millis(200)).await;
    }
    large.engine.stop().await;
    Ok(json!({
        "queued": queued,
        "completed": completed,
        "store_bytes": bytes,
        "prefill_seconds": rounded(prefill_seconds, 1),
        "start_seconds": rounded(start_seconds, 2),
        "empty": on_empty,
        "large": on_large,
    }))
}
