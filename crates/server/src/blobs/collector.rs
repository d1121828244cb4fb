//! Garbage collection of blobs: periodic, a slice at a time.
//!
//! The collector asks the store which jobs retention has removed. It therefore does not matter who removed a job and
//! when, and a server that was down catches up. If the store cannot answer, nothing is removed. Applications that refer
//! to objects without an attempt say so through [`References`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobhall_blobs::{AttemptKey, BlobError, Blobs, Collected, Digest, MIN_AGE_MS, Sweep, Verdicts};
use jobhall_core::JobId;
use jobhall_store::Store;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::blobs::logs::now_ms;

/// Number of files in one slice.
const SLICE: usize = 256;
/// Maximum pause between two slices.
const LONGEST: Duration = Duration::from_secs(1);
/// Delay of the first collection after the start, so that a server that is restarted often collects too.
const FIRST: Duration = Duration::from_secs(60);

/// References to objects that are not artifacts of attempts: an object is kept while one of these is true for it.
/// Both are called on a thread that may block. If the answer is unknown, it is true.
#[derive(Clone)]
pub struct References {
    /// Whether a stored reference to the object exists.
    pub referenced: Arc<dyn Fn(&Digest) -> bool + Send + Sync>,
    /// Whether the object is in use although no reference to it is stored yet. Asked while the object is locked: it
    /// must answer from memory. Pin an object, then touch it; if it no longer exists, store it again.
    pub pinned: Arc<dyn Fn(&Digest) -> bool + Send + Sync>,
}

impl Default for References {
    /// No references.
    fn default() -> References {
        References { referenced: Arc::new(|_| false), pinned: Arc::new(|_| false) }
    }
}

/// Collects until the server stops.
pub(crate) async fn run(
    blobs: Arc<Blobs>,
    store: Arc<dyn Store>,
    references: References,
    every: Duration,
    mut drain: watch::Receiver<bool>,
) {
    let mut pause = FIRST.min(every);
    loop {
        // The server stops, or the sender was dropped.
        if tokio::time::timeout(pause, drain.wait_for(|drain| *drain)).await.is_ok() {
            return;
        }
        pause = every;
        let (collected, troubles) = walk(&blobs, &store, &references, &mut drain).await;
        tell(&collected, &troubles);
    }
}

/// One collection. A file that cannot be read does not end it.
async fn walk(
    blobs: &Arc<Blobs>,
    store: &Arc<dyn Store>,
    references: &References,
    drain: &mut watch::Receiver<bool>,
) -> (Collected, Vec<BlobError>) {
    let mut sweep = Sweep::new(now_ms(), MIN_AGE_MS);
    let (mut collected, mut troubles) = (Collected::default(), Vec::new());
    while !sweep.is_over() && !*drain.borrow() {
        let (blobs, store, references) = (blobs.clone(), store.clone(), references.clone());
        let slice = tokio::task::spawn_blocking(move || {
            let asked = Asked { store, runtime: Handle::current(), known: HashMap::new() };
            let asked = std::cell::RefCell::new(asked);
            let gone = |attempt| asked.borrow_mut().is_gone(attempt);
            let References { referenced, pinned } = &references;
            let verdicts = Verdicts { referenced: referenced.as_ref(), pinned: pinned.as_ref(), gone: &gone };
            let done = sweep.step(&blobs, verdicts, SLICE);
            (sweep, done)
        });
        let began = Instant::now();
        // The runtime reports the panic; the next collection starts from the beginning.
        let Ok((back, done)) = slice.await else { break };
        sweep = back;
        // The pause is as long as the slice took, so a collection uses at most half of a thread.
        let _ = tokio::time::timeout(began.elapsed().min(LONGEST), drain.wait_for(|drain| *drain)).await;
        match done {
            Ok(more) => collected += more,
            Err(error) if troubles.len() < SLICE => troubles.push(error),
            Err(_) => break,
        }
    }
    (collected, troubles)
}

/// Cached answers of the store about jobs.
struct Asked {
    store: Arc<dyn Store>,
    runtime: Handle,
    /// A job has several files, so its answer is cached.
    known: HashMap<u64, bool>,
}

impl Asked {
    fn is_gone(&mut self, attempt: AttemptKey) -> bool {
        // A file with an invalid job number was not written by the server.
        let Ok(id) = JobId::new(attempt.job) else { return false };
        let (store, runtime) = (&self.store, &self.runtime);
        *self.known.entry(attempt.job).or_insert_with(|| {
            let jobs = runtime.block_on(store.jobs(vec![id]));
            jobs.is_ok_and(|jobs| matches!(jobs.as_slice(), [None]))
        })
    }
}

fn tell(collected: &Collected, troubles: &[BlobError]) {
    let Collected { objects, temps, logs, manifests, bytes, odd, unread } = *collected;
    if let Some(first) = troubles.first() {
        tracing::warn!(count = troubles.len(), "some blobs could not be inspected; failed to {first}");
    }
    if unread > 0 {
        tracing::error!(unread, "lists of artifacts are damaged; no object was removed");
    }
    if bytes > 0 || objects + temps + logs + manifests > 0 {
        tracing::info!(objects, temps, logs, manifests, bytes, odd, "unreferenced blobs removed");
    } else {
        tracing::debug!(odd, "no unreferenced blobs");
    }
}
