//! Stored data that queries begin with.

use std::time::Duration;

use jobhall_blobs::{ARTIFACT_BYTES, Digest};
use jobhall_core::Time;
use jobhall_core::query::{NodeParams, SourceDigest, SourceKey};
use jobhall_queries::{Asked, BY_DIGEST, Error, PutSource, Queries, StoredSource};

use crate::rig::{Hall, worker};

const ALL: [&str; 3] = ["a@1", "b@1", "c@1"];
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

fn key(text: &str) -> SourceKey {
    SourceKey::new(text).unwrap()
}

fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time::from_ms(i64::try_from(since.as_millis()).unwrap()).unwrap()
}

/// What a step receives: the digests of its sources.
fn received(params: &NodeParams) -> String {
    params.sources.iter().map(|source| source.digest.to_string()).collect()
}

async fn put_at(hall: &Hall, text: &str, bytes: &[u8], at: Time) -> Result<PutSource, Error> {
    let now_ms = u64::try_from(at.as_ms()).unwrap();
    let stored = hall.blobs.objects().put(&mut &bytes[..], ARTIFACT_BYTES, now_ms).unwrap();
    let digest = SourceDigest(*stored.digest.as_bytes());
    let media_type = "text/csv".to_owned();
    let source = StoredSource { key: key(text), digest, size: stored.bytes, media_type, at };
    hall.queries.put_source(source).await
}

async fn put(hall: &Hall, text: &str, bytes: &[u8]) -> PutSource {
    put_at(hall, text, bytes, now()).await.unwrap()
}

#[tokio::test]
async fn other_bytes_are_another_value_and_a_revert_runs_nothing() {
    let hall = Hall::with_commands().await;
    let ran = worker(&hall, &ALL, |params| Ok(received(params))).await;
    let first = put(&hall, "data/sales.csv", b"one").await;
    assert!(first.is_new && first.is_changed);
    let text = "-R/data/sales.csv/-/a/b";
    let one = hall.value(text).await;
    assert_eq!(ran.queries(), ["-R/data/sales.csv/-/a", text]);
    assert_eq!(hall.value(text).await, one, "nothing ran");
    let second = put(&hall, "data/sales.csv", b"two").await;
    assert!(!second.is_new && second.is_changed);
    assert_ne!(hall.value(text).await, one);
    assert_eq!(ran.count(), 4, "both steps ran for the other bytes");
    let again = put(&hall, "data/sales.csv", b"one").await;
    assert!(again.is_changed);
    assert_eq!((hall.value(text).await, ran.count()), (one.clone(), 4), "a revert runs nothing");
    // The same bytes under another key are the same value.
    put(&hall, "copy", b"one").await;
    assert_eq!((hall.value("-R/copy/-/a/b").await, ran.count()), (one, 4));
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_step_is_given_the_digest_of_its_source_beside_the_values_that_it_receives() {
    let hall = Hall::with_commands().await;
    put(&hall, "k", b"data").await;
    let found = hall.promise("-R/k/-/a/b").await;
    let job = hall.engine.show(found.job).await.unwrap().job;
    let last: NodeParams = serde_json::from_str(job.spec.params.as_str()).unwrap();
    assert_eq!((last.sources.len(), last.inputs.len(), job.spec.after.len()), (0, 1, 1));
    let first = hall.engine.show(job.spec.after[0]).await.unwrap().job;
    let first: NodeParams = serde_json::from_str(first.spec.params.as_str()).unwrap();
    assert_eq!((first.sources[0].key.as_str(), first.inputs.len()), ("k", 0));
    assert_eq!(first.sources[0].digest.to_string(), Digest::of(b"data").hex());
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_query_without_a_command_is_the_data_itself() {
    let hall = Hall::with_commands().await;
    put(&hall, "k", b"").await;
    let Asked::Source(source) = hall.ask_with("-R/k/-", false).await.unwrap() else { panic!("no source") };
    assert_eq!((source.key.as_str(), source.size, source.media_type.as_str()), ("k", 0, "text/csv"));
    hall.engine.stop().await;
}

#[tokio::test]
async fn sources_are_found_after_a_restart_and_by_two_handles() {
    let hall = Hall::with_commands().await;
    put(&hall, "k", b"one").await;
    let later = Queries::new(hall.engine.clone(), hall.store.clone(), hall.blobs.clone());
    let found = later.source(&key("k")).await.unwrap().unwrap();
    assert_eq!((found.digest.to_string(), found.size), (Digest::of(b"one").hex(), 3));
    // The first handle does not know of this change, and overwrites nothing unseen.
    assert!(later.remove_source(&key("k")).await.unwrap().is_some());
    put(&hall, "k", b"two").await;
    assert_eq!(hall.queries.source(&key("k")).await.unwrap().unwrap().size, 3);
    assert!(hall.queries.remove_source(&key("k")).await.unwrap().is_some());
    assert_eq!(hall.queries.remove_source(&key("k")).await.unwrap(), None);
    assert_eq!(hall.queries.source(&key("k")).await.unwrap(), None);
    hall.engine.stop().await;
}

#[tokio::test]
async fn an_unknown_source_is_refused_with_what_was_probably_meant() {
    let hall = Hall::with_commands().await;
    put(&hall, "sales.csv", b"x").await;
    let Err(Error::Query(error)) = hall.ask_with("-R/salse.csv/-/a", true).await else { panic!("found") };
    assert_eq!(error.kind.code(), "unknown_source");
    let said = error.kind.to_string();
    assert_eq!(said, "there is no source \"salse.csv\"; did you mean \"sales.csv\"?");
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_key_that_is_a_digest_names_its_data_alone() {
    let hall = Hall::with_commands().await;
    let own = format!("{BY_DIGEST}{}", Digest::of(b"mine").hex());
    put(&hall, &own, b"mine").await;
    for other in [own.as_str(), "blake3/x", "blake3/x/y"] {
        let refused = put_at(&hall, other, b"other", now()).await;
        assert!(
            matches!(&refused, Err(Error::Refused(why)) if why.contains("is the digest of its data")),
            "{refused:?}"
        );
    }
    assert_eq!(hall.queries.source(&key(&own)).await.unwrap().unwrap().size, 4);
    hall.engine.stop().await;
}

#[tokio::test]
async fn what_is_named_by_its_digest_goes_when_nobody_used_it_for_a_week() {
    let hall = Hall::with_commands().await;
    let named = |bytes: &[u8]| format!("{BY_DIGEST}{}", Digest::of(bytes).hex());
    let (today, old) = (now(), now().minus_ms(9 * DAY_MS));
    for (bytes, at) in [(&b"used"[..], old), (b"unused", old), (b"new", today)] {
        put_at(&hall, &named(bytes), bytes, at).await.unwrap();
    }
    put_at(&hall, "kept", b"kept", old).await.unwrap();
    hall.promise(&format!("-R/{}/-/a", named(b"used"))).await;
    let used = hall.queries.source(&key(&named(b"used"))).await.unwrap().unwrap();
    assert!(now().since(used.at) < DAY_MS, "its use is stored");
    assert_eq!(hall.queries.remove_unused_sources(now()).await.unwrap(), 1);
    assert_eq!(hall.queries.remove_unused_sources(now()).await.unwrap(), 0);
    let left = hall.queries.sources("", None, 10).await.unwrap();
    let left: Vec<&str> = left.iter().map(|source| source.key.as_str()).collect();
    let mut expected = [named(b"new"), named(b"used")];
    expected.sort();
    assert_eq!(left, [expected[0].as_str(), expected[1].as_str(), "kept"]);
    // A week after its last use, to a day, the other goes too.
    assert_eq!(hall.queries.remove_unused_sources(now().plus_ms(7 * DAY_MS)).await.unwrap(), 0);
    assert_eq!(hall.queries.remove_unused_sources(now().plus_ms(9 * DAY_MS)).await.unwrap(), 2);
    hall.engine.stop().await;
}

#[tokio::test]
async fn an_object_is_referenced_while_a_source_names_it_and_new_when_it_is_replaced() {
    let hall = Hall::with_commands().await;
    let old = now().minus_ms(2 * DAY_MS);
    put_at(&hall, "k", b"one", old).await.unwrap();
    let digest = |bytes: &[u8]| SourceDigest(*Digest::of(bytes).as_bytes());
    assert!(hall.queries.names_object(digest(b"one")).await);
    put_at(&hall, "k", b"two", old).await.unwrap();
    assert!(!hall.queries.names_object(digest(b"one")).await);
    let collect = |at: Time| {
        let verdicts = jobhall_blobs::Verdicts {
            referenced: &|object| *object == Digest::of(b"two"),
            pinned: &|_| false,
            gone: &|_| false,
        };
        let now_ms = u64::try_from(at.as_ms()).unwrap();
        hall.blobs.collect(verdicts, now_ms, jobhall_blobs::MIN_AGE_MS).unwrap().objects
    };
    assert_eq!(collect(now()), 0, "a step that is open may still read what was replaced");
    assert_eq!(collect(now().plus_ms(DAY_MS)), 1, "later it goes");
    assert!(hall.blobs.objects().exists(&Digest::of(b"two")).unwrap());
    hall.engine.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_puts_at_once_leave_the_last_one_of_each_key() {
    let hall = std::sync::Arc::new(Hall::with_commands().await);
    let puts: Vec<_> = (0..200_u32)
        .map(|n| {
            let hall = hall.clone();
            tokio::spawn(async move { put(&hall, &format!("k{}", n % 10), &n.to_le_bytes()).await })
        })
        .collect();
    for put in puts {
        tokio::time::timeout(Duration::from_secs(30), put).await.unwrap().unwrap();
    }
    let later = Queries::new(hall.engine.clone(), hall.store.clone(), hall.blobs.clone());
    let stored = later.sources("", None, 100).await.unwrap();
    let digests =
        |all: &[StoredSource]| all.iter().map(|one| (one.key.clone(), one.digest)).collect::<Vec<_>>();
    assert_eq!(stored.len(), 10);
    assert_eq!(digests(&stored), digests(&hall.queries.sources("", None, 100).await.unwrap()));
    hall.engine.stop().await;
}
