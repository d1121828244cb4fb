//! Attacks of one client on the shipped binary while healthy clients work.
//!
//! The short version, which is a usual test, asserts that the attacker is refused or bounded, that every healthy request
//! is answered, and how much memory the server uses. `make siege` (`JOBHALL_SIEGE=SECONDS` for each phase) also asserts
//! that the p99 of healthy requests under each attack is at most three times that before it.
#![allow(clippy::unwrap_used)] // what the tests share is test code too

mod attacks;
mod caller;
mod healthy;
mod under_attack;

use std::time::Duration;

use attacks::{Attack, Ground};
use healthy::Healthy;
use jobhall_tests::Rig;

/// Maximum memory of the server at any time of a siege, in KiB.
const MEMORY_KIB: u64 = 512 << 10;
/// Lives of jobs in each phase of the short version.
const LIVES: usize = 20;
/// Latencies under an attack, in multiples of the quiet ones.
const SLOWER: u32 = 3;

/// How long each phase of the long version takes.
fn long() -> Option<Duration> {
    let seconds = std::env::var("JOBHALL_SIEGE").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("JOBHALL_SIEGE is a number of seconds")))
}

fn siege(attack: Attack) {
    let mut rig = Rig::server(&["--limits", &attack.limits(long().is_some())]);
    let pid = rig.hall().pid();
    let ground = Ground::new(&rig);
    let healthy = Healthy::new(&rig);
    let quiet = long().map(|time| healthy.work_for(time).p99());
    let under_attack = ground.attack(attack, long().is_some());
    let figures = match long() {
        Some(time) => healthy.work_for(time),
        None => healthy.work(LIVES),
    };
    let memory = peak_kib(pid);
    drop(under_attack);
    let p99 = figures.p99();
    println!("{attack:?}: {} requests, p99 {p99:?}, quiet {quiet:?}, {memory} KiB", figures.len());
    assert!(memory <= MEMORY_KIB, "{attack:?}: the server used {memory} KiB, the limit is {MEMORY_KIB}");
    if let Some(quiet) = quiet {
        assert!(p99 <= quiet * SLOWER, "{attack:?}: p99 {p99:?}, without the attack {quiet:?}");
    }
}

/// The most memory that a process has used, in KiB.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).expect("a peak")
}

#[test]
fn audit_m3_clients_that_do_not_read() {
    siege(Attack::SlowReaders);
}

#[test]
fn audit_m4_lists_of_large_jobs() {
    siege(Attack::Lists);
}

#[test]
fn audit_m4_followers_of_a_long_history() {
    siege(Attack::History);
}

#[test]
fn audit_m5_a_flood_of_types() {
    siege(Attack::Types);
}

#[test]
fn audit_m6_uploads_that_drip() {
    siege(Attack::Uploads);
}

#[test]
fn audit_m7_large_results_of_sub_jobs() {
    siege(Attack::Results);
}

#[test]
fn audit_l6_outcomes_of_unknown_keys() {
    siege(Attack::Outcomes);
}

#[test]
fn audit_l10_single_bytes_of_a_large_artifact() {
    siege(Attack::Ranges);
}

#[test]
fn audit_l11_a_flood_of_streams_and_polls() {
    siege(Attack::Streams);
}

#[test]
fn audit_l11_a_flood_of_submits() {
    siege(Attack::Submits);
}

#[test]
fn audit_l11_a_flood_of_sessions() {
    siege(Attack::Sessions);
}
