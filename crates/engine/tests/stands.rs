//! An engine whose store stands no more says nothing more, not even what it remembers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod hall;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hall::{job, passed, worker};
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::retention::Completed;
use jobhall_core::{Group, GroupId, Job, JobId, PastAttempt};
use jobhall_engine::{Config, Engine, Refused, SessionEvent, SystemClock};
use jobhall_store::{
    AuditRow, Block, BlockChange, CommitError, Committed, FeedPage, JobFilter, JobPage, Later, Link, Member,
    Memory, Prune, Pruned, Setting, Store, StoreError, Unit,
};
use tokio::sync::Semaphore;

/// The reference, until someone else may speak for the hall; its commits can be held up.
struct Shared {
    memory: Memory,
    fallen: AtomicBool,
    commits: Arc<Semaphore>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        let commits = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Arc::new(Shared { memory: Memory::new(), fallen: AtomicBool::new(false), commits })
    }

    fn fall(&self) {
        self.fallen.store(true, Ordering::SeqCst);
    }

    fn hold_commits(&self) {
        self.commits.forget_permits(Semaphore::MAX_PERMITS);
    }
}

impl Store for Shared {
    fn stands(&self) -> bool {
        !self.fallen.load(Ordering::SeqCst)
    }
    fn commit(&self, units: Vec<Unit>) -> Later<Result<Committed, CommitError>> {
        let (done, commits) = (self.memory.commit(units), self.commits.clone());
        Box::pin(async move {
            let _permit = commits.acquire_owned().await.unwrap();
            done.await
        })
    }
    fn take_block(&self, size: u64) -> Later<Result<Block, CommitError>> {
        self.memory.take_block(size)
    }
    fn settle_blocks(&self, changes: Vec<BlockChange>) -> Later<Result<(), CommitError>> {
        self.memory.settle_blocks(changes)
    }
    fn prune(&self, prune: Prune) -> Later<Result<Pruned, CommitError>> {
        self.memory.prune(prune)
    }
    fn jobs(&self, ids: Vec<JobId>) -> Later<Result<Vec<Option<Job>>, StoreError>> {
        self.memory.jobs(ids)
    }
    fn attempts(&self, id: JobId) -> Later<Result<Vec<PastAttempt>, StoreError>> {
        self.memory.attempts(id)
    }
    fn open_jobs(&self, after: Option<JobId>, limit: usize) -> Later<Result<Vec<Job>, StoreError>> {
        self.memory.open_jobs(after, limit)
    }
    fn blocks(&self) -> Later<Result<Vec<Block>, StoreError>> {
        self.memory.blocks()
    }
    fn completed(&self, before: Option<JobId>, limit: usize) -> Later<Result<Vec<Completed>, StoreError>> {
        self.memory.completed(before, limit)
    }
    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Later<Result<JobPage, StoreError>> {
        self.memory.list(filter, before, limit)
    }
    fn groups(&self, ids: Vec<GroupId>) -> Later<Result<Vec<Option<Group>>, StoreError>> {
        self.memory.groups(ids)
    }
    fn group_page(
        &self,
        before: Option<GroupId>,
        limit: usize,
        open: bool,
    ) -> Later<Result<Vec<Group>, StoreError>> {
        self.memory.group_page(before, limit, open)
    }
    fn members(
        &self,
        group: GroupId,
        after: Option<JobId>,
        limit: usize,
    ) -> Later<Result<Vec<Member>, StoreError>> {
        self.memory.members(group, after, limit)
    }
    fn links(&self, after: Option<(JobId, String)>, limit: usize) -> Later<Result<Vec<Link>, StoreError>> {
        self.memory.links(after, limit)
    }
    fn settings(&self) -> Later<Result<Vec<Setting>, StoreError>> {
        self.memory.settings()
    }
    fn audit(&self, before: Option<u64>, limit: usize) -> Later<Result<Vec<AuditRow>, StoreError>> {
        self.memory.audit(before, limit)
    }
    fn feed(&self, after: u64, limit: usize) -> Later<Result<FeedPage, StoreError>> {
        self.memory.feed(after, limit)
    }
}

#[tokio::test]
async fn an_engine_whose_store_stands_no_more_renews_nothing_and_tells_why_it_stopped() {
    let store = Shared::new();
    let engine = Engine::start(store.clone(), Config::default(), SystemClock::default()).await.unwrap();
    let opened = engine.open_session(worker("w"), Abilities::default(), Accepts::default(), Vec::new());
    let mut session = opened.await.unwrap();
    session.vacancy(1, 30_000).await.unwrap();
    let id = engine.submit_one(job("t")).await.unwrap().id;
    let held = loop {
        if let SessionEvent::Assigned(held) = session.next().await.unwrap() {
            break held;
        }
    };
    session.renew().await.unwrap();
    store.fall();
    assert!(matches!(session.renew().await, Err(Refused::Stopped(_))));
    let why = engine.stopped().await;
    assert!(why.contains("another node"), "{why}");
    assert!(session.report_many(vec![(held.attempt, held.lease, passed())]).await.is_err());
    assert!(matches!(engine.show(id).await, Err(Refused::Stopped(_))));
    while session.next().await.is_some() {}
}

#[tokio::test]
async fn what_was_on_its_way_when_the_store_fell_is_answered_as_unknown() {
    let store = Shared::new();
    let engine = Engine::start(store.clone(), Config::default(), SystemClock::default()).await.unwrap();
    engine.submit_one(job("t")).await.unwrap();
    store.hold_commits();
    let submitting = engine.submit_one(job("t"));
    let falling = async {
        // The second request is answered from memory, so the first was taken before it.
        engine.counts().await.unwrap();
        store.fall();
        engine.counts().await
    };
    let (submitted, counted) = tokio::join!(submitting, falling);
    assert!(matches!(submitted, Err(Refused::Unknown(_))), "{submitted:?}");
    assert!(matches!(counted, Err(Refused::Stopped(_))), "{counted:?}");
}

#[tokio::test]
async fn an_engine_that_is_told_to_stop_says_so() {
    let engine = Engine::start(Shared::new(), Config::default(), SystemClock::default()).await.unwrap();
    let watched = engine.clone();
    let watching = tokio::spawn(async move { watched.stopped().await });
    engine.stop().await;
    assert_eq!(watching.await.unwrap(), "it was shut down");
}
