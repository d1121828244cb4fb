//! What is in memory of stored values, and what happens to it when they are removed.

use jobhall_core::query::NodeParams;
use jobhall_core::{Failure, JobId, Time};
use jobhall_queries::{Asked, CacheBounds, Which};
use tokio::sync::oneshot;

use crate::rig::{Hall, declared, query, worker};

const ALL: [&str; 4] = ["a@1", "b@1", "c@1", "v@1"];

pub fn echo(params: &NodeParams) -> Result<String, Failure> {
    Ok(params.query.clone())
}

/// The present plus so many hours.
pub fn hours_later(hours: u64) -> Time {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = Time::from_ms(i64::try_from(since_1970.as_millis()).unwrap()).unwrap();
    now.plus_ms(hours * 3_600_000)
}

pub fn warm(hall: &Hall, text: &str) -> Option<String> {
    let warm = hall.queries.warm(&query(text))?;
    Some(String::from_utf8(warm.bytes.to_vec()).unwrap())
}

/// The last job of a query that is stored.
pub async fn job_of(hall: &Hall, text: &str) -> JobId {
    let Asked::Hit(ended) = hall.ask_with(text, false).await.unwrap() else { panic!("{text} is not stored") };
    ended.job.id
}

#[tokio::test]
async fn a_value_in_memory_is_answered_without_engine_and_store() {
    let hall = Hall::with_commands().await;
    worker(&hall, &ALL, echo).await;
    assert_eq!(warm(&hall, "a-1/b"), None);
    assert!(!hall.queries.contains("a-1/b"));
    hall.value("a-1/b").await;
    let known = hall.queries.warm(&query("a-1/b")).unwrap();
    assert_eq!(known.tag, format!("\"{}\"", blake3::hash(b"2 a-1/b").to_hex()));
    assert_eq!(known.media_type, "text/plain");
    // `warm` and `contains` are no futures, so they cannot read the store; the engine does not run any more.
    hall.engine.stop().await;
    for same in ["a-1/b", "a-1/b-", "/a-%31/b/file.txt"] {
        assert_eq!(warm(&hall, same).as_deref(), Some("2 a-1/b"), "{same}");
        assert!(hall.queries.contains(same));
    }
    for other in ["a-1/c", "v", "a-1/b/v", "a-1-2", "no such/", "missing", ""] {
        assert_eq!(
            hall.queries.warm(&jobhall_core::query::Query::parse(other, 99).unwrap_or_default()),
            None
        );
        assert!(!hall.queries.contains(other), "{other}");
    }
}

#[tokio::test]
async fn another_version_of_a_command_is_not_answered_from_memory() {
    let hall = Hall::with_commands().await;
    worker(&hall, &ALL, echo).await;
    hall.value("a/b").await;
    assert!(warm(&hall, "a/b").is_some());
    hall.queries.pin(&query("a/b")).await.unwrap();
    hall.queries.declare(vec![declared("a", "2", Default::default())]).await.unwrap();
    assert_eq!(warm(&hall, "a/b"), None);
    assert_eq!(hall.queries.unpin_query(&query("a/b")).await.unwrap(), 1, "a pin is found by its text");
    assert!(!hall.queries.contains("a/b"));
    hall.queries.declare(vec![declared("a", "1", Default::default())]).await.unwrap();
    assert!(warm(&hall, "a/b").is_some());
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_removed_value_is_gone_from_memory_when_its_removal_is_answered() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall, &ALL, echo).await;
    for text in ["a-1", "a-2", "a-3"] {
        hall.value(text).await;
    }
    // As a bulk delete does, which knows nothing of queries.
    assert_eq!(hall.engine.remove(vec![job_of(&hall, "a-1").await]).await.unwrap(), 1);
    assert_eq!((warm(&hall, "a-1"), hall.queries.contains("a-1")), (None, false));
    // On request.
    let dropped = hall.queries.drop_value(&query("a-2"), false).await.unwrap();
    assert_eq!((dropped.removed.values, dropped.removed.bytes, dropped.kept), (1, 5, 0));
    assert_eq!(warm(&hall, "a-2"), None);
    assert_eq!(warm(&hall, "a-3").as_deref(), Some("3 a-3"));
    let stats = hall.queries.cache_stats().await.unwrap();
    assert_eq!((stats.values, stats.bytes), (1, 5));
    assert_eq!(hall.value("a-2").await, "4 a-2", "it is computed again");
    assert_eq!(ran.count(), 4);
    assert_eq!(hall.queries.cache_stats().await.unwrap().misses.dropped, 1);
    hall.engine.stop().await;
}

#[tokio::test]
async fn what_a_command_has_made_is_dropped_with_what_was_made_from_it() {
    let hall = Hall::with_commands().await;
    worker(&hall, &ALL, echo).await;
    for text in ["a/b", "a-2/c", "c/b/a", "b"] {
        hall.value(text).await;
    }
    hall.queries.pin(&query("a-2/c")).await.unwrap();
    // Also those that nobody has waited for.
    hall.queries.upkeep(hours_later(0)).await.unwrap();
    let of_a = Which::Command(jobhall_core::query::CommandName::new("a").unwrap());
    let counted = hall.queries.drop_values(&of_a, true, None).await.unwrap();
    // a, a/b, a-2 and c/b/a; a-2/c is pinned.
    assert_eq!((counted.removed.values, counted.kept, counted.next), (4, 1, None));
    assert!(warm(&hall, "a/b").is_some(), "it was only counted");
    let dropped = hall.queries.drop_values(&of_a, false, None).await.unwrap();
    assert_eq!((dropped.removed, dropped.kept), (counted.removed, 1));
    let there: Vec<bool> =
        ["a", "a/b", "a-2", "a-2/c", "c/b", "c/b/a", "b"].map(|text| hall.queries.contains(text)).into();
    assert_eq!(there, [false, false, false, true, true, false, true]);
    let rest = hall.queries.drop_values(&Which::All, false, None).await.unwrap();
    assert_eq!((rest.removed.values, rest.kept), (3, 1));
    let named = hall.queries.drop_value(&query("a-2/c"), false).await.unwrap();
    assert_eq!(named.removed.values, 1, "a pinned value is removed if it is named");
    assert_eq!(hall.queries.pinned().await.unwrap(), 1, "and its pin stays");
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_restart_fills_the_index_with_the_same_counts() {
    let hall = Hall::with_commands().await;
    worker(&hall, &ALL, echo).await;
    for text in ["a/b/c", "a-1", "v"] {
        hall.value(text).await;
    }
    hall.queries.upkeep(hours_later(0)).await.unwrap();
    let before = hall.queries.cache_stats().await.unwrap();
    assert_eq!(before.values, 4, "that of v answers nobody");
    let hall = hall.restart(CacheBounds::default()).await;
    assert!(!hall.queries.contains("a/b"));
    let done = hall.queries.upkeep(hours_later(0)).await.unwrap();
    assert_eq!((done.jobs, done.removed), (5, 0));
    let after = hall.queries.cache_stats().await.unwrap();
    assert_eq!((after.values, after.bytes), (before.values, before.bytes));
    assert!(["a", "a/b", "a/b/c", "a-1"].iter().all(|text| hall.queries.contains(text)));
    // The bytes come with the first request, from the store.
    assert_eq!(warm(&hall, "a/b"), None);
    assert_eq!(hall.value("a/b").await, "2 a/b");
    assert_eq!(warm(&hall, "a/b").as_deref(), Some("2 a/b"));
    hall.engine.stop().await;
}

#[tokio::test]
async fn values_that_nobody_waits_for_are_entered_when_they_are_made() {
    let hall = Hall::with_commands().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let queries = hall.queries.clone();
    let keeping = tokio::spawn(async move {
        queries
            .keep_cache(async {
                let _ = stopped.await;
            })
            .await;
    });
    worker(&hall, &ALL, echo).await;
    let found = hall.promise("a/b/c").await;
    hall.queries.wait(found.job).await.unwrap();
    until(|| ["a", "a/b", "a/b/c"].iter().all(|text| hall.queries.contains(text))).await;
    let stats = hall.queries.cache_stats().await.unwrap();
    assert_eq!((stats.values, stats.bytes), (3, 3 + 5 + 7));
    stop.send(()).unwrap();
    keeping.await.unwrap();
    hall.engine.stop().await;
}

pub async fn until(holds: impl Fn() -> bool) {
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !holds() {
        assert!(std::time::Instant::now() < limit, "it did not come true");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn hits_and_misses_are_counted_by_command_with_their_reasons() {
    let hall = Hall::with_commands().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let queries = hall.queries.clone();
    tokio::spawn(async move {
        queries
            .keep_cache(async {
                let _ = stopped.await;
            })
            .await;
    });
    let fails = |params: &NodeParams| match params.query.as_str() {
        "b-0" => Err(Failure::new("exit", "no")),
        _ => echo(params),
    };
    worker(&hall, &["a@1", "a@2", "b@1", "c@1"], fails).await;
    hall.value("a/b").await;
    hall.ended("b-0").await;
    hall.value("a/b").await;
    assert!(warm(&hall, "a/b").is_some());
    hall.value("a/c").await;
    let of = async |name: &str| {
        let stats = hall.queries.cache_stats().await.unwrap();
        stats.commands.iter().find(|(known, _)| known.as_str() == name).map(|(_, counts)| *counts).unwrap()
    };
    let ended = async |name: &str, jobs: u64| {
        let mut counts = of(name).await;
        while counts.computed + counts.failed < jobs {
            tokio::task::yield_now().await;
            counts = of(name).await;
        }
        (counts.hits, counts.joined, counts.computed, counts.failed)
    };
    assert_eq!(ended("a", 1).await, (1, 0, 1, 0), "it was the input of c");
    assert_eq!(ended("b", 2).await, (2, 0, 1, 1));
    assert_eq!(ended("c", 1).await, (0, 0, 1, 0));
    let misses = hall.queries.cache_stats().await.unwrap().misses;
    assert_eq!((misses.new, misses.version, misses.dropped, misses.evicted), (4, 0, 0, 0));
    hall.queries.declare(vec![declared("a", "2", Default::default())]).await.unwrap();
    hall.value("a/b").await;
    assert_eq!(hall.queries.cache_stats().await.unwrap().misses.version, 2, "of a, and of what follows");
    stop.send(()).unwrap();
    hall.engine.stop().await;
}
