//! Blobs in a directory: the whole suite, and tests that only apply to a directory.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;
mod suite;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::time::Duration;

use fixture::{ATTEMPT, HOUR_MS, NO_LIMIT, NOW_MS, chunk, hall, object, real_now_ms};
use jobhall_blobs::{
    Artifact, ArtifactName, AttemptKey, BlobError, ByteRange, Collected, MediaType, Verdicts,
};

type Hall = fixture::Hall;

/// One of this many cases is run.
const EVERY: usize = 1;

/// Each test of the suite as a separate test.
macro_rules! alone {
    ($($topic:ident: [$($name:ident,)*])*) => {
        $(mod $topic {
            $(#[test]
            fn $name() {
                crate::suite::$topic::$name();
            })*
        })*
    };
}

suite::suite!(alone);

#[test]
fn whether_an_attempt_has_any_is_known_without_reading_them() {
    let hall = hall();
    let other = AttemptKey { job: 17, claim: 2 };
    let has = |hall: &Hall, attempt| hall.blobs.artifacts().has_any(attempt).unwrap();
    assert!(!has(&hall, ATTEMPT), "not even the directory is there");
    let (name, digest) = (ArtifactName::new("a").unwrap(), hall.put(b"one"));
    let kept = Artifact { name, digest, size: 3, media_type: MediaType::unknown(), at_ms: NOW_MS };
    hall.blobs.keep(ATTEMPT, &kept).unwrap();
    assert!(has(&hall, ATTEMPT));
    assert!(!has(&hall, other), "the directory is there, and not the manifest");
    let hall = hall.reopened();
    assert!(has(&hall, ATTEMPT) && !has(&hall, other));
    let (shard, beside) = (hall.place.path("artifacts/11"), hall.place.path("beside"));
    fs::rename(&shard, &beside).unwrap();
    symlink(&beside, &shard).unwrap();
    assert!(has(&hall, ATTEMPT), "a hint follows a link");
    let found = hall.reopened().blobs.artifacts().find(ATTEMPT, &kept.name);
    assert!(matches!(found, Err(BlobError::Odd { .. })), "and nothing else does: {found:?}");
}

#[test]
fn audit_l10_a_verified_object_is_not_hashed_again_until_its_file_changes() {
    let hall = hall();
    let digest = hall.put(b"content");
    let path = hall.place.path(&object(&digest));
    let objects = hall.blobs.objects();
    objects.open_recent(&digest).unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(b"CONTENT").unwrap();
    file.set_modified(modified).unwrap();
    assert_eq!(objects.open_recent(&digest).unwrap().read_at(0, 3).unwrap(), b"CON", "it was not read again");
    assert!(objects.open_sound(&digest).unwrap_err().is_damage());
    file.set_modified(modified + Duration::from_secs(1)).unwrap();
    assert!(objects.open_recent(&digest).unwrap_err().is_damage(), "the file has changed");
}

#[test]
fn what_does_not_belong_there_is_left_alone() {
    let hall = hall();
    let digest = hall.put(b"x");
    let shard = hall.place.path(&object(&digest)).parent().unwrap().to_owned();
    fs::write(shard.join("README"), b"?").unwrap();
    fs::create_dir(shard.join("f".repeat(62))).unwrap();
    symlink("/etc/passwd", shard.join("e".repeat(62))).unwrap();
    symlink("/etc", hall.place.path("tmp/link")).unwrap();
    fs::create_dir(hall.place.path("tmp/folder")).unwrap();
    fs::create_dir(hall.place.path("logs/11")).unwrap();
    for name in ["17-1.bak", "018-1", "18-1", "\u{fffd}"] {
        fs::write(hall.place.path("logs/11").join(name), b"?").unwrap();
    }
    fs::write(hall.place.path("logs/12"), b"a file where a directory should be").unwrap();
    let nothing_wanted = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| true };
    let collected = hall.blobs.collect(nothing_wanted, real_now_ms() + 9 * HOUR_MS, HOUR_MS).unwrap();
    assert_eq!(collected, Collected { objects: 1, bytes: 1, odd: 10, ..Collected::default() });
}

#[test]
fn more_logs_than_are_remembered_stay_right() {
    let hall = hall();
    let logs = hall.blobs.logs();
    let attempt = |job| AttemptKey { job, claim: 1 };
    for job in 0..5_000 {
        logs.append(attempt(job), &chunk(0, &job.to_le_bytes()), NO_LIMIT, false).unwrap();
    }
    for job in (0..5_000).step_by(13) {
        let read = logs.read(attempt(job), ByteRange::All, 100).unwrap();
        assert_eq!(read.bytes, job.to_le_bytes());
    }
}
