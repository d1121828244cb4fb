//! Upkeep and waiting in virtual time, which passes only while nobody has anything to do.

use std::sync::Arc;
use std::time::Duration;

use jobhall_blobs::Blobs;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{Json, Report, Reserved, StateName, Time, WorkerName};
use jobhall_engine::{Assignment, Clock, Config, Engine, Mono, Now, Opening, Session, SessionEvent};
use jobhall_queries::{CacheBounds, Queries, RESERVED};
use jobhall_store::{Memory, Store};
use tokio::time::Instant;

use crate::rig::{Hall, declared, text_of};

const LEASE: Duration = Duration::from_secs(30);

/// The clock of the paused runtime.
struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Now {
        let ms = u64::try_from(self.0.elapsed().as_millis()).unwrap();
        Now { wall: Time::from_ms(1_800_000_000_000 + ms.cast_signed()).unwrap(), mono: Mono(ms) }
    }
}

async fn hall() -> Hall {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    let config = Config { reserved: Reserved(&[RESERVED]), lease_ms, ..Config::default() };
    let engine = Engine::start(store.clone(), config, VirtualClock(Instant::now())).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let blobs = Arc::new(Blobs::open(&folder.path().join("blobs")).unwrap());
    let bounds = CacheBounds::default();
    let queries = Queries::with_cache(engine.clone(), store.clone(), blobs.clone(), bounds);
    queries.declare(vec![declared("a", "1", Default::default())]).await.unwrap();
    Hall { engine, store, queries, blobs, folder }
}

async fn session(hall: &Hall, name: &str) -> Session {
    let opening = Opening {
        worker: WorkerName::new(name).unwrap(),
        abilities: Abilities::parse("commands=[a@1]").unwrap(),
        accepts: Accepts::parse("type=q.a").unwrap(),
        attempts: Vec::new(),
        lease_ms: None,
        fresh: true,
    };
    hall.engine.open(opening).await.unwrap()
}

async fn assigned(session: &mut Session) -> Box<Assignment> {
    loop {
        match session.next().await {
            Some(SessionEvent::Assigned(given)) => return given,
            Some(_) => {}
            None => panic!("the session has ended"),
        }
    }
}

fn value() -> Report {
    Report::Succeeded(Json::value(r#"{"media_type":"text/plain","size":3,"text":"one"}"#).unwrap())
}

#[tokio::test(start_paused = true)]
async fn q07_dead_workers_and_unaccepted_jobs_are_found_the_queue_is_handed_out_and_waiters_wake() {
    let hall = hall().await;
    let ask = async |text: &str| hall.promise(text).await.job;
    let (mut dead, mut mute) = (session(&hall, "dead").await, session(&hall, "mute").await);
    // One worker accepts a job and is not heard of again; another one never accepts its own.
    dead.credit(1).await.unwrap();
    let first = ask("a-1").await;
    let of_dead = assigned(&mut dead).await;
    dead.accept(of_dead.attempt, of_dead.lease).await.unwrap();
    mute.credit(1).await.unwrap();
    let second = ask("a-2").await;
    let of_mute = assigned(&mut mute).await;
    let queued = ask("a-3").await;
    let waiters: Vec<_> = [first, second, queued]
        .map(|id| {
            let queries = hall.queries.clone();
            tokio::spawn(async move { queries.wait(id).await })
        })
        .into();
    // A third worker lives, and gets all three: what was queued at once, the others when they are taken back.
    let (begun, mut healthy, mut got) = (Instant::now(), session(&hall, "healthy").await, Vec::new());
    healthy.credit(1).await.unwrap();
    while got.len() < 3 {
        tokio::select! {
            given = assigned(&mut healthy) => {
                healthy.accept(given.attempt, given.lease).await.unwrap();
                healthy.report(given.attempt, given.lease, value()).await.unwrap();
                got.push((given.attempt.job, begun.elapsed()));
                healthy.credit(1 + i64::try_from(got.len()).unwrap()).await.unwrap();
            }
            () = tokio::time::sleep(LEASE / 6) => drop(healthy.renew().await.unwrap()),
        }
    }
    let jobs: Vec<_> = got.iter().map(|(job, _)| *job).collect();
    assert_eq!(jobs, [queued, second, first]);
    assert!(got[1].1 < LEASE && got[2].1 >= LEASE, "{got:?}");
    for waiter in waiters {
        assert_eq!(text_of(waiter.await.unwrap().unwrap().as_ref()), "one");
    }
    // What the others say now changes nothing.
    assert!(mute.accept(of_mute.attempt, of_mute.lease).await.is_err());
    assert!(dead.report(of_dead.attempt, of_dead.lease, value()).await.is_err());
    let job = hall.engine.show(first).await.unwrap().job;
    assert_eq!((job.status.name(Time::EPOCH), job.status.claim), (StateName::Succeeded, 2));
    hall.engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn q26_nothing_that_waits_polls() {
    let hall = hall().await;
    let mut worker = session(&hall, "w").await;
    worker.credit(1).await.unwrap();
    for round in 0..20 {
        let text = format!("a-{round}");
        let before = Instant::now();
        // No time passes between a submit and its assignment, nor between an outcome and its waiters: who would look
        // again after a pause would let it pass.
        let job = hall.promise(&text).await.job;
        let waiter = tokio::spawn({
            let queries = hall.queries.clone();
            async move { queries.wait(job).await }
        });
        let given = assigned(&mut worker).await;
        worker.accept(given.attempt, given.lease).await.unwrap();
        worker.report(given.attempt, given.lease, value()).await.unwrap();
        worker.credit(round + 2).await.unwrap();
        assert_eq!(text_of(waiter.await.unwrap().unwrap().as_ref()), "one");
        assert_eq!(before.elapsed(), Duration::ZERO, "round {round}");
    }
    hall.engine.stop().await;
}
