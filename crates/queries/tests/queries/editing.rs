//! Commands that are declared in another version while someone waits.

use jobhall_core::query::Modes;
use jobhall_core::{Disposition, Failure, State};
use jobhall_queries::{Answered, EndedHow};

use crate::rig::{Hall, declared, query, worker};

async fn declare_again(hall: &Hall, name: &str) {
    hall.queries.declare(vec![declared(name, "2", Modes::default())]).await.unwrap();
}

#[tokio::test]
async fn a_step_that_has_not_begun_is_cancelled_when_its_command_is_declared_in_another_version() {
    let hall = Hall::with_commands().await;
    let (old, other) = (hall.promise("a/b/c").await, hall.promise("c-1").await);
    let wait = |id| {
        let queries = hall.queries.clone();
        tokio::spawn(async move { queries.wait(id).await })
    };
    let (waiting, others) = (wait(old.job), wait(other.job));
    tokio::task::yield_now().await;
    declare_again(&hall, "b").await;
    let ended = waiting.await.unwrap().unwrap();
    assert!(ended.is_outdated());
    let EndedHow::Failure { first, step, .. } = &ended.how else { panic!("a value") };
    assert_eq!(step.query, "a/b", "the step whose command has changed");
    assert!(matches!(first.status.state, State::Cancelled(_)));
    let new = hall.promise("a/b/c").await;
    assert_eq!((new.created, new.disposition), (2, Disposition::Created), "a is still pending and is joined");
    let ran = worker(&hall, &["a@1", "b@2", "c@1"], |params| Ok(params.query.clone())).await;
    assert!(!hall.queries.wait(new.job).await.unwrap().is_outdated());
    assert!(!others.await.unwrap().unwrap().is_outdated(), "nothing of it has changed");
    assert_eq!(ran.count(), 4);
    hall.engine.stop().await;
}

#[tokio::test]
async fn who_begins_to_wait_after_the_declaration_learns_of_it_too() {
    let hall = Hall::with_commands().await;
    let old = hall.promise("a/b").await;
    declare_again(&hall, "b").await;
    assert!(hall.queries.wait(old.job).await.unwrap().is_outdated());
    hall.engine.stop().await;
}

#[tokio::test]
async fn explain_compares_with_the_last_job_of_the_text() {
    let hall = Hall::with_commands().await;
    let explained = async |text: &str| {
        let steps = hall.queries.explain(&query(text), true).await.unwrap();
        steps.into_iter().map(|step| (step.answered, step.why)).collect::<Vec<_>>()
    };
    let (missing, joined) = ((Answered::Missing, None), (Answered::Joined, None));
    assert_eq!(explained("a/b").await, [missing.clone(), missing], "nothing is known of it");
    let found = hall.promise("a/b").await;
    assert_eq!(explained("a/b").await, [joined.clone(), joined]);
    worker(&hall, &["a@1", "b@1", "c@1"], |params| Ok::<_, Failure>(params.query.clone())).await;
    hall.queries.wait(found.job).await.unwrap();
    assert_eq!(explained("a/b").await, [(Answered::Hit, None), (Answered::Hit, None)]);
    declare_again(&hall, "a").await;
    let why = |text: &str| (Answered::Missing, Some(text.to_owned()));
    assert_eq!(
        explained("a/b").await,
        [why("a has another version: 2, before 1"), why("its input has changed")]
    );
    hall.engine.stop().await;
}
