//! Queries that commands ask for while they run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobhall_blobs::ARTIFACT_BYTES;
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::query::{ArgumentParam, AskedQueries, NodeParams, SourceDigest, SourceKey, StoredValue};
use jobhall_core::{AttemptId, Json, LeaseId, Report, State, Time, WorkerName};
use jobhall_engine::{AttemptRef, Engine, Opening, SessionEvent};
use jobhall_queries::{Asker, CacheBounds, Queries, StoredSource, SubAsked};

use crate::cached::{hours_later, warm};
use crate::rig::{Hall, declared, query, text_of};

/// How often the commands have run, by their texts.
type Ran = Arc<std::sync::Mutex<Vec<String>>>;

/// A worker of a, b and c. The argument of a command is a point and a list of queries, separated by spaces, that it asks for
/// while it runs; its value is what it has received, in brackets. A command without queries has the number of its run as value,
/// and b the value that it receives.
async fn worker(hall: &Hall) -> Ran {
    let name = WorkerName::new("w").unwrap();
    let opening = Opening {
        worker: name.clone(),
        abilities: Abilities::parse("commands=[a@1,b@1,c@1,c@2]").unwrap(),
        accepts: Accepts::parse("type in (q.a,q.b,q.c)").unwrap(),
        attempts: Vec::new(),
        lease_ms: None,
        fresh: true,
    };
    let mut session = hall.engine.open(opening).await.unwrap();
    session.credit(10_000).await.unwrap();
    let (ran, runs) = (Ran::default(), Arc::new(AtomicUsize::new(0)));
    let (seen, engine, queries) = (ran.clone(), hall.engine.clone(), hall.queries.clone());
    tokio::spawn(async move {
        while let Some(event) = session.next().await {
            let SessionEvent::Assigned(assignment) = event else { continue };
            let of =
                AttemptRef { worker: name.clone(), attempt: assignment.attempt, lease: assignment.lease };
            let params: NodeParams = serde_json::from_str(assignment.spec.params.as_str()).unwrap();
            seen.lock().unwrap().push(params.query.clone());
            let (engine, queries, runs) = (engine.clone(), queries.clone(), runs.clone());
            tokio::spawn(async move {
                engine.accept(of.clone()).await.unwrap();
                let value =
                    run(&engine, &queries, &of, &params, runs.fetch_add(1, Ordering::SeqCst) + 1).await;
                let value =
                    serde_json::to_string(&StoredValue::new("text/plain", value.into_bytes())).unwrap();
                let report = Report::Succeeded(Json::value(&value).unwrap());
                let report = queries.complete(&of, report).await.unwrap();
                engine.report(of, report).await.unwrap();
            });
        }
    });
    ran
}

async fn run(
    engine: &Engine,
    queries: &Queries,
    of: &AttemptRef,
    params: &NodeParams,
    number: usize,
) -> String {
    let job = engine.show(of.attempt.job).await.unwrap().job;
    if let Some(input) = job.spec.after.first() {
        return text_of(&queries.ended(*input).await.unwrap().unwrap());
    }
    let [ArgumentParam::Text(asked)] = &params.steps[0].arguments[..] else { panic!("{params:?}") };
    let Some(asked) = asked.strip_prefix('.') else { return number.to_string() };
    let mut values = Vec::new();
    for text in asked.split(' ') {
        let asker = Asker { of: of.clone(), job: job.clone(), here: BTreeSet::new() };
        let answer = queries.ask_within(asker, query(text)).await.unwrap();
        values.push(match answer.asked {
            SubAsked::Ended(ended) => text_of(&ended),
            SubAsked::Source(source) => source.digest.to_string(),
            SubAsked::Inline(_) => panic!("it runs nothing itself"),
            SubAsked::Pending(found) => {
                while !engine.wait(of.clone(), Some(vec![found.job]), 60_000).await.unwrap().over {}
                let (identity, ended) = queries.promised_within(of, found.job).await.unwrap();
                assert_eq!(identity, answer.meaning);
                text_of(&ended.unwrap())
            }
        });
    }
    format!("[{}]", values.join(" "))
}

/// The text of a command that asks for these queries.
fn asks(command: &str, queries: &[&str]) -> String {
    let escaped: Vec<String> =
        queries.iter().map(|query| query.replace('~', "~~").replace('-', "~_").replace('/', "~I")).collect();
    format!("{command}-.{}", escaped.join("~."))
}

async fn put(hall: &Hall, text: &str, bytes: &[u8]) {
    let stored = hall.blobs.objects().put(&mut &bytes[..], ARTIFACT_BYTES, 0).unwrap();
    let digest = SourceDigest(*stored.digest.as_bytes());
    let (key, media_type) = (SourceKey::new(text).unwrap(), "text/csv".to_owned());
    let source = StoredSource { key, digest, size: stored.bytes, media_type, at: Time::EPOCH };
    hall.queries.put_source(source).await.unwrap();
}

async fn asked_of(hall: &Hall, text: &str) -> Option<AskedQueries> {
    let ended = hall.ended(text).await;
    let State::Succeeded(success) = &ended.job.status.state else { panic!("{ended:?}") };
    StoredValue::parse(success.value.as_str()).unwrap().asked().cloned()
}

#[tokio::test]
async fn what_was_asked_is_stored_with_the_value_and_with_what_is_made_from_it() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall).await;
    put(&hall, "k", b"one").await;
    // c asks for a source, a asks for c, and b comes after a.
    let inner = asks("c", &["-R/k/-"]);
    let outer = asks("a", &[&inner, "c-"]);
    let chain = format!("{outer}/b");
    let value = hall.value(&chain).await;
    assert!(value.starts_with("[[") && value.ends_with(']'), "{value}");
    assert_eq!(ran.lock().unwrap().len(), 4);
    let listed = |asked: Option<AskedQueries>| match asked {
        Some(AskedQueries::Queries(queries)) => queries.into_iter().map(|(text, _)| text).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(listed(asked_of(&hall, &inner).await), ["-R/k/-"]);
    assert_eq!(listed(asked_of(&hall, &outer).await), ["-R/k/-", "c-", &inner]);
    assert_eq!(listed(asked_of(&hall, &chain).await), ["-R/k/-", "c-", &inner]);
    assert_eq!(asked_of(&hall, "c").await, None);
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_value_is_compared_once_after_a_change_and_made_again_if_what_it_asked_for_differs() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall).await;
    let count = || ran.lock().unwrap().len();
    put(&hall, "k", b"one").await;
    let chain = format!("{}/b", asks("a", &["-R/k/-"]));
    let one = hall.value(&chain).await;
    assert_eq!((count(), hall.queries.compared()), (2, 0));
    // Nothing has changed since it was made: nothing is planned, also not from memory.
    assert_eq!(hall.value(&chain).await, one);
    assert_eq!(warm(&hall, &chain).as_deref(), Some(one.as_str()));
    assert_eq!((count(), hall.queries.compared()), (2, 0));
    // Something else has changed: it is planned once.
    put(&hall, "other", b"x").await;
    assert_eq!(warm(&hall, &chain), None, "it is not known to be right");
    assert_eq!(hall.value(&chain).await, one);
    assert_eq!(warm(&hall, &chain).as_deref(), Some(one.as_str()));
    assert_eq!(hall.value(&chain).await, one);
    assert_eq!((count(), hall.queries.compared()), (2, 1));
    // What it asked for has changed.
    put(&hall, "k", b"two").await;
    assert_eq!(warm(&hall, &chain), None);
    let two = hall.value(&chain).await;
    assert_ne!(two, one);
    assert_eq!(count(), 4, "both steps ran again");
    put(&hall, "k", b"one").await;
    assert_eq!(hall.value(&chain).await, one);
    // A source that is gone: nothing can be asked for any more.
    hall.queries.remove_source(&SourceKey::new("k").unwrap()).await.unwrap();
    assert_eq!(warm(&hall, &chain), None);
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_command_that_was_asked_for_counts_with_its_version() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall).await;
    let text = asks("a", &["c"]);
    let first = hall.value(&text).await;
    hall.queries.declare(vec![declared("c", "2", Default::default())]).await.unwrap();
    let second = hall.value(&text).await;
    assert_ne!(first, second);
    assert_eq!(*ran.lock().unwrap(), [text.as_str(), "c", &text, "c"]);
    hall.queries.declare(vec![declared("c", "1", Default::default())]).await.unwrap();
    assert_eq!(hall.value(&text).await, first, "the value of c in version 1 is still there");
    assert_eq!(ran.lock().unwrap().len(), 5);
    hall.engine.stop().await;
}

#[tokio::test]
async fn above_the_bound_every_change_makes_a_value_stale_and_no_change_does_not() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall).await;
    let same = asks("a", &["c"; 17]);
    hall.value(&same).await;
    assert_ne!(asked_of(&hall, &same).await, Some(AskedQueries::ANY), "the same query is listed once");
    for n in 0..17 {
        put(&hall, &format!("k{n}"), format!("{n}").as_bytes()).await;
    }
    let sources: Vec<String> = (0..17).map(|n| format!("-R/k{n}/-")).collect();
    let any = format!("{}/b", asks("a", &sources.iter().map(String::as_str).collect::<Vec<_>>()));
    hall.value(&any).await;
    assert_eq!(asked_of(&hall, &any).await, Some(AskedQueries::ANY));
    let before = ran.lock().unwrap().len();
    hall.value(&any).await;
    assert_eq!(ran.lock().unwrap().len(), before, "nothing has changed");
    put(&hall, "other", b"x").await;
    hall.value(&any).await;
    assert_eq!(ran.lock().unwrap().len(), before + 2, "something has");
    hall.value(&any).await;
    assert_eq!(ran.lock().unwrap().len(), before + 2);
    hall.engine.stop().await;
}

#[tokio::test]
async fn after_a_restart_a_listed_value_is_compared_and_not_made_again() {
    let hall = Hall::with_commands().await;
    worker(&hall).await;
    let text = asks("a", &["c"]);
    let value = hall.value(&text).await;
    let hall = hall.restart(CacheBounds::default()).await;
    hall.queries.upkeep(hours_later(0)).await.unwrap();
    assert_eq!(hall.value(&text).await, value);
    assert_eq!(hall.queries.compared(), 1);
    assert_eq!(hall.value(&text).await, value);
    assert_eq!(hall.queries.compared(), 1);
    hall.engine.stop().await;
}

#[tokio::test]
async fn what_an_attempt_asked_for_before_a_restart_is_stored_with_its_value() {
    let hall = Hall::with_commands().await;
    put(&hall, "k", b"one").await;
    let opening = |attempts| Opening {
        worker: WorkerName::new("w").unwrap(),
        abilities: Abilities::parse("commands=[a@1]").unwrap(),
        accepts: Accepts::parse("type = q.a").unwrap(),
        attempts,
        lease_ms: None,
        fresh: false,
    };
    let mut session = hall.engine.open(opening(Vec::new())).await.unwrap();
    session.credit(1).await.unwrap();
    let found = hall.promise("a").await;
    let (attempt, lease): (AttemptId, LeaseId) = loop {
        if let Some(SessionEvent::Assigned(one)) = session.next().await {
            break (one.attempt, one.lease);
        }
    };
    let of = AttemptRef { worker: WorkerName::new("w").unwrap(), attempt, lease };
    hall.engine.accept(of.clone()).await.unwrap();
    let job = hall.engine.show(found.job).await.unwrap().job;
    let asker = Asker { of: of.clone(), job, here: BTreeSet::new() };
    hall.queries.ask_within(asker, query("-R/k/-")).await.unwrap();
    let hall = hall.restart(CacheBounds::default()).await;
    let _session = hall.engine.open(opening(vec![(attempt, lease)])).await.unwrap();
    let value = StoredValue::new("text/plain", b"1".to_vec()).asking(AskedQueries::ANY);
    let value = Json::value(&serde_json::to_string(&value).unwrap()).unwrap();
    let report = hall.queries.complete(&of, Report::Succeeded(value)).await.unwrap();
    hall.engine.report(of, report).await.unwrap();
    hall.queries.wait(found.job).await.unwrap();
    let AskedQueries::Queries(asked) = asked_of(&hall, "a").await.unwrap() else {
        panic!("the worker's word does not count")
    };
    assert_eq!(asked.into_iter().map(|(text, _)| text).collect::<Vec<_>>(), ["-R/k/-"]);
    hall.engine.stop().await;
}
