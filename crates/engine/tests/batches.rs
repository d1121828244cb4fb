//! What goes into one commit: everything that came while another one was under way, and no crumbs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod hall;
mod held;

use std::sync::Arc;

use hall::job;
use held::Held;
use jobhall_engine::{Config, Engine, Submit, SystemClock};

struct Batches {
    store: Arc<Held>,
    engine: Engine,
    before: usize,
}

impl Batches {
    /// An engine that has its ids, and whose commits are held up from now on.
    async fn begin() -> Batches {
        let store = Held::new();
        let engine = Engine::start(store.clone(), Config::default(), SystemClock::default()).await.unwrap();
        engine.submit_one(job("t")).await.unwrap();
        store.hold_commits();
        let before = store.rows().len();
        Batches { store, engine, before }
    }

    /// Submits so many jobs in one request, and waits until the desk has it.
    async fn submit(&self, jobs: usize) {
        let (engine, jobs) = (self.engine.clone(), vec![job("t"); jobs]);
        tokio::spawn(async move { engine.submit(Submit { jobs, name: None }).await });
        self.settle().await;
    }

    /// Lets the oldest commit end.
    async fn end_one(&self) {
        self.store.end_one();
        self.settle().await;
    }

    /// Whatever was sent has been taken: what is asked after it is answered.
    async fn settle(&self) {
        for _ in 0..3 {
            tokio::task::yield_now().await;
            self.engine.counts().await.unwrap();
        }
    }

    /// How many rows each commit since the beginning has.
    fn rows(&self) -> Vec<usize> {
        self.store.rows().split_off(self.before)
    }
}

#[tokio::test]
async fn a_second_commit_follows_when_it_is_half_as_large_as_the_first() {
    let batches = Batches::begin().await;
    batches.submit(8).await;
    assert_eq!(batches.rows(), [8], "nothing lingers");
    for _ in 0..3 {
        batches.submit(1).await;
        assert_eq!(batches.rows(), [8], "a crumb waits");
    }
    batches.submit(1).await;
    assert_eq!(batches.rows(), [8, 4], "the store has its next");
    batches.submit(100).await;
    assert_eq!(batches.rows(), [8, 4], "no more than one waits in the store");
    batches.end_one().await;
    assert_eq!(batches.rows(), [8, 4, 100]);
}

#[tokio::test]
async fn a_smaller_commit_goes_as_soon_as_the_first_has_ended() {
    let batches = Batches::begin().await;
    batches.submit(9).await;
    batches.submit(4).await;
    assert_eq!(batches.rows(), [9]);
    batches.end_one().await;
    assert_eq!(batches.rows(), [9, 4]);
    batches.submit(1).await;
    assert_eq!(batches.rows(), [9, 4], "a crumb of the one under way now");
    batches.submit(1).await;
    assert_eq!(batches.rows(), [9, 4, 2]);
}

#[tokio::test]
async fn many_that_ask_at_once_go_in_one_commit() {
    let batches = Batches::begin().await;
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let engine = batches.engine.clone();
            tokio::spawn(async move { engine.submit_one(job("t")).await })
        })
        .collect();
    batches.settle().await;
    assert_eq!(batches.rows(), [50]);
    batches.end_one().await;
    for asked in asking {
        asked.await.unwrap().unwrap();
    }
}
