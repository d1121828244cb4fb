//! Checks: programs whose output stands in the identity, run by a worker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jobhall_core::Failure;
use jobhall_core::query::{Check, Declared, Modes, NodeParams};
use jobhall_queries::{Asked, CHECK_CHANGED, EndedHow, Error, Request};

use crate::cached::warm;
use crate::rig::{Hall, Ran, declared, query, raw_worker, text_of, until};

/// What the data that is elsewhere says of itself; none while it cannot be reached.
type World = Arc<Mutex<Option<String>>>;

fn checked(name: &str, every_ms: u64) -> Declared {
    let mut declared = declared(name, "1", Modes::default());
    declared.declaration.check = Some(Check { run: vec!["stat".to_owned(), "{x}".to_owned()], every_ms });
    declared
}

fn set(world: &World, says: Option<&str>) {
    *world.lock().unwrap() = says.map(str::to_owned);
}

/// `a` has a check that runs at most once in this time; `b` is plain.
async fn start(every_ms: u64) -> (Hall, World, Ran) {
    let hall = Hall::with_commands().await;
    hall.queries.declare(vec![checked("a", every_ms)]).await.unwrap();
    let world = World::default();
    set(&world, Some("one"));
    let seen = world.clone();
    // The worker of the rig numbers its runs; the answer of a check must not change by that.
    let ran = raw_worker(&hall, &["a@1", "b@1"], move |number, params: &NodeParams| {
        let says = seen.lock().unwrap().clone();
        let says = says.ok_or_else(|| Failure::new("exit_1", "no connection"))?;
        Ok(if params.check { says } else { format!("{number} {says}") })
    })
    .await;
    (hall, world, ran)
}

/// The runs of checks and of steps.
fn counts(ran: &Ran) -> (usize, usize) {
    let checks = ran.checks();
    (checks, ran.count() - checks)
}

#[tokio::test]
async fn a_value_is_that_of_the_answer_of_its_check() {
    let (hall, world, ran) = start(100).await;
    assert_eq!(hall.value("a-x/b").await, "3 one");
    assert_eq!(counts(&ran), (1, 2));
    set(&world, Some("two"));
    until("the answer", || async { hall.value("a-x/b").await.ends_with("two") }).await;
    let steps = counts(&ran).1;
    assert_eq!(steps, 4, "both steps ran once for the other answer");
    set(&world, Some("one"));
    until("the first value", || async { hall.value("a-x/b").await == "3 one" }).await;
    assert_eq!(counts(&ran).1, steps, "the same answer again runs no step");
    hall.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_check_runs_once_for_all_who_ask() {
    let (hall, world, ran) = start(3_600_000).await;
    let hall = Arc::new(hall);
    let askers: Vec<_> = (0..200)
        .map(|n| {
            let hall = hall.clone();
            tokio::spawn(async move { hall.value(if n % 2 == 0 { "a-x" } else { "a-x/b" }).await })
        })
        .collect();
    for asker in askers {
        asker.await.unwrap();
    }
    assert_eq!(counts(&ran), (1, 2));
    set(&world, Some("two"));
    assert_eq!(hall.value("a-x/b").await, text_of(hall.ended("a-x/b").await.as_ref()));
    assert!(warm(&hall, "a-x/b").is_some(), "its answer is young enough");
    assert_eq!(counts(&ran), (1, 2), "within its time it does not run again");
    hall.value("a-y").await;
    assert_eq!(counts(&ran), (2, 3), "that of another argument is another one");
    hall.engine.stop().await;
}

#[tokio::test]
async fn if_a_check_fails_the_step_fails_and_only_who_asks_for_it_gets_what_is_stale() {
    let (hall, world, ran) = start(100).await;
    assert_eq!(hall.value("a-x/b").await, "3 one");
    set(&world, None);
    let failed = async || match hall.ask_with("a-x/b", true).await.unwrap() {
        Asked::Promise(found) => hall.queries.wait(found.job).await.unwrap(),
        Asked::Hit(ended) => ended,
        other => panic!("{other:?}"),
    };
    until("the failure", || async { matches!(failed().await.how, EndedHow::Failure { .. }) }).await;
    let ended = failed().await;
    let EndedHow::Failure { step, failure, .. } = &ended.how else { panic!("{ended:?}") };
    assert!(step.check && step.query == "a-x", "{step:?}");
    assert_eq!((failure.reason.as_str(), failure.explanation.as_str()), ("exit_1", "no connection"));
    assert_eq!(counts(&ran).1, 2, "no step ran");
    until("the end of the answer", || async { warm(&hall, "a-x/b").is_none() }).await;
    let stale = |text: &str| Request {
        query: query(text),
        compute: true,
        stale: true,
        priority: 50,
        owner: None,
        within: None,
    };
    let Asked::Hit(old) = hall.queries.ask(stale("a-x/b")).await.unwrap() else { panic!("no value") };
    assert_eq!(text_of(old.as_ref()), "3 one");
    set(&world, Some("one"));
    until("the value", || async { !matches!(failed().await.how, EndedHow::Failure { .. }) }).await;
    assert_eq!(hall.value("a-x/b").await, "3 one");
    hall.engine.stop().await;
}

#[tokio::test]
async fn who_may_not_compute_runs_no_check() {
    let (hall, _, ran) = start(100).await;
    assert!(matches!(hall.ask_with("a-x", false).await.unwrap(), Asked::NotComputed(_)));
    assert_eq!(ran.count(), 0);
    let refused = hall.queries.identity(&query("a-x")).await;
    assert!(
        matches!(&refused, Err(Error::Refused(why)) if why.starts_with("the check of a has not been run"))
    );
    let steps = hall.queries.explain(&query("a-x/b"), false).await.unwrap();
    assert_eq!(steps[0].check, Some(Default::default()), "nothing is known of it");
    assert_eq!((steps[1].check.as_ref(), ran.count()), (None, 0));
    let steps = hall.queries.explain(&query("a-x/b"), true).await.unwrap();
    let answer = steps[0].check.clone().unwrap().answer.unwrap();
    assert_eq!((answer.text.as_str(), ran.count(), ran.checks()), ("one", 1, 1), "only the check ran");
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_step_whose_data_changed_while_it_ran_is_planned_again_with_the_answer_of_now() {
    let hall = Hall::with_commands().await;
    hall.queries.declare(vec![checked("a", 3_600_000)]).await.unwrap();
    // The check says "one" at first and "two" from then on, and the first run of the step notices that.
    let (checks, steps) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let ran = raw_worker(&hall, &["a@1"], move |_, params: &NodeParams| match params.check {
        true if checks.fetch_add(1, Ordering::SeqCst) == 0 => Ok("one".to_owned()),
        true => Ok("two".to_owned()),
        false if steps.fetch_add(1, Ordering::SeqCst) == 0 => Err(Failure::new(CHECK_CHANGED, "")),
        false => Ok("of two".to_owned()),
    })
    .await;
    let first = hall.ended("a").await;
    assert!(first.is_outdated(), "{first:?}");
    assert_eq!(hall.value("a").await, "of two");
    assert_eq!(counts(&ran), (2, 2), "the check ran again at once, although its answer was young");
    assert_eq!((hall.value("a").await.as_str(), ran.count()), ("of two", 4));
    hall.engine.stop().await;
}
