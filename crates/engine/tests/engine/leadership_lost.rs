//! An engine that may have lost the leadership answers nothing, not even from memory.

use crate::paused_store::PausedStore;
use crate::rig::{job, passed, worker};
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_engine::{Config, Engine, Rejected, SessionEvent, SystemClock};

#[tokio::test]
async fn an_engine_that_may_not_lead_renews_nothing_and_reports_why_it_stopped() {
    let store = PausedStore::new();
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
    store.lose_leadership();
    assert!(matches!(session.renew().await, Err(Rejected::Stopped(_))));
    let why = engine.stopped().await;
    assert!(why.contains("another node"), "{why}");
    assert!(session.report_many(vec![(held.attempt, held.lease, passed())]).await.is_err());
    assert!(matches!(engine.show(id).await, Err(Rejected::Stopped(_))));
    while session.next().await.is_some() {}
}

#[tokio::test]
async fn commits_in_flight_when_leadership_is_lost_are_answered_as_unknown() {
    let store = PausedStore::new();
    let engine = Engine::start(store.clone(), Config::default(), SystemClock::default()).await.unwrap();
    engine.submit_one(job("t")).await.unwrap();
    store.hold_commits();
    let submitting = engine.submit_one(job("t"));
    let falling = async {
        // The second request is answered from memory, so the first was taken before it.
        engine.counts().await.unwrap();
        store.lose_leadership();
        engine.counts().await
    };
    let (submitted, counted) = tokio::join!(submitting, falling);
    assert!(matches!(submitted, Err(Rejected::Unknown(_))), "{submitted:?}");
    assert!(matches!(counted, Err(Rejected::Stopped(_))), "{counted:?}");
}

#[tokio::test]
async fn an_engine_that_is_stopped_reports_it() {
    let engine = Engine::start(PausedStore::new(), Config::default(), SystemClock::default()).await.unwrap();
    let watched = engine.clone();
    let watching = tokio::spawn(async move { watched.stopped().await });
    engine.stop().await;
    assert_eq!(watching.await.unwrap(), "it was shut down");
}
