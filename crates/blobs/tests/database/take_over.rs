//! Two nodes on one database: the leader, and the previous leader that does not know it was replaced.

use std::sync::Barrier;
use std::thread;

use jobhall_blobs::{
    AppendError, Artifact, ArtifactName, BlobError, Blobs, Digest, KeepError, MIN_AGE_MS, MediaType,
    PutError, Verdicts,
};

use crate::fixture::{ATTEMPT, FileStore, HOUR_MS, INDEX, LOG, NO_LIMIT, NOW_MS, chunk, real_now_ms, said};
use crate::tables::Tables;
use crate::{Hall, hall};

const NOTHING_WANTED: Verdicts<'_> = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| true };

fn append(blobs: &Blobs, offset: u64, bytes: &[u8]) -> Result<u64, AppendError> {
    blobs.logs().append(ATTEMPT, &chunk(offset, bytes), NO_LIMIT, true).map(|appended| appended.len)
}

fn keep(blobs: &Blobs, name: &str, content: &[u8]) -> Result<(), KeepError> {
    let (name, digest) = (ArtifactName::new(name).unwrap(), Digest::of(content));
    let (size, media_type) = (content.len() as u64, MediaType::unknown());
    blobs.keep(ATTEMPT, &Artifact { name, digest, size, media_type, at_ms: NOW_MS })
}

fn names(blobs: &Blobs) -> Vec<String> {
    let kept = blobs.artifacts().list(ATTEMPT, None, 100).unwrap();
    kept.into_iter().map(|artifact| artifact.name.to_string()).collect()
}

/// Leadership for these tests: a row with an epoch that is not part of its key.
fn with_leadership() -> (Tables, Blobs) {
    let tables = Tables::new();
    tables.query("CREATE SCHEMA jobhall", &[]);
    tables.query("CREATE TABLE jobhall.leadership (one boolean PRIMARY KEY, epoch bigint NOT NULL)", &[]);
    tables.query("INSERT INTO jobhall.leadership VALUES (true, 7)", &[]);
    let blobs = tables.opened_at(Some(7));
    (tables, blobs)
}

/// The next leader. Taking the leadership waits for the transactions that lock it.
fn taken_over(tables: &Tables) -> Blobs {
    tables.query(
        "WITH held AS (SELECT one FROM jobhall.leadership FOR UPDATE)
         UPDATE jobhall.leadership SET epoch = 8 FROM held WHERE leadership.one = held.one",
        &[],
    );
    tables.opened_at(Some(8))
}

fn is_overtaken(error: &BlobError) -> bool {
    matches!(error, BlobError::Overtaken { .. })
}

#[test]
fn the_next_holder_reads_and_goes_on_with_all_that_was_told() {
    let Hall { blobs: old, place } = hall();
    append(&old, 0, b"one.").unwrap();
    let digest = old.objects().put(&mut &b"content"[..], NO_LIMIT, NOW_MS).unwrap().digest;
    keep(&old, "a", b"content").unwrap();
    let new = place.open();
    assert_eq!(said(&new), b"one.");
    assert_eq!(append(&new, 4, b"two.").unwrap(), 8);
    assert_eq!(new.objects().read_all(&digest, NO_LIMIT).unwrap(), b"content");
    keep(&new, "b", b"content").unwrap();
    assert_eq!(names(&new), ["a", "b"]);
    assert!(new.logs().finish(ATTEMPT, NOW_MS).unwrap().finished);
}

/// Without leadership, only lengths are checked: the cached state of the old node is outdated, so it reads again.
#[test]
fn an_old_holder_that_wakes_finds_its_offset_taken() {
    let Hall { blobs: old, place } = hall();
    append(&old, 0, b"one.").unwrap();
    let new = place.open();
    append(&new, 4, b"two.").unwrap();
    assert!(matches!(append(&old, 4, b"TWO."), Err(AppendError::Conflict { offset: 4, .. })));
    assert_eq!(append(&old, 4, b"two.").unwrap(), 8, "the same bytes are a repetition");
    new.logs().finish(ATTEMPT, NOW_MS).unwrap();
    assert!(matches!(append(&old, 8, b"three"), Err(AppendError::Finished { len: 8, .. })));
    assert!(old.logs().finish(ATTEMPT, NOW_MS).unwrap().finished);
    assert_eq!(place.read(LOG).unwrap(), b"one.two.");
    assert_eq!(place.read(INDEX).unwrap().len(), 3 * 28, "two chunks, one mark");
}

#[test]
fn an_old_holder_does_not_take_a_log_for_empty_that_another_began() {
    let Hall { blobs: old, place } = hall();
    assert_eq!(said(&old), b"", "it has looked before anything was there");
    assert!(names(&old).is_empty());
    let new = place.open();
    append(&new, 0, b"one.").unwrap();
    new.objects().put(&mut &b"content"[..], NO_LIMIT, NOW_MS).unwrap();
    keep(&new, "a", b"content").unwrap();
    assert!(matches!(append(&old, 0, b"ONE."), Err(AppendError::Conflict { offset: 0, .. })));
    keep(&old, "b", b"content").unwrap();
    assert_eq!(names(&place.open()), ["a", "b"], "nothing was written over");
    assert_eq!(said(&place.open()), b"one.");
}

#[test]
fn a_node_that_lost_the_leadership_writes_nothing() {
    let (tables, old) = with_leadership();
    append(&old, 0, b"one.").unwrap();
    old.objects().put(&mut &b"content"[..], NO_LIMIT, NOW_MS).unwrap();
    let new = taken_over(&tables);
    let later = real_now_ms() + 2 * HOUR_MS;

    let error = append(&old, 4, b"two.").unwrap_err();
    assert!(matches!(&error, AppendError::Blob(error) if is_overtaken(error)), "{error}");
    assert!(is_overtaken(&old.logs().finish(ATTEMPT, NOW_MS).unwrap_err()));
    for content in [vec![1; 10], vec![1; 1 << 20]] {
        let error = old.objects().put(&mut content.as_slice(), NO_LIMIT, NOW_MS).unwrap_err();
        assert!(matches!(&error, PutError::Blob(error) if is_overtaken(error)), "{error}");
        assert!(!new.objects().exists(&Digest::of(&content)).unwrap());
    }
    let error = keep(&old, "a", b"content").unwrap_err();
    assert!(matches!(&error, KeepError::Blob(error) if is_overtaken(error)), "{error}");
    assert!(is_overtaken(&old.collect(NOTHING_WANTED, later, HOUR_MS).unwrap_err()));
    assert_eq!(tables.count("tmp"), 0);

    assert_eq!(append(&new, 4, b"two.").unwrap(), 8);
    assert_eq!(said(&new), b"one.two.");
    assert_eq!(new.collect(NOTHING_WANTED, later, HOUR_MS).unwrap().objects, 1);
}

/// The take-over waits for a write in progress, and a write that waited for the take-over is refused.
#[test]
fn writes_and_a_take_over_exclude_each_other() {
    for round in 0..20 {
        let (tables, old) = with_leadership();
        let barrier = Barrier::new(2);
        let (written, seen) = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                barrier.wait();
                append(&old, 0, b"one.").is_ok()
            });
            barrier.wait();
            let seen = said(&taken_over(&tables));
            (writer.join().unwrap(), seen)
        });
        assert_eq!(
            seen == b"one.",
            written,
            "round {round}: what the next leader reads first does not change"
        );
    }
}

#[test]
fn two_nodes_that_put_the_same_content_store_it_once() {
    let hall = hall();
    let nodes = [hall.place.open(), hall.place.open()];
    for len in [0, 100, 1 << 20] {
        let content = vec![7; len];
        let barrier = Barrier::new(8);
        let stored = thread::scope(|scope| {
            let put = |blobs: &Blobs| {
                barrier.wait();
                blobs.objects().put(&mut content.as_slice(), NO_LIMIT, NOW_MS).unwrap()
            };
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    scope.spawn({
                        let nodes = &nodes;
                        move || put(&nodes[n % 2])
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(stored.iter().all(|other| other.digest == stored[0].digest));
        assert!(hall.blobs.objects().read_all(&stored[0].digest, NO_LIMIT).unwrap() == content);
    }
    assert_eq!((hall.place.count("objects"), hall.place.count("tmp")), (3, 0));
}

/// The collector of one node and puts of another: stored objects exist and were touched.
#[test]
fn a_put_of_one_node_is_safe_from_the_collector_of_another() {
    let hall = hall();
    let collector = hall.place.open();
    let later = NOW_MS + MIN_AGE_MS;
    thread::scope(|scope| {
        let racer = scope.spawn(|| {
            for round in 0..200 {
                // First old, so that the collector may remove it at any time; then touched.
                hall.put(b"contended");
                let stored = hall.blobs.objects().put(&mut &b"contended"[..], NO_LIMIT, later).unwrap();
                let there = hall.blobs.objects().read_all(&stored.digest, NO_LIMIT);
                assert_eq!(there.unwrap(), b"contended", "round {round}");
                hall.place.set_modified(&crate::fixture::object(&stored.digest), NOW_MS);
            }
        });
        while !racer.is_finished() {
            collector.collect(NOTHING_WANTED, later, MIN_AGE_MS).unwrap();
        }
        racer.join().unwrap();
    });
}
