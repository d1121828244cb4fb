//! The bounds of the cache, and the hourly upkeep.

use jobhall_core::Failure;
use jobhall_core::query::NodeParams;
use jobhall_queries::CacheBounds;

use crate::cached::{echo, hours_later, job_of, warm};
use crate::rig::{Hall, query, worker};

const ALL: [&str; 4] = ["a@1", "b@1", "c@1", "v@1"];

fn bounds(values: u64) -> CacheBounds {
    CacheBounds { values, ..CacheBounds::default() }
}

#[tokio::test]
async fn the_values_used_longest_ago_are_evicted_and_pinned_ones_are_not() {
    let hall = Hall::with_cache(bounds(3)).await;
    let ran = worker(&hall, &ALL, echo).await;
    hall.queries.pin(&query("a-1")).await.unwrap();
    for text in ["a-1", "a-2", "a-3", "a-4", "a-5"] {
        hall.value(text).await;
    }
    assert!(warm(&hall, "a-2").is_some());
    assert_eq!(hall.queries.evict(hours_later(0)).await.unwrap().values, 0, "they were made just now");
    let evicted = hall.queries.evict(hours_later(1)).await.unwrap();
    assert_eq!((evicted.values, evicted.bytes), (2, 10));
    let there = ["a-1", "a-2", "a-3", "a-4", "a-5"].map(|text| hall.queries.contains(text));
    assert_eq!(there, [true, true, false, false, true]);
    let stats = hall.queries.cache_stats().await.unwrap();
    assert_eq!((stats.values, stats.bytes, stats.evictions, stats.pinned), (3, 15, 2, 1));
    // What is gone is computed again, and known to have been evicted.
    assert_eq!(hall.value("a-3").await, "6 a-3");
    assert_eq!(hall.value("a-2").await, "2 a-2");
    assert_eq!((ran.count(), hall.queries.cache_stats().await.unwrap().misses.evicted), (6, 1));
    // A pin that is removed protects no more.
    assert_eq!(hall.queries.unpin_query(&query("a-1")).await.unwrap(), 1);
    assert_eq!(hall.queries.unpin_query(&query("a-1")).await.unwrap(), 0);
    hall.queries.evict(hours_later(1)).await.unwrap();
    assert!(!hall.queries.contains("a-1"));
    hall.engine.stop().await;
}

#[tokio::test]
async fn the_bytes_of_all_values_are_bounded() {
    let hall = Hall::with_cache(CacheBounds { bytes: 12, ..CacheBounds::default() }).await;
    worker(&hall, &ALL, echo).await;
    for text in ["a-1", "a-2", "a-3", "a-4"] {
        hall.value(text).await;
    }
    assert_eq!(hall.queries.evict(hours_later(1)).await.unwrap().bytes, 10);
    let there = ["a-1", "a-2", "a-3", "a-4"].map(|text| hall.queries.contains(text));
    assert_eq!(there, [false, false, true, true]);
    hall.engine.stop().await;
}

#[tokio::test]
async fn after_a_restart_the_oldest_values_are_evicted_first() {
    let hall = Hall::with_commands().await;
    worker(&hall, &ALL, echo).await;
    hall.queries.pin(&query("a-1")).await.unwrap();
    for text in ["a-1", "a-2", "a-3", "a-4"] {
        hall.value(text).await;
        let ended = hours_later(0);
        crate::cached::until(|| hours_later(0) > ended).await;
    }
    let hall = hall.restart(bounds(2)).await;
    hall.queries.upkeep(hours_later(2)).await.unwrap();
    let there = ["a-1", "a-2", "a-3", "a-4"].map(|text| hall.queries.contains(text));
    assert_eq!(there, [true, false, false, true]);
    hall.engine.stop().await;
}

#[tokio::test]
async fn q18_an_input_of_an_open_step_is_never_removed() {
    let hall = Hall::with_cache(bounds(1)).await;
    let ran = worker(&hall, &["a@1"], echo).await;
    hall.value("a-1").await;
    // Nobody has b, so the step stays open.
    let open = hall.promise("a-1/b").await;
    hall.value("a-2").await;
    let input = job_of(&hall, "a-1").await;
    let stays = async |hall: &Hall| {
        hall.queries.evict(hours_later(1)).await.unwrap();
        hall.queries.upkeep(hours_later(24 * 365)).await.unwrap();
        assert_eq!(hall.engine.remove(vec![input]).await.unwrap(), 0);
        let dropped = hall.queries.drop_value(&query("a-1"), false).await.unwrap();
        assert_eq!((dropped.removed.values, dropped.kept), (0, 1));
        assert!(hall.queries.contains("a-1") && !hall.queries.contains("a-2"));
    };
    stays(&hall).await;
    let hall = hall.restart(bounds(1)).await;
    hall.queries.upkeep(hours_later(1)).await.unwrap();
    stays(&hall).await;
    assert_eq!(ran.count(), 2);
    worker(&hall, &["b@1"], echo).await;
    let ended = hall.queries.wait(open.job).await.unwrap();
    assert_eq!(crate::rig::text_of(&ended), "1 a-1/b");
    // Its dependent has ended: now it may go.
    hall.queries.evict(hours_later(1)).await.unwrap();
    assert!(!hall.queries.contains("a-1") && hall.queries.contains("a-1/b"));
    hall.engine.stop().await;
}

#[tokio::test]
async fn of_several_values_of_a_key_the_newest_stays() {
    let hall = Hall::with_commands().await;
    let damaged = hall.promise("a").await.job;
    crate::asking::damage(&hall, "commands=a@1").await;
    worker(&hall, &ALL, echo).await;
    assert_eq!(hall.value("a").await, "1 a");
    assert_eq!(hall.queries.cache_stats().await.unwrap().misses.damaged, 1);
    let newest = job_of(&hall, "a").await;
    let there = async || {
        let jobs = hall.store.jobs(vec![damaged, newest]).await.unwrap();
        jobs.iter().map(Option::is_some).collect::<Vec<bool>>()
    };
    hall.queries.upkeep(hours_later(0)).await.unwrap();
    assert_eq!(there().await, [true, true], "its promise may still be asked for");
    hall.queries.upkeep(hours_later(2)).await.unwrap();
    assert_eq!(there().await, [false, true]);
    assert_eq!(hall.value("a").await, "1 a");
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_damaged_value_is_found_by_verify_and_made_again() {
    let hall = Hall::with_commands().await;
    let damaged = hall.promise("a").await.job;
    crate::asking::damage(&hall, "commands=a@1").await;
    let ran = worker(&hall, &ALL, echo).await;
    hall.value("b").await;
    let verified = hall.queries.verify(None).await.unwrap();
    assert_eq!((verified.checked, verified.next), (2, None));
    assert_eq!(verified.damaged, [(damaged, "the value cannot be read".to_owned())]);
    assert_eq!((hall.value("a").await.as_str(), ran.count()), ("2 a", 2));
    hall.engine.stop().await;
}

#[tokio::test]
async fn what_answers_nobody_is_removed_after_its_time() {
    let hall = Hall::with_commands().await;
    let fails = |params: &NodeParams| match params.query.as_str() {
        "b" => Err(Failure::new("exit", "no")),
        _ => echo(params),
    };
    worker(&hall, &ALL, fails).await;
    let failed = hall.ended("b").await.job.id;
    let volatile = hall.ended("v").await.job.id;
    let kept = hall.ended("a").await.job.id;
    let there = async || {
        let jobs = hall.store.jobs(vec![failed, volatile, kept]).await.unwrap();
        jobs.iter().map(Option::is_some).collect::<Vec<bool>>()
    };
    hall.queries.upkeep(hours_later(0)).await.unwrap();
    assert_eq!(there().await, [true, true, true]);
    let done = hall.queries.upkeep(hours_later(2)).await.unwrap();
    assert_eq!((done.jobs, done.removed), (3, 1));
    assert_eq!(there().await, [true, false, true]);
    hall.queries.upkeep(hours_later(25)).await.unwrap();
    assert_eq!(there().await, [false, false, true]);
    hall.queries.upkeep(hours_later(10 * 365 * 24)).await.unwrap();
    assert_eq!(there().await, [false, false, true], "the newest value of a key is never too old");
    hall.engine.stop().await;
}
