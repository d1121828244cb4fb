//! The order in which a query is answered, and what is computed anew.

use jobhall_core::query::{CommandName, NodeParams};
use jobhall_core::{Disposition, Failure, Job, JobId, Report, StateName};
use jobhall_engine::{Config, Engine, Rejected, SystemClock};
use jobhall_queries::{Asked, CacheBounds, Error, Queries, RESERVED, Refresh};

use crate::rig::{Hall, query, text_of, worker, worker_with};

const ALL: [&str; 4] = ["a@1", "b@1", "c@1", "v@1"];

fn echo(params: &NodeParams) -> Result<String, Failure> {
    Ok(params.query.clone())
}

fn promised(asked: Asked) -> (JobId, Disposition, usize) {
    match asked {
        Asked::Promise(found) => (found.job, found.disposition, found.created),
        other => panic!("{other:?}"),
    }
}

async fn stored(hall: &Hall) -> usize {
    hall.store.list(Default::default(), None, 100).await.unwrap().jobs.len()
}

/// Each way is possible together with those that come after it, and is taken before them.
#[tokio::test]
async fn q01_a_query_is_answered_by_the_cache_a_mode_a_completed_job_a_pending_one_and_then_a_new_one() {
    let hall = Hall::with_commands().await;
    // Last: a new job, as there is nothing else.
    let stale = hall.queries.plan(&query("a")).await.unwrap();
    let first = hall.promise("a").await;
    assert_eq!((first.disposition, first.created), (Disposition::Created, 1));
    // A pending job, before a new one.
    let joined = hall.promise("a").await;
    assert_eq!((joined.job, joined.disposition, joined.created), (first.job, Disposition::Joined, 0));
    let ran = worker(&hall, &["a@1", "v@1"], echo).await;
    hall.queries.wait(first.job).await.unwrap();
    // A completed job, before a new one: the plan was made when nothing was stored, so the cache had no answer.
    let found = hall.queries.submit_planned(&stale).await.unwrap();
    assert_eq!((found.job, found.disposition, found.created), (first.job, Disposition::Reused, 0));
    // A completed job, before a pending one of the same key, which a refresh has made.
    hall.queries.declare(vec![crate::rig::declared("a", "2", Default::default())]).await.unwrap();
    let stale = hall.queries.plan(&query("a")).await.unwrap();
    let second = hall.promise("a").await;
    let hands = worker_of(&hall, second.job).await;
    assert_eq!(hands, StateName::Succeeded);
    let (pending, disposition, _) = promised(hall.refresh("a", Refresh::All).await.unwrap());
    assert_eq!(disposition, Disposition::Created);
    let found = hall.queries.submit_planned(&stale).await.unwrap();
    assert_eq!((found.job, found.disposition), (second.job, Disposition::Reused));
    // The cache, before all others: the pending job goes on.
    let before = stored(&hall).await;
    let Asked::Hit(hit) = hall.ask_with("a", true).await.unwrap() else { panic!("not from the cache") };
    assert_eq!((hit.job.id, stored(&hall).await), (second.job, before), "nothing is submitted");
    assert!(hall.queries.ended(pending).await.unwrap().is_none());
    // A mode, before completed and pending jobs: each evaluation of a volatile query is its own.
    let one = hall.promise("v").await;
    let ended = hall.queries.wait(one.job).await.unwrap();
    assert_eq!(text_of(&ended), format!("{} v", ran.count()));
    for _ in 0..2 {
        let other = hall.promise("v-1").await;
        assert_eq!((other.disposition, other.created), (Disposition::Created, 1));
    }
    hall.engine.stop().await;
}

/// Runs one job of `a` in version 2 by hand, and no other.
async fn worker_of(hall: &Hall, id: JobId) -> StateName {
    let mut session = hall
        .engine
        .open(jobhall_engine::Opening {
            worker: jobhall_core::WorkerName::new("hand").unwrap(),
            abilities: jobhall_core::needs::Abilities::parse("commands=[a@2]").unwrap(),
            accepts: jobhall_core::needs::Accepts::parse("type=q.a").unwrap(),
            attempts: Vec::new(),
            lease_ms: None,
            fresh: true,
        })
        .await
        .unwrap();
    session.credit(1).await.unwrap();
    let Some(jobhall_engine::SessionEvent::Assigned(given)) = session.next().await else { panic!("none") };
    assert_eq!(given.attempt.job, id);
    session.accept(given.attempt, given.lease).await.unwrap();
    let value = r#"{"media_type":"text/plain","size":3,"text":"two"}"#;
    let report = Report::Succeeded(jobhall_core::Json::value(value).unwrap());
    let state = session.report(given.attempt, given.lease, report).await.unwrap();
    session.close().await.unwrap();
    state
}

#[tokio::test]
async fn a_refresh_computes_anew_what_is_stored_and_what_follows() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall, &ALL, echo).await;
    hall.value("a/b/c").await;
    let again = |refresh: Refresh| {
        let hall = &hall;
        async move {
            let (job, _, created) = promised(hall.refresh("a/b/c", refresh).await.unwrap());
            (text_of(&hall.queries.wait(job).await.unwrap()), created)
        }
    };
    let command = |name: &str| Refresh::Command(CommandName::new(name).unwrap());
    assert_eq!(again(command("b")).await, ("5 a/b/c".to_owned(), 2));
    assert_eq!(ran.queries()[3..], ["a/b", "a/b/c"], "a is cached");
    assert_eq!(hall.value("a/b/c").await, "5 a/b/c", "the new value counts from now on");
    assert_eq!(again(Refresh::All).await, ("8 a/b/c".to_owned(), 3));
    let refused = hall.refresh("a/b", command("c")).await;
    assert!(
        matches!(&refused, Err(Error::Refused(why)) if why == "refresh: the query has no step of the command c"),
        "{refused:?}"
    );
    // What was never computed is not refreshed, but computed.
    assert_eq!(promised(hall.refresh("b", Refresh::All).await.unwrap()).2, 1);
    hall.engine.stop().await;
}

async fn params_of(hall: &Hall, id: JobId) -> (Job, NodeParams) {
    let job = hall.engine.show(id).await.unwrap().job;
    let params = serde_json::from_str(job.spec.params.as_str()).unwrap();
    (job, params)
}

/// Waits until a job would be answered by what was made of the same bytes.
async fn wait_until_seen(hall: &Hall, job: &Job, params: &NodeParams) {
    while hall.queries.seen(job, params).await.unwrap().is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_step_that_is_computed_anew_is_not_answered_by_what_was_made_of_the_same_bytes() {
    let hall = Hall::with_commands().await;
    let found = hall.promise("a/b").await;
    worker_with(&hall, ("first", ""), &["a@1"], echo).await;
    hall.queries.wait(found.jobs[0].1.id).await.unwrap();
    let (job, params) = params_of(&hall, found.job).await;
    assert!(!params.anew && !params.inputs.is_empty());
    assert_eq!(hall.queries.seen(&job, &params).await.unwrap(), None, "it is the first with these bytes");
    worker_with(&hall, ("second", ""), &["b@1"], echo).await;
    hall.queries.wait(found.job).await.unwrap();
    let command = CommandName::new("b").unwrap();
    let (anew, ..) = promised(hall.refresh("a/b", Refresh::Command(command)).await.unwrap());
    let (job, params) = params_of(&hall, anew).await;
    wait_until_seen(&hall, &job, &NodeParams { anew: false, ..params.clone() }).await;
    assert!(params.anew);
    assert_eq!(hall.queries.seen(&job, &params).await.unwrap(), None);
    hall.engine.stop().await;
}

#[tokio::test]
async fn q26_a_full_queue_refuses_a_query_and_one_that_is_queued_is_joined() {
    let store: std::sync::Arc<dyn jobhall_store::Store> = std::sync::Arc::new(jobhall_store::Memory::new());
    let config =
        Config { reserved: jobhall_core::Reserved(&[RESERVED]), open_jobs_per_queue: 4, ..Config::default() };
    let engine = Engine::start(store.clone(), config, SystemClock::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let blobs = std::sync::Arc::new(jobhall_blobs::Blobs::open(folder.path()).unwrap());
    let queries = Queries::with_cache(engine.clone(), store.clone(), blobs.clone(), CacheBounds::default());
    let hall = Hall { engine, store, queries, blobs, folder };
    let plain = ["a", "b", "c"].map(|name| crate::rig::declared(name, "1", Default::default()));
    hall.queries.declare(plain.into()).await.unwrap();

    let first = hall.promise("a").await;
    let before = hall.store.list(Default::default(), None, 100).await.unwrap();
    for _ in 0..10 {
        let again = hall.promise("a").await;
        assert_eq!((again.job, again.disposition, again.created), (first.job, Disposition::Joined, 0));
    }
    let after = hall.store.list(Default::default(), None, 100).await.unwrap();
    assert_eq!(after.jobs, before.jobs, "asking again for a queued query changes nothing");
    // A chain is taken as a whole or not at all.
    let refused = hall.ask_with("b/a/b/c", true).await;
    assert!(
        matches!(&refused, Err(Error::Rejected(Rejected::QueueFull { queue, open: 1, limit: 4 })) if queue.as_str() == "queries"),
        "{refused:?}"
    );
    assert_eq!(stored(&hall).await, 1, "nothing of it is stored");
    hall.promise("b/a/b").await;
    assert!(matches!(hall.ask_with("c", true).await, Err(Error::Rejected(Rejected::QueueFull { .. }))));
    // There is room as soon as a job has ended.
    worker(&hall, &["a@1", "b@1"], echo).await;
    hall.queries.wait(first.job).await.unwrap();
    assert_eq!(hall.promise("c").await.created, 1);
    hall.engine.stop().await;
}
