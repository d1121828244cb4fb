//! Histories: a recording has everything.

use std::collections::BTreeSet;

use jobhall_sim::record;

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// The recording of the first seed in which this is found, and what is found.
fn recording<T>(find: impl Fn(&[String]) -> Option<T>) -> (Vec<String>, T) {
    let found =
        (0..40).map(|seed| lines(&record(seed))).find_map(|lines| find(&lines).map(|found| (lines, found)));
    found.expect("a seed that has it")
}

/// A recording with a line that has all of these, and its position.
fn recording_with(parts: &[&str]) -> (Vec<String>, usize) {
    recording(|lines| lines.iter().position(|line| parts.iter().all(|part| line.contains(part))))
}

#[test]
fn a_recording_is_always_the_same_and_has_every_kind_of_line() {
    let mut kinds = BTreeSet::new();
    for seed in 0..12 {
        let text = record(seed);
        assert!(seed > 3 || record(seed) == text, "seed {seed}");
        kinds.extend(text.lines().skip(1).map(kind));
    }
    let rows = ["change", "check", "group", "idempotency", "insert", "link", "setting", "unlink"];
    let mut wanted = BTreeSet::from(rows.map(|row| format!("commit {row}")));
    let others =
        ["answer", "commit", "crash", "effect", "end", "read", "reply", "request", "result", "start"];
    wanted.extend(others.map(str::to_owned));
    assert_eq!(kinds, wanted);
}

/// The head of a line without its numbers.
fn kind(line: &str) -> String {
    let head = line.split(" | ").next().unwrap_or_default();
    let words = head.split(' ').filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn leases_are_recorded_in_full() {
    let (lines, at) = recording_with(&[" request ", " | Accept {"]);
    let lease = lines[at].rsplit(' ').next().unwrap();
    assert!(lease.len() == 32 && lease.chars().all(|c| c.is_ascii_hexdigit()), "{}", lines[at]);
    let shown = |part: &str| lines.iter().any(|line| line.contains(part) && line.ends_with(lease));
    assert!(shown(" effect | Assign("), "{lease}");
    assert!(shown("state: Assigned("), "{lease}");
}
