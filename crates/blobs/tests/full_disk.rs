//! A disk that is really full: a small tmpfs. It needs permission to mount; without it the test fails, unless
//! `JOBHALL_ALLOW_UNPROVEN` names `blobs_full_disk`.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fixture::{ATTEMPT, Directory, FileStore, HOUR_MS, Hall, NO_LIMIT, NOW_MS, chunk};
use jobhall_blobs::{AppendError, Digest, PutError, Verdicts};
use tempfile::TempDir;

/// A mounted file system, unmounted when dropped.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(at: &Path, options: &str) -> Option<Mount> {
    let done = Command::new("mount").args(["-t", "tmpfs", "-o", options, "jobhall-test"]).arg(at).output();
    let why = match done {
        Ok(done) if done.status.success() => return Some(Mount(at.to_owned())),
        Ok(done) => String::from_utf8_lossy(&done.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let allowed = std::env::var("JOBHALL_ALLOW_UNPROVEN").unwrap_or_default();
    assert!(allowed.split(',').any(|name| name == "blobs_full_disk"), "not proven: mount refused: {why}");
    eprintln!("not proven: mount refused: {why}");
    None
}

/// A small disk, dropped after the hall on it.
struct Disk {
    _mount: Mount,
    _mounted_on: TempDir,
}

fn disk(options: &str) -> Option<(Disk, Hall)> {
    let mounted_on = tempfile::tempdir().unwrap();
    let mount = mount(mounted_on.path(), options)?;
    let folder = tempfile::tempdir_in(mounted_on.path()).unwrap();
    fs::write(folder.path().join("ballast"), vec![1_u8; 1 << 20]).unwrap();
    Some((Disk { _mount: mount, _mounted_on: mounted_on }, Hall::at(Directory(folder))))
}

fn make_room(hall: &Hall) {
    fs::remove_file(hall.place.0.path().join("ballast")).unwrap();
}

fn content(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(25_000)
}

/// Stores objects from `first` until the disk is full; returns the first that did not fit.
fn fill(hall: &Hall, first: u32) -> u32 {
    for n in first..1_000 {
        match hall.blobs.objects().put(&mut content(n).as_slice(), NO_LIMIT, NOW_MS) {
            Ok(_) => {}
            Err(PutError::Blob(error)) if error.is_full() => return n,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the disk was never full");
}

fn assert_whole(hall: &Hall, until: u32) {
    for n in 0..until {
        let there = hall.blobs.objects().read_all(&Digest::of(&content(n)), NO_LIMIT).unwrap();
        assert!(there == content(n), "object {n}");
    }
    assert!(!hall.blobs.objects().exists(&Digest::of(&content(until))).unwrap());
}

#[test]
fn a_full_disk_refuses_objects_and_goes_on_when_there_is_room() {
    let Some((_disk, hall)) = disk("size=4m") else { return };

    let refused = fill(&hall, 0);
    assert!(refused > 5, "some fitted before");
    assert_eq!(fill(&hall, refused), refused);
    assert_eq!(hall.place.count("tmp"), 0, "no temporary file is left");
    assert_whole(&hall, refused);

    make_room(&hall);
    let more = fill(&hall, refused);
    assert!(more > refused + 5, "the same store continues");
    let nothing_wanted = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &|_| true };
    let collected = hall.blobs.collect(nothing_wanted, NOW_MS + HOUR_MS, HOUR_MS).unwrap();
    assert_eq!(collected.objects, u64::from(more), "collecting needs no space");
}

#[test]
fn a_full_disk_refuses_log_chunks_and_loses_none_it_took() {
    let Some((_disk, hall)) = disk("size=2m") else { return };

    let append = |hall: &Hall, taken: &mut Vec<u8>| {
        let bytes = content(u32::try_from(taken.len()).unwrap());
        match hall.blobs.logs().append(ATTEMPT, &chunk(taken.len() as u64, &bytes), NO_LIMIT, true) {
            Ok(_) => taken.extend(bytes),
            Err(AppendError::Blob(error)) if error.is_full() => return false,
            Err(other) => panic!("{other:?}"),
        }
        true
    };
    let mut taken = Vec::new();
    while append(&hall, &mut taken) {}
    assert!(taken.len() > 300_000, "some fitted before");
    assert!(!append(&hall, &mut taken), "still full");
    assert!(hall.said() == taken);

    let hall = hall.reopened();
    assert!(hall.said() == taken, "as after a crash on the full disk");
    make_room(&hall);
    assert!(append(&hall, &mut taken), "the same offset, now with room");
    assert!(hall.blobs.logs().finish(ATTEMPT, NOW_MS).unwrap().finished);
    assert!(hall.reopened().said() == taken);
}

#[test]
fn a_disk_without_inodes_is_full_too() {
    let Some((_disk, hall)) = disk("size=4m,nr_inodes=40") else { return };
    let refused = fill(&hall, 0);
    assert!((5..40).contains(&refused), "{refused}");
    assert_whole(&hall, refused);
}
