//! Batching: requests that arrive during a commit go into the next one, small commits wait, and answers keep their
//! order.

use std::sync::Arc;

use crate::paused_store::PausedStore;
use crate::rig::{Hall, job};
use jobhall_core::{Failure, QueueName, Submitted};
use jobhall_engine::{Config, Engine, Rejected, Request, StoreReply, Submit, SystemClock};
use jobhall_store::Committed;
use tokio::task::JoinHandle;

struct Batches {
    store: Arc<PausedStore>,
    engine: Engine,
    before: usize,
}

impl Batches {
    /// An engine that has its ids, and whose commits are held up from now on.
    async fn begin() -> Batches {
        let store = PausedStore::new();
        let engine = Engine::start(store.clone(), Config::default(), SystemClock::default()).await.unwrap();
        engine.submit_one(job("t")).await.unwrap();
        store.hold_commits();
        let before = store.rows().len();
        Batches { store, engine, before }
    }

    /// Submits so many jobs in one request, and waits until the kernel has it.
    async fn submit(&self, jobs: usize) {
        let (engine, jobs) = (self.engine.clone(), vec![job("t"); jobs]);
        tokio::spawn(async move { engine.submit(Submit { jobs, ..Submit::default() }).await });
        self.settle().await;
    }

    /// Lets so many submit a job each, at once.
    fn ask(&self, count: usize) -> Vec<JoinHandle<Result<Submitted, Rejected>>> {
        let ask = |engine: Engine| tokio::spawn(async move { engine.submit_one(job("t")).await });
        (0..count).map(|_| ask(self.engine.clone())).collect()
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
        assert_eq!(batches.rows(), [8], "a small commit waits");
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
    assert_eq!(batches.rows(), [9, 4], "small beside the one in progress");
    batches.submit(1).await;
    assert_eq!(batches.rows(), [9, 4, 2]);
}

#[tokio::test]
async fn many_that_ask_at_once_go_in_one_commit() {
    let batches = Batches::begin().await;
    let asking = batches.ask(50);
    batches.settle().await;
    assert_eq!(batches.rows(), [50]);
    batches.end_one().await;
    for asked in asking {
        asked.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_slice_of_many_requests_goes_to_the_store_while_the_others_are_dealt_with() {
    let batches = Batches::begin().await;
    drop(batches.ask(200));
    batches.settle().await;
    let rows = batches.rows();
    assert!(
        rows.len() == 2 && rows.iter().all(|rows| (60..=64).contains(rows)),
        "in store and next: {rows:?}"
    );
    batches.end_one().await;
    assert_eq!(batches.rows()[2..], [200 - rows[0] - rows[1]]);
}

#[tokio::test]
async fn a_small_commit_waits_while_requests_are_pending() {
    let batches = Batches::begin().await;
    batches.submit(300).await;
    batches.end_one().await;
    drop(batches.ask(100));
    batches.settle().await;
    assert_eq!(batches.rows(), [300, 100], "a slice of them alone would be small beside the last");
    (0..9).for_each(|_| batches.store.end_one());
    drop(batches.ask(70));
    tokio::task::yield_now().await;
    batches.engine.stop().await;
    assert_eq!(batches.rows()[2..].iter().sum::<usize>(), 70, "nothing is left behind at the end");
}

#[tokio::test]
async fn an_overview_includes_every_commit_that_the_feed_has_published() {
    let batches = Batches::begin().await;
    batches.store.end_one();
    let submit = Submit { jobs: vec![job("t"); 200], ..Submit::default() };
    let jobs = batches.engine.submit(submit).await.unwrap();
    batches.submit(1_000).await;
    for job in &jobs {
        let (engine, id) = (batches.engine.clone(), job.id);
        tokio::spawn(async move { engine.cancel(id, Failure::new("cancelled", "")).await });
    }
    batches.settle().await;
    batches.end_one().await;
    assert_eq!(batches.rows(), [200, 1_000, 200]);
    let open = async || {
        let queue = batches.engine.queue(QueueName::new("default").unwrap()).await.unwrap();
        queue.unwrap().0.open()
    };
    assert_eq!(open().await, 1 + 200 + 1_000);
    // In one turn: the commit ends, and the queue is looked at.
    batches.store.end_one();
    assert_eq!(open().await, 1 + 1_000);
}

#[test]
fn a_commit_that_is_told_in_parts_is_under_way_until_its_last() {
    let mut hall = Hall::new();
    let jobs: Vec<_> = (0..3).map(|_| hall.submit(job("t")).unwrap().id).collect();
    let now = hall.now;
    let (mut tickets, mut answered) = (Vec::new(), Vec::new());
    for (n, id) in (1_000..).zip(&jobs) {
        let ticket = n;
        hall.kernel
            .ask(now, Request::Cancel { id: *id, failure: Failure::new("cancelled", "") }.typed(ticket));
        tickets.push(ticket);
    }
    let (number, units) = hall.kernel.take_commit().unwrap();
    let Committed { feed, results } = hall.store.commit_now(units);
    for result in results {
        let part = Committed { feed, results: vec![result] };
        hall.kernel.store_replied(now, StoreReply::Committed(number, Ok(part)));
        let effects = hall.kernel.take_effects();
        let of = |effect| match effect {
            jobhall_engine::Effect::Answer(answer) => {
                let (ticket, answer) = answer.untyped();
                answer.is_ok().then_some(ticket)
            }
            _ => None,
        };
        answered.extend(effects.into_iter().filter_map(of));
        assert_eq!(hall.kernel.is_idle(), answered.len() == 3);
    }
    assert_eq!(answered, tickets);
}
