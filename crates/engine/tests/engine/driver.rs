//! The driver: requests from many tasks, sessions, watching with resume, stopping.

use std::sync::Arc;

use crate::rig::{failed, job, keyed, passed, tries, worker};
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{Disposition, Failure, JobId, NewJob, StateName};
use jobhall_engine::{Config, Edit, Engine, Rejected, Session, SessionEvent, Submit, SystemClock, Watched};
use jobhall_store::Memory;

async fn start(store: &Arc<Memory>) -> Engine {
    Engine::start(store.clone(), Config::default(), SystemClock::default()).await.unwrap()
}

async fn open(engine: &Engine, name: &str) -> Session {
    engine.open_session(worker(name), Abilities::default(), Accepts::default(), Vec::new()).await.unwrap()
}

async fn assignment(session: &mut Session) -> jobhall_engine::Assignment {
    loop {
        match session.next().await.expect("an event") {
            SessionEvent::Assigned(assignment) => return *assignment,
            _ => continue,
        }
    }
}

#[tokio::test]
async fn a_job_goes_from_submit_to_success_through_the_driver() {
    let store = Arc::new(Memory::new());
    let engine = start(&store).await;
    let mut session = open(&engine, "w").await;
    session.vacancy(2, 30_000).await.unwrap();
    let id = engine.submit_one(job("t")).await.unwrap().id;
    let held = assignment(&mut session).await;
    assert_eq!(held.attempt.job, id);
    session.accept(held.attempt, held.lease).await.unwrap();
    assert_eq!(engine.show(id).await.unwrap().job.status.state.name(), StateName::Accepted);
    let answers = session.report_many(vec![(held.attempt, held.lease, passed())]).await.unwrap();
    assert_eq!(answers, [Ok(StateName::Succeeded)]);
    let (retried, _) = engine.retry(id, None).await.unwrap();
    assert_eq!(assignment(&mut session).await.attempt.job, retried.id);
    assert!(engine.explain(retried.id).await.unwrap().to_string().contains("has not accepted it yet"));
    engine.cancel(retried.id, Failure::new("cancelled", "")).await.unwrap();
    assert!(matches!(session.next().await, Some(SessionEvent::VacancyEnded(..))));
    assert!(matches!(session.next().await, Some(SessionEvent::Cancel(_))));
    session.close().await.unwrap();
    assert_eq!(engine.show(retried.id).await.unwrap().job.status.state.name(), StateName::Cancelled);
}

#[tokio::test]
async fn a_change_is_answered_with_the_job_after_it() {
    let store = Arc::new(Memory::new());
    let engine = start(&store).await;
    let submit = Submit { jobs: vec![keyed("t", "k")], ..Submit::default() };
    let (made, shown) = engine.submit_shown(submit.clone()).await.unwrap();
    assert_eq!((made.disposition, shown.job.id), (Disposition::Created, made.id));
    assert_eq!(shown, engine.show(made.id).await.unwrap());
    let (joined, shown) = engine.submit_shown(submit).await.unwrap();
    assert_eq!((joined.disposition, shown.job.id), (Disposition::Joined, made.id));
    let edit = Edit { priority: Some(7), ..Edit::default() };
    assert_eq!(engine.edit(made.id, edit).await.unwrap().job.spec.priority, 7);
    assert!(engine.hold(made.id).await.unwrap().job.status.hold);
    assert!(!engine.release(made.id).await.unwrap().job.status.hold);
    let failure = Failure::new("cancelled", "enough");
    let cancelled = engine.cancel(made.id, failure.clone()).await.unwrap();
    assert_eq!(cancelled.job.status.state.name(), StateName::Cancelled);
    assert_eq!(engine.cancel(made.id, failure).await.unwrap(), engine.show(made.id).await.unwrap());
    let (again, shown) = engine.retry(made.id, None).await.unwrap();
    assert_eq!((shown.job.id, shown.job.spec.retry_of), (again.id, Some(made.id)));
    let refused = engine.hold(JobId::new(999).unwrap()).await;
    assert_eq!(refused, Err(Rejected::NoSuchJob(JobId::new(999).unwrap())));
}

#[tokio::test]
async fn many_tasks_submit_at_once_and_each_gets_its_own_answer() {
    let store = Arc::new(Memory::new());
    let engine = start(&store).await;
    let tasks: Vec<_> = (0..200)
        .map(|n| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let keyed = keyed("t", &format!("k{}", n % 20));
                engine.submit(Submit { jobs: vec![keyed, job("u")], ..Submit::default() }).await.unwrap()
            })
        })
        .collect();
    let mut ids = std::collections::BTreeSet::new();
    for task in tasks {
        let submitted = task.await.unwrap();
        ids.insert(submitted[0].id);
        assert!(ids.insert(submitted[1].id), "a job without key is always new");
    }
    assert_eq!((ids.len(), store.all_jobs().len()), (220, 220));
}

#[tokio::test]
async fn a_watcher_gets_what_is_stored_then_what_happens_without_gap_or_repeat() {
    let store = Arc::new(Memory::new());
    let engine = start(&store).await;
    let before = engine.submit_one(job("t")).await.unwrap().id;
    let mut watch = engine.watch(0);
    let mut seen = Vec::new();
    let feeder = engine.clone();
    let feed = tokio::spawn(async move {
        for _ in 0..50 {
            feeder.submit_one(job("t")).await.unwrap();
        }
    });
    while seen.len() < 51 {
        match watch.next().await.unwrap().unwrap() {
            Watched::Row(row) => {
                assert_eq!(row.n, watch.position());
                seen.extend(row.entries.iter().map(|entry| entry.id));
            }
            other => panic!("{other:?}"),
        }
    }
    feed.await.unwrap();
    assert_eq!(seen[0], before);
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order");
    let last = watch.position();
    let mut live = engine.watch(last);
    let next = tokio::spawn(async move { live.next().await.unwrap().unwrap() });
    tokio::task::yield_now().await;
    engine.submit_one(job("t")).await.unwrap();
    let stored = store.feed_now(last, 1).rows.remove(0);
    assert_eq!(next.await.unwrap(), Watched::Row(stored), "told live as it will be told again");
    let half = watch.position() / 2;
    let mut resumed = engine.watch(half);
    let Some(Watched::Row(row)) = resumed.next().await.unwrap() else { panic!("a row") };
    assert_eq!(row.n, half + 1, "resume goes on right behind the position");
}

#[tokio::test]
async fn ground_12_the_changes_of_one_job_are_told_when_they_are_stored_and_no_others() {
    let store = Arc::new(Memory::new());
    let engine = start(&store).await;
    let id = engine.submit_one(job("t")).await.unwrap().id;
    let mut changes = engine.changes_of(id);
    for _ in 0..3 {
        engine.submit_one(job("t")).await.unwrap();
    }
    let shown = engine.cancel(id, Failure::new("no", "")).await.unwrap();
    assert_eq!(changes.next().await, shown.job.status.rev, "the other jobs are passed over");
}

#[tokio::test]
async fn a_watcher_behind_the_pruned_feed_is_told_to_reset() {
    let store = Arc::new(Memory::new());
    let engine = start(&store).await;
    engine.submit_one(job("t")).await.unwrap();
    let all = jobhall_store::Prune {
        feed_before: jobhall_core::Time::from_ms(jobhall_core::bounds::TIME_MS).ok(),
        ..Default::default()
    };
    let pruned = store.prune_now(&all).feed;
    let mut watch = engine.watch(0);
    assert_eq!(watch.next().await.unwrap(), Some(Watched::Reset(pruned)));
    let id = engine.submit_one(job("t")).await.unwrap().id;
    let Some(Watched::Row(row)) = watch.next().await.unwrap() else { panic!("a row") };
    assert_eq!((row.n, row.entries[0].id), (pruned + 1, id));
}

#[tokio::test]
async fn h11_a_stopped_engine_refuses_and_the_next_one_finds_everything() {
    let store = Arc::new(Memory::new());
    let engine = start(&store).await;
    let mut session = open(&engine, "w").await;
    session.vacancy(1, 30_000).await.unwrap();
    let first = engine.submit_one(NewJob { retry: tries(3), ..job("t") }).await.unwrap().id;
    let waiting = engine.submit_one(job("t")).await.unwrap().id;
    let held = assignment(&mut session).await;
    engine.stop().await;
    assert!(matches!(engine.submit_one(job("t")).await, Err(Rejected::Stopped(_))));
    assert_eq!(
        session.next().await,
        Some(SessionEvent::VacancyEnded(held.vacancy, jobhall_engine::Ended::Filled))
    );
    assert_eq!(session.next().await, None);
    let engine = start(&store).await;
    let attempts = vec![(held.attempt, held.lease)];
    let session =
        engine.open_session(worker("w"), Abilities::default(), Accepts::default(), attempts).await.unwrap();
    assert_eq!(session.kept, [held.attempt]);
    let report = session.report(held.attempt, held.lease, failed("x")).await;
    assert_eq!(report, Ok(StateName::Retrying));
    assert_eq!(store.attempts_now(first).len(), 1);
    assert_eq!(engine.show(waiting).await.unwrap().job.status.state.name(), StateName::Queued);
}

#[tokio::test]
async fn a_worker_that_is_gone_is_disconnected() {
    let store = Arc::new(Memory::new());
    let engine = start(&store).await;
    let session = open(&engine, "w").await;
    session.vacancy(5, 30_000).await.unwrap();
    drop(session);
    let id = engine.submit_one(job("t")).await.unwrap().id;
    let second = engine.submit_one(job("t")).await.unwrap().id;
    let state = engine.show(second).await.unwrap().job.status.state.name();
    assert_eq!(state, StateName::Queued, "nothing more is assigned to it");
    assert_eq!(engine.show(id).await.unwrap().job.status.attempt, 0);
}
