//! A process that is killed at any time: acknowledged data is stored, and nothing else.
//!
//! The parent starts this test program again as a child, reads the acknowledgements that the child prints, and kills
//! it during its work.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod fixture;

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fixture::{ATTEMPT, Hall, NO_LIMIT, NOW_MS, chunk, hall};
use jobhall_blobs::{Blobs, Digest};

const VICTIM: &str = "JOBHALL_BLOBS_VICTIM";
const VICTIM_OF_MANY: &str = "JOBHALL_BLOBS_VICTIM_OF_MANY";
const ROUNDS: usize = 40;

/// The content of the log: byte n is always the same.
fn output(from: u64, count: u64) -> Vec<u8> {
    (from..from + count).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect()
}

fn content(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(3_000)
}

/// The contents of one call; some are as large as several pages.
fn batch(n: u64) -> Vec<Vec<u8>> {
    (0..30_usize)
        .map(|part| [n.to_le_bytes(), (part as u64).to_le_bytes()].concat().repeat(1 + 300 * (part % 4)))
        .collect()
}

/// Does nothing when run as a test; as a child it stores many objects at once until it is killed.
#[test]
fn victim_of_many() {
    let Some(path) = env::var_os(VICTIM_OF_MANY) else { return };
    let first: u64 = env::var("FIRST").unwrap().parse().unwrap();
    let blobs = Blobs::open(Path::new(&path)).unwrap();
    let mut out = std::io::stdout();
    for n in first.. {
        let contents = batch(n);
        let slices: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        blobs.objects().put_many(&slices, NOW_MS).unwrap();
        writeln!(out, "told object {n}").unwrap();
    }
}

/// Does nothing when run as a test; as a child it stores data until it is killed.
#[test]
fn victim() {
    let Some(path) = env::var_os(VICTIM) else { return };
    let blobs = Blobs::open(Path::new(&path)).unwrap();
    let mut out = std::io::stdout();
    for n in 0.. {
        let len = blobs.logs().len(ATTEMPT).unwrap();
        let bytes = output(len, 1 + n * 37 % 5_000);
        let appended = blobs.logs().append(ATTEMPT, &chunk(len, &bytes), NO_LIMIT, n % 8 == 0).unwrap();
        writeln!(out, "told log {}", appended.len).unwrap();
        if n % 4 == 0 {
            blobs.objects().put(&mut content(appended.len).as_slice(), NO_LIMIT, NOW_MS).unwrap();
            writeln!(out, "told object {}", appended.len).unwrap();
        }
    }
}

fn start(path: &Path) -> Child {
    start_as("victim", VICTIM, path, 0)
}

fn start_as(test: &str, variable: &str, path: &Path, first: u64) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(variable, path).env("FIRST", first.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Kills the child after this many acknowledgements; returns all that it printed.
fn killed_after(mut child: Child, lines: usize) -> Vec<(String, u64)> {
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let told = |line: String| {
        let (what, len) = line.strip_prefix("told ")?.split_once(' ')?;
        Some((what.to_owned(), len.parse().ok()?))
    };
    let mut all: Vec<_> = said.by_ref().filter_map(told).take(lines).collect();
    assert_eq!(all.len(), lines, "the child lived until it was killed");
    child.kill().unwrap();
    // The last line may be cut within its number, which is then too small: that requires less.
    all.extend(said.filter_map(told).filter(|(what, _)| what == "log"));
    child.wait().unwrap();
    all
}

#[test]
fn what_was_told_survives_a_kill_at_any_moment() {
    let mut hall = hall();
    let path = hall.place.path("");
    for round in 0..ROUNDS {
        let Hall { blobs, place } = hall;
        drop(blobs);
        let told = killed_after(start(&path), 1 + round * 3);
        hall = Hall::at(place);

        let said = hall.said();
        assert!(said == output(0, said.len() as u64), "round {round}: the log is what was written");
        for (what, len) in told {
            match what.as_str() {
                "log" => assert!(said.len() as u64 >= len, "round {round}: {len} bytes were acknowledged"),
                _ => hall.blobs.objects().verify(&Digest::of(&content(len))).unwrap(),
            }
        }
    }
}

#[test]
fn ground_11_a_kill_while_many_are_stored_leaves_no_partial_object() {
    let mut hall = hall();
    let path = hall.place.path("");
    for round in 0..ROUNDS {
        let Hall { blobs, place } = hall;
        drop(blobs);
        let first = round as u64 * 1_000;
        let child = start_as("victim_of_many", VICTIM_OF_MANY, &path, first);
        let told = killed_after(child, 1 + round % 7);
        hall = Hall::at(place);
        for (_, n) in &told {
            for content in batch(*n) {
                hall.blobs.objects().verify(&Digest::of(&content)).unwrap();
            }
        }
        // Of the call that was interrupted, each object is there or not.
        let interrupted = told.iter().map(|(_, n)| n + 1).max().unwrap_or(first);
        for digest in batch(interrupted).iter().map(|content| Digest::of(content)) {
            if hall.blobs.objects().exists(&digest).unwrap() {
                hall.blobs.objects().verify(&digest).unwrap();
            }
        }
    }
}
