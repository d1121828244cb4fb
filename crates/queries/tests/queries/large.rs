//! Values that are artifacts.

use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use jobhall_blobs::{ARTIFACT_BYTES, Blobs, Digest};
use jobhall_core::query::{SourceDigest, StoredValue};
use jobhall_queries::{Asked, Content, EndedHow};

use crate::rig::{Hall, Ran, large_worker};

const BYTES: &[u8] = b"more than fits a row, let us say";

/// A worker whose values are artifacts with these bytes.
async fn work(hall: &Hall) -> Ran {
    let blobs = hall.blobs.clone();
    large_worker(hall, &["a@1", "b@1", "c@1"], move || stored(&blobs)).await
}

fn stored(blobs: &Arc<Blobs>) -> StoredValue {
    let stored = blobs.objects().put(&mut &BYTES[..], ARTIFACT_BYTES, 1).unwrap();
    StoredValue::artifact("text/plain", stored.bytes, SourceDigest(*stored.digest.as_bytes()))
}

async fn object(hall: &Hall, text: &str) -> (u64, Digest) {
    let ended = hall.ended(text).await;
    match &ended.how {
        EndedHow::Value(value) => match value.content {
            Content::Object(digest) => (value.size, Digest::from(digest.0)),
            Content::Inline(_) => panic!("it is in the row"),
        },
        EndedHow::Failure { failure, .. } => panic!("{failure:?}"),
    }
}

fn path(hall: &Hall, digest: Digest) -> PathBuf {
    let hex = digest.hex();
    hall.folder.path().join("blobs/objects").join(&hex[..2]).join(&hex[2..])
}

/// Changes one byte of an object.
fn damage(hall: &Hall, digest: Digest) {
    let file = std::fs::File::options().read(true).write(true).open(path(hall, digest)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 0).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
}

#[tokio::test]
async fn a_large_value_is_found_by_its_digest() {
    let hall = Hall::with_commands().await;
    let ran = work(&hall).await;
    assert_eq!(object(&hall, "a/b").await, (BYTES.len() as u64, Digest::of(BYTES)));
    assert_eq!(object(&hall, "a/b").await, (BYTES.len() as u64, Digest::of(BYTES)));
    assert_eq!(ran.count(), 2);
    hall.engine.stop().await;
}

#[tokio::test]
async fn q18_a_damaged_value_is_made_again() {
    let hall = Hall::with_commands().await;
    let ran = work(&hall).await;
    let (_, digest) = object(&hall, "a").await;
    assert_eq!(ran.count(), 1);
    damage(&hall, digest);
    let Asked::NotComputed(_) = hall.ask_with("a", false).await.unwrap() else { panic!("served") };
    for _ in 0..3 {
        assert_eq!(object(&hall, "a").await.1, digest);
        hall.blobs.objects().verify(&digest).unwrap();
    }
    assert_eq!(ran.count(), 2, "made again once");
    let quarantine = std::fs::read_dir(hall.folder.path().join("blobs/quarantine")).unwrap().count();
    assert_eq!(quarantine, 1);
    hall.engine.stop().await;
}

#[tokio::test]
async fn a_value_that_is_gone_is_made_again_when_a_later_step_needs_it() {
    let hall = Hall::with_commands().await;
    let ran = work(&hall).await;
    let (_, digest) = object(&hall, "a").await;
    std::fs::remove_file(path(&hall, digest)).unwrap();
    object(&hall, "a/b").await;
    assert_eq!(ran.queries(), ["a", "a", "a/b"], "the input is made again before the step that needs it");
    object(&hall, "a/b").await;
    assert_eq!(ran.count(), 3);
    hall.engine.stop().await;
}
