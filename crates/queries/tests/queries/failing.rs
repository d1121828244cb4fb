//! Queries that have no value.

use jobhall_core::{Disposition, Failure};
use jobhall_queries::{EndedHow, Error};

use crate::rig::{Hall, text_of, worker};

const ALL: [&str; 3] = ["a@1", "b@1", "c@1"];

#[tokio::test]
async fn a_failure_is_told_at_once_and_repeated_by_its_promise_only() {
    let hall = Hall::with_commands().await;
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let fails = broken.clone();
    let ran = worker(&hall, &ALL, move |params| {
        if params.query == "a/b" && fails.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(Failure::new("exit_3", "no such column"));
        }
        Ok(params.query.clone())
    })
    .await;
    let first = hall.promise("a/b/c").await;
    let ended = hall.queries.wait(first.job).await.unwrap();
    let EndedHow::Failure { first: origin, step, failure } = &ended.how else { panic!("a value") };
    assert_eq!((failure.reason.as_str(), step.query.as_str()), ("exit_3", "a/b"), "the step that failed");
    assert_ne!(origin.id, ended.job.id, "the last step did not run");
    assert_eq!(ran.queries(), ["a", "a/b"], "one attempt, and nothing after it");

    broken.store(false, std::sync::atomic::Ordering::SeqCst);
    let again = hall.queries.wait(first.job).await.unwrap();
    assert!(matches!(&again.how, EndedHow::Failure { failure, .. } if failure.reason == "exit_3"));
    let second = hall.promise("a/b/c").await;
    assert_eq!(
        (second.disposition, second.created),
        (Disposition::Created, 2),
        "a is cached, the failure is not"
    );
    assert_eq!(text_of(&hall.queries.wait(second.job).await.unwrap()), "4 a/b/c");
    let still = hall.queries.wait(first.job).await.unwrap();
    assert!(matches!(still.how, EndedHow::Failure { .. }), "the first promise keeps its answer");
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_cancel_reaches_who_waits() {
    let hall = Hall::with_commands().await;
    let found = hall.promise("a/b").await;
    let waiting = {
        let queries = hall.queries.clone();
        tokio::spawn(async move { queries.wait(found.job).await })
    };
    hall.engine.cancel(found.job, Failure::new("cancelled", "by ann")).await.unwrap();
    let ended = waiting.await.unwrap().unwrap();
    assert!(matches!(&ended.how, EndedHow::Failure { failure, .. } if failure.explanation == "by ann"));
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_wrong_query_and_a_wrong_promise_are_refused() {
    let hall = Hall::with_commands().await;
    for (text, code) in
        [("a/zz", "unknown_command"), ("a-1-2", "wrong_argument"), ("-R/k/-/a", "unknown_source")]
    {
        let Err(Error::Query(error)) = hall.ask_with(text, true).await else { panic!("{text}") };
        assert_eq!(error.kind.code(), code, "{text}");
    }
    assert!(
        hall.store.list(Default::default(), None, 10).await.unwrap().jobs.is_empty(),
        "nothing is queued"
    );
    let none = hall.queries.wait(jobhall_core::JobId::new(77).unwrap()).await;
    assert!(matches!(none, Err(Error::NoSuchPromise(77))), "{none:?}");
    let other = jobhall_core::NewJob::new(jobhall_core::TypeName::new("mail").unwrap());
    let mail = hall.engine.submit_one(other).await.unwrap().id;
    assert!(matches!(hall.queries.wait(mail).await, Err(Error::NoSuchPromise(_))), "it is no query");
    hall.engine.stop().await;
}
