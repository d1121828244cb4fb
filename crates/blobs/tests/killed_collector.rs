//! A process that stores artifacts and collects garbage concurrently, killed at any time: acknowledged artifacts
//! exist and are valid, and a later walk removes everything else.
//!
//! As in `killed.rs`, the parent starts this test program again as a child.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use fixture::{HOUR_MS, NO_LIMIT, NOW_MS};
use jobhall_blobs::{
    Artifact, ArtifactName, AttemptKey, Blobs, Digest, MIN_AGE_MS, MediaType, Stream, Verdicts,
};

const VICTIM: &str = "JOBHALL_BLOBS_COLLECTING_VICTIM";
const ROUNDS: u64 = 25;

fn content(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(2_000)
}

fn attempt(n: u64) -> AttemptKey {
    AttemptKey { job: n % 7 + 1, claim: 1 }
}

/// Jobs with an even number exist forever, the others never existed.
fn is_gone(attempt: AttemptKey) -> bool {
    attempt.job % 2 == 1
}

const VERDICTS: Verdicts<'_> = Verdicts { referenced: &|_| false, pinned: &|_| false, gone: &is_gone };

fn keep(blobs: &Blobs, n: u64, now_ms: u64) {
    let stored = blobs.objects().put(&mut content(n).as_slice(), NO_LIMIT, now_ms).unwrap();
    let name = ArtifactName::new(&format!("n{n}")).unwrap();
    let (digest, size) = (stored.digest, stored.bytes);
    let artifact = Artifact { name, digest, size, media_type: MediaType::unknown(), at_ms: now_ms };
    blobs.keep(attempt(n), &artifact).unwrap();
}

/// Does nothing when run as a test. Every hour of its clock it stores an artifact, while walks run as if hours had
/// passed since the last.
#[test]
fn victim() {
    let Some(path) = env::var_os(VICTIM) else { return };
    let first: u64 = env::var("FIRST").unwrap().parse().unwrap();
    let blobs = Blobs::open(Path::new(&path)).unwrap();
    let clock = std::sync::atomic::AtomicU64::new(NOW_MS + first * HOUR_MS);
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let now_ms = clock.load(std::sync::atomic::Ordering::SeqCst);
                blobs.collect(VERDICTS, now_ms, MIN_AGE_MS).unwrap();
            }
        });
        let mut out = std::io::stdout();
        for n in first.. {
            let now_ms = clock.fetch_add(HOUR_MS, std::sync::atomic::Ordering::SeqCst) + HOUR_MS;
            let chunk =
                jobhall_blobs::Chunk { offset: 0, at_ms: now_ms, stream: Stream::Stdout, bytes: b"log" };
            blobs.logs().append(attempt(n), &chunk, NO_LIMIT, false).unwrap();
            keep(&blobs, n, now_ms);
            writeln!(out, "told {n}").unwrap();
        }
    });
}

/// Starts the child, kills it after this many acknowledgements, and returns all that it printed.
fn killed_after(path: &Path, first: u64, lines: usize) -> Vec<u64> {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "victim", "--nocapture"]).env(VICTIM, path).env("FIRST", first.to_string());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let told = |line: String| line.strip_prefix("told ")?.parse::<u64>().ok();
    let all: Vec<_> = said.by_ref().filter_map(told).take(lines).collect();
    assert_eq!(all.len(), lines, "the child lived until it was killed");
    child.kill().unwrap();
    child.wait().unwrap();
    all
}

#[test]
fn what_was_kept_survives_a_kill_in_the_middle_of_a_collection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blobs");
    let mut kept = BTreeSet::new();
    for round in 0..ROUNDS {
        let first = round * 1_000;
        let lines = usize::try_from(1 + round * 3).unwrap();
        kept.extend(killed_after(&path, first, lines));
        let blobs = Blobs::open(&path).unwrap();
        for n in kept.iter().filter(|n| !is_gone(attempt(**n))) {
            let name = ArtifactName::new(&format!("n{n}")).unwrap();
            let found = blobs.artifacts().find(attempt(*n), &name).unwrap().unwrap();
            assert_eq!(found.digest, Digest::of(&content(*n)), "round {round}");
            blobs.objects().verify(&found.digest).unwrap();
        }
    }
    let blobs = Blobs::open(&path).unwrap();
    // Temporary files and logs have the times of the system's clock.
    let later = fixture::real_now_ms().max(NOW_MS + (ROUNDS + 1) * 1_000 * HOUR_MS) + HOUR_MS;
    blobs.collect(VERDICTS, later, MIN_AGE_MS).unwrap();
    let mut listed = BTreeSet::new();
    for job in (1..=7).filter(|job| job % 2 == 0) {
        let key = AttemptKey { job, claim: 1 };
        listed.extend(blobs.artifacts().list(key, None, usize::MAX).unwrap().iter().map(|kept| kept.digest));
    }
    assert_eq!(files(&path.join("objects")), listed.len(), "objects of live jobs, and no other");
    assert_eq!(files(&path.join("artifacts")), 3);
    assert_eq!(files(&path.join("logs")), 2 * 3);
    assert_eq!(fs::read_dir(path.join("tmp")).unwrap().count(), 0);
}

fn files(below: &Path) -> usize {
    let folders = fs::read_dir(below).unwrap();
    folders.map(|folder| fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
}
