//! The order in which a query is answered, and what runs for it.

use jobhall_core::query::NodeParams;
use jobhall_core::{Disposition, Failure, Json, Report, State};
use jobhall_queries::{Asked, Warmth};

use crate::rig::{Hall, query, text_of, worker};

const ALL: [&str; 4] = ["a@1", "b@1", "c@1", "v@1"];

fn echo(params: &NodeParams) -> Result<String, Failure> {
    Ok(params.query.clone())
}

#[tokio::test]
async fn a_chain_is_computed_once_and_then_read() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall, &ALL, echo).await;
    let found = hall.promise("a-1/b-2/c").await;
    assert_eq!((found.created, found.disposition), (3, Disposition::Created));
    let ended = hall.queries.wait(found.job).await.unwrap();
    assert_eq!(text_of(&ended), "3 a-1/b-2/c");
    let steps: Vec<String> = ran.queries();
    assert_eq!(
        steps,
        ["a-1", "a-1/b-2", "a-1/b-2/c"],
        "each step after the one that it receives its value from"
    );
    // The same meaning in another text: the default of x is the empty text.
    for same in ["a-1/b-2/c", "a-1/b-2/c-"] {
        let Asked::Hit(hit) = hall.ask_with(same, true).await.unwrap() else { panic!("{same}") };
        assert_eq!(text_of(&hit), "3 a-1/b-2/c");
    }
    assert_eq!(ran.count(), 3, "nothing ran again");
    hall.engine.stop().await;
}

#[tokio::test]
async fn the_longest_cached_prefix_is_reused() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall, &ALL, echo).await;
    hall.value("a/b").await;
    let found = hall.promise("a/b/c-1/b").await;
    assert_eq!(found.created, 2);
    hall.queries.wait(found.job).await.unwrap();
    assert_eq!(ran.queries()[2..], ["a/b/c-1", "a/b/c-1/b"]);
    let planned = hall.queries.plan(&query("a/b/c-1/a")).await.unwrap();
    let warmth: Vec<&str> = planned
        .warmth
        .iter()
        .map(|warmth| match warmth {
            Warmth::Hit(..) => "hit",
            Warmth::NotNeeded(_) => "not needed",
            Warmth::Missing(_) | Warmth::Expired(..) => "missing",
        })
        .collect();
    assert_eq!(warmth, ["not needed", "not needed", "hit", "missing"]);
    hall.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_askers_of_a_cold_query_run_it_once() {
    let hall = std::sync::Arc::new(Hall::with_commands().await);
    let ran = worker(&hall, &ALL, echo).await;
    // The worker runs while they ask, so some find the job pending, some completed, and some look before it is there and
    // submit after it has ended.
    let askers: Vec<_> = (0..1_000)
        .map(|_| {
            let hall = hall.clone();
            tokio::spawn(async move { hall.value("a/b").await })
        })
        .collect();
    for asker in askers {
        assert_eq!(asker.await.unwrap(), "2 a/b");
    }
    assert_eq!(ran.queries(), ["a", "a/b"]);
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_success_between_the_look_and_the_commit_is_found() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall, &ALL, echo).await;
    let stale = hall.queries.plan(&query("a")).await.unwrap();
    assert!(matches!(stale.warmth[..], [Warmth::Missing(None)]));
    let first = hall.promise("a").await;
    hall.queries.wait(first.job).await.unwrap();
    let found = hall.queries.submit_planned(&stale).await.unwrap();
    assert_eq!((found.job, found.disposition, found.created), (first.job, Disposition::Reused, 0));
    assert_eq!((first.job.get(), ran.count()), (1, 1), "also if it is the first job of the hall");
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_volatile_query_is_computed_for_each_request_and_its_prefix_is_not() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall, &ALL, echo).await;
    assert_eq!(hall.value("a/v/c").await, "2 a/v/c");
    assert_eq!(hall.value("a/v/c").await, "3 a/v/c");
    assert_eq!(ran.queries(), ["a", "a/v/c", "a/v/c"], "v and c run in one job");
    hall.engine.stop().await;
}

#[tokio::test]
async fn who_may_not_compute_gets_hits_and_the_plan_of_what_is_missing() {
    let hall = Hall::with_commands().await;
    worker(&hall, &ALL, echo).await;
    let Asked::NotComputed(planned) = hall.ask_with("a/b", false).await.unwrap() else { panic!("computed") };
    assert_eq!(planned.plan.nodes.len(), 2);
    assert!(
        hall.store.list(Default::default(), None, 10).await.unwrap().jobs.is_empty(),
        "nothing is submitted"
    );
    hall.value("a/b").await;
    assert!(matches!(hall.ask_with("a/b", false).await.unwrap(), Asked::Hit(_)));
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_value_that_cannot_be_read_is_made_again_once() {
    let hall = Hall::with_commands().await;
    // A job of the same key whose result is no value, as a worker of another kind would leave it.
    let job = {
        let found = hall.promise("a").await;
        hall.engine.show(found.job).await.unwrap().job
    };
    damage(&hall, &job.spec.needs.to_string()).await;
    let ran = worker(&hall, &ALL, echo).await;
    for _ in 0..3 {
        assert_eq!(hall.value("a").await, "1 a");
    }
    assert_eq!(ran.count(), 1);
    assert!(matches!(hall.queries.wait(job.id).await, Err(jobhall_queries::Error::Damaged(_))));
    hall.engine.stop().await;
}

/// Completes the one job with a result that is no value.
pub async fn damage(hall: &Hall, needs: &str) {
    assert_eq!(needs, "commands=a@1");
    let mut session = hall
        .engine
        .open(jobhall_engine::Opening {
            worker: jobhall_core::WorkerName::new("other").unwrap(),
            abilities: jobhall_core::needs::Abilities::parse("commands=[a@1]").unwrap(),
            accepts: jobhall_core::needs::Accepts::parse("type=q.a").unwrap(),
            attempts: Vec::new(),
            lease_ms: None,
            fresh: true,
        })
        .await
        .unwrap();
    session.credit(1).await.unwrap();
    let Some(jobhall_engine::SessionEvent::Assigned(assignment)) = session.next().await else {
        panic!("none")
    };
    session.accept(assignment.attempt, assignment.lease).await.unwrap();
    let report = Report::Succeeded(Json::value("{\"size\":1}").unwrap());
    session.report(assignment.attempt, assignment.lease, report).await.unwrap();
    let job = hall.engine.show(assignment.attempt.job).await.unwrap().job;
    assert!(matches!(job.status.state, State::Succeeded(_)));
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_joined_query_is_the_same_promise() {
    let hall = Hall::with_commands().await;
    let first = hall.promise("a/b").await;
    let second = hall.promise("a/b").await;
    assert_eq!((second.job, second.disposition, second.created), (first.job, Disposition::Joined, 0));
    let longer = hall.promise("a/b/c").await;
    assert_eq!(longer.created, 1, "the pending prefix is joined");
    let after = &hall.engine.show(longer.job).await.unwrap().job.spec.after;
    assert_eq!(**after, [first.job]);
    hall.engine.stop().await;
}
