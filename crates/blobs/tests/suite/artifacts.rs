//! Manifests: the artifacts of an attempt, their names, and the effect of a crash or damage.

use crate::fixture::{ATTEMPT, HOUR_MS, MANIFEST, NOW_MS};
use crate::{Hall, hall};
use jobhall_blobs::{Artifact, ArtifactName, AttemptKey, BlobError, Digest, KeepError, MediaType};

const OTHER: AttemptKey = AttemptKey { job: 17, claim: 2 };

fn artifact(name: &str, content: &[u8]) -> Artifact {
    Artifact {
        name: ArtifactName::new(name).unwrap(),
        digest: Digest::of(content),
        size: content.len() as u64,
        media_type: MediaType::new("text/plain").unwrap(),
        at_ms: NOW_MS,
    }
}

fn keep(hall: &Hall, attempt: AttemptKey, name: &str, content: &[u8]) -> Artifact {
    hall.put(content);
    let artifact = artifact(name, content);
    hall.blobs.keep(attempt, &artifact).unwrap();
    artifact
}

fn names(hall: &Hall, attempt: AttemptKey) -> Vec<String> {
    let kept = hall.blobs.artifacts().list(attempt, None, usize::MAX).unwrap();
    kept.into_iter().map(|artifact| artifact.name.to_string()).collect()
}

pub fn an_attempt_has_its_own_artifacts_by_name_also_after_a_restart() {
    let hall = hall();
    let page = keep(&hall, ATTEMPT, "report/index.html", b"<p>");
    let log = keep(&hall, ATTEMPT, "a.log", b"line");
    keep(&hall, OTHER, "a.log", b"other");
    let hall = hall.reopened();
    let artifacts = hall.blobs.artifacts();
    let names = |behind, most| {
        let listed = artifacts.list(ATTEMPT, behind, most).unwrap();
        listed.into_iter().map(|artifact| artifact.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 10), ["a.log", "report/index.html"]);
    assert_eq!(names(Some(&log.name), 10), ["report/index.html"]);
    assert_eq!(names(None, 1), ["a.log"]);
    assert_eq!(artifacts.find(OTHER, &page.name).unwrap(), None);
    assert_eq!(artifacts.find(OTHER, &log.name).unwrap().unwrap().size, 5);
    assert_eq!(artifacts.find(ATTEMPT, &page.name).unwrap(), Some(page));
    assert!(artifacts.list(AttemptKey { job: 99, claim: 1 }, None, 10).unwrap().is_empty());
}

pub fn the_same_name_again_replaces() {
    let hall = hall();
    keep(&hall, ATTEMPT, "a", b"one");
    let two = keep(&hall, ATTEMPT, "a", b"second");
    let hall = hall.reopened();
    assert_eq!(hall.blobs.artifacts().list(ATTEMPT, None, 10).unwrap(), [two]);
}

pub fn what_is_not_stored_is_not_kept() {
    let hall = hall();
    let error = hall.blobs.keep(ATTEMPT, &artifact("a", b"never put")).unwrap_err();
    assert!(matches!(error, KeepError::Blob(BlobError::Missing { .. })), "{error}");
    assert!(names(&hall, ATTEMPT).is_empty());
    assert!(!hall.has(MANIFEST));
}

pub fn a_torn_record_was_never_acknowledged_and_the_next_one_takes_its_place() {
    let hall = hall();
    keep(&hall, ATTEMPT, "a", b"one");
    let sound = hall.len(MANIFEST);
    keep(&hall, ATTEMPT, &"b".repeat(200), b"two");
    let whole = hall.len(MANIFEST);
    hall.cut(MANIFEST, whole - 1);
    let hall = hall.reopened();
    assert_eq!(names(&hall, ATTEMPT), ["a"]);
    keep(&hall, ATTEMPT, "c", b"three");
    assert!(hall.len(MANIFEST) < whole - 1, "nothing is left of the partial one");
    let hall = hall.reopened();
    assert_eq!(names(&hall, ATTEMPT), ["a", "c"]);
    assert!(sound < whole);
}

pub fn damage_is_an_error_and_takes_no_object() {
    let hall = hall();
    let kept = keep(&hall, ATTEMPT, "a", b"one");
    keep(&hall, ATTEMPT, "b", b"two");
    let loose = hall.put(b"nobody's");
    hall.flip(MANIFEST, 70 * 8);
    let hall = hall.reopened();
    let error = hall.blobs.artifacts().find(ATTEMPT, &kept.name).unwrap_err();
    assert!(error.is_damage(), "{error}");
    assert!(matches!(hall.blobs.keep(ATTEMPT, &kept), Err(KeepError::Blob(BlobError::Damaged { .. }))));
    let later = NOW_MS + 99 * HOUR_MS;
    let verdicts = jobhall_blobs::Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| false };
    let collected = hall.blobs.collect(verdicts, later, HOUR_MS).unwrap();
    assert_eq!((collected.objects, collected.unread), (0, 1), "it may refer to any object");
    assert!(hall.blobs.objects().exists(&loose).unwrap());
}
