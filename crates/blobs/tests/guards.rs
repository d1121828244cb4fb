//! What the directory of blobs refuses, and its permissions.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use fixture::{ATTEMPT, NO_LIMIT, NOW_MS, chunk, hall, object};
use jobhall_blobs::{AppendError, Artifact, ArtifactName, BlobError, Blobs, Digest, MediaType, PutError};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn check_modes(path: &Path, seen: &mut usize) {
    let expected = if path.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(mode(path), expected, "{path:?}");
    *seen += 1;
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| check_modes(&entry.unwrap().path(), seen));
    }
}

#[test]
fn only_the_owner_may_look() {
    let hall = hall();
    let (digest, name) = (hall.put(b"content"), ArtifactName::new("a").unwrap());
    let kept = Artifact { name, digest, size: 7, media_type: MediaType::unknown(), at_ms: NOW_MS };
    hall.blobs.keep(ATTEMPT, &kept).unwrap();
    hall.say(b"output", true);
    fs::write(hall.place.path("tmp/x"), b"").unwrap();
    fs::set_permissions(hall.place.path("tmp/x"), Permissions::from_mode(0o600)).unwrap();
    let mut seen = 0;
    check_modes(&hall.place.path(""), &mut seen);
    assert_eq!(seen, 1 + 1 + 5 + 2 + 2 + 3 + 1, "root, lock, five folders, object, manifest, log, temp");

    for name in ["", "objects", "artifacts", "logs", "tmp"] {
        fs::set_permissions(hall.place.path(name), Permissions::from_mode(0o755)).unwrap();
    }
    let hall = hall.reopened();
    check_modes(&hall.place.path(""), &mut seen);
}

#[test]
fn a_second_one_is_refused_while_the_first_is_open() {
    let hall = hall();
    let error = Blobs::open(&hall.place.path("")).unwrap_err();
    assert!(matches!(error, BlobError::InUse { .. }), "{error}");
    hall.reopened();
}

#[test]
fn a_missing_parent_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = Blobs::open(&folder.path().join("no/blobs")).unwrap_err();
    assert!(matches!(error, BlobError::Io { .. }), "{error}");
}

#[test]
fn a_directory_that_is_a_link_is_refused() {
    for name in ["", "objects", "logs", "tmp", "quarantine", "lock"] {
        let hall = hall();
        let path = hall.place.path(name);
        let path = Path::new(path.to_str().unwrap().trim_end_matches('/')).to_owned();
        let elsewhere = hall.place.0.path().join("elsewhere");
        let fixture::Hall { blobs, place } = hall;
        drop(blobs);
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        let error = Blobs::open(&place.0.path().join("blobs")).unwrap_err();
        assert!(matches!(error, BlobError::Odd { .. }), "{name}: {error}");
    }
}

#[test]
fn an_object_that_is_a_link_is_refused() {
    let hall = hall();
    let objects = hall.blobs.objects();
    let digest = hall.put(b"content");
    let elsewhere = hall.place.0.path().join("elsewhere");
    fs::rename(hall.place.path(&object(&digest)), &elsewhere).unwrap();
    symlink(&elsewhere, hall.place.path(&object(&digest))).unwrap();
    assert!(matches!(objects.open(&digest), Err(BlobError::Odd { .. })));
    assert!(matches!(objects.len(&digest), Err(BlobError::Odd { .. })));
    assert!(matches!(objects.touch(&digest, NOW_MS), Err(BlobError::Odd { .. })));
    assert!(matches!(
        objects.put(&mut &b"content"[..], NO_LIMIT, NOW_MS),
        Err(PutError::Blob(BlobError::Odd { .. }))
    ));
}

#[test]
fn a_shard_that_is_a_link_leads_nowhere() {
    let hall = hall();
    let elsewhere = hall.place.0.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let digest = Digest::of(b"content");
    symlink(&elsewhere, hall.place.path("objects").join(&digest.hex()[..2])).unwrap();
    symlink(&elsewhere, hall.place.path("logs/11")).unwrap();
    let error = hall.blobs.objects().put(&mut &b"content"[..], NO_LIMIT, NOW_MS).unwrap_err();
    assert!(matches!(error, PutError::Blob(BlobError::Odd { .. })), "{error}");
    let error = hall.blobs.logs().append(ATTEMPT, &chunk(0, b"x"), NO_LIMIT, false).unwrap_err();
    assert!(matches!(error, AppendError::Blob(BlobError::Odd { .. })), "{error}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing was written there");
}

#[test]
fn a_log_that_is_a_link_a_pipe_or_a_directory_is_refused() {
    for name in ["logs/11/17-1", "logs/11/17-1.idx"] {
        for plant in ["link", "dangling", "pipe", "directory"] {
            let hall = hall();
            let path = hall.place.path(name);
            fs::create_dir(hall.place.path("logs/11")).unwrap();
            match plant {
                "link" => symlink(hall.place.path("lock"), &path).unwrap(),
                "dangling" => symlink(hall.place.0.path().join("victim"), &path).unwrap(),
                "pipe" => assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
                _ => fs::create_dir(&path).unwrap(),
            }
            let error = hall.blobs.logs().append(ATTEMPT, &chunk(0, b"x"), NO_LIMIT, false).unwrap_err();
            assert!(matches!(error, AppendError::Blob(BlobError::Odd { .. })), "{plant} {name}: {error}");
            assert!(!hall.place.0.path().join("victim").exists());
        }
    }
}
