//! Histories: a recording is complete, and each mode of comparison finds what it must and ignores what it may.

use std::collections::BTreeSet;

use jobhall_sim::{Comparison, Mode, Renames, compare, record};

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn run_compare(left: &[String], right: &[String], mode: Mode, renames: &str) -> Comparison {
    let (left, right) = (left.join("\n"), right.join("\n"));
    compare(left.as_bytes(), right.as_bytes(), mode, renames.parse().expect("a table"))
        .expect("text in memory")
}

fn are_equal(left: &[String], right: &[String], mode: Mode) -> bool {
    run_compare(left, right, mode, "").first.is_none()
}

/// The recording of the first seed for which `find` returns something, and the result.
fn recording<T>(find: impl Fn(&[String]) -> Option<T>) -> (Vec<String>, T) {
    let found =
        (0..40).map(|seed| lines(&record(seed))).find_map(|lines| find(&lines).map(|found| (lines, found)));
    found.expect("a seed that has it")
}

/// A recording with a line that contains all of these parts, and its position.
fn recording_with(parts: &[&str]) -> (Vec<String>, usize) {
    recording(|lines| lines.iter().position(|line| parts.iter().all(|part| line.contains(part))))
}

/// A recording with one line changed.
fn changed(lines: &[String], at: usize, old: &str, new: &str) -> Vec<String> {
    assert!(lines[at].contains(old), "{}", lines[at]);
    let mut lines = lines.to_vec();
    lines[at] = lines[at].replacen(old, new, 1);
    lines
}

/// The first commit with two units of one row each, as the position of its first row.
fn two_units(lines: &[String]) -> Option<usize> {
    let unit = |line: &str| line.split(' ').nth(2).unwrap_or_default().to_owned();
    (2..lines.len() - 2).find(|&at| {
        let units: Vec<String> = lines[at - 1..=at + 2].iter().map(|line| unit(line)).collect();
        let alone = units[0] != units[1] && units[2] != units[3];
        alone && units[1].ends_with(".0") && units[2].ends_with(".1") && lines[at].contains(" commit ")
    })
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

#[test]
fn words_finds_one_changed_field() {
    let (left, at) = recording_with(&[" insert | ", "priority: 100"]);
    let right = changed(&left, at, "priority: 100", "priority: 101");
    let result = run_compare(&left, &right, Mode::Words, "");
    let difference = result.first.unwrap();
    assert_eq!((result.seeds, result.equal), (1, 0));
    assert_eq!((difference.left.as_ref(), difference.right.as_ref()), (Some(&left[at]), Some(&right[at])));
    let ms = left[at].split(' ').next().unwrap();
    assert!(difference.to_string().starts_with(&format!("{} at {ms} ms, from character ", left[0])));
}

#[test]
fn words_allows_renamed_words_that_are_in_the_table() {
    let left = lines(&record(0));
    let right: Vec<_> = left.iter().map(|line| line.replace(" JobStatus {", " Renamed {")).collect();
    assert_ne!(left, right);
    assert!(!are_equal(&left, &right, Mode::Words));
    assert_eq!(run_compare(&left, &right, Mode::Words, "JobStatus Renamed\n").first, None);
    assert!(run_compare(&left, &right, Mode::Words, "Lif Renamed\n").first.is_some());
}

#[test]
fn only_whole_words_of_values_are_renamed() {
    let left = lines("seed 1\n5 effect | JobStatus Lifelong life effect(JobStatus, \"x JobStatus\")");
    let right = lines("seed 1\n5 effect | New Lifelong life other(New, \"x New\")");
    assert_eq!(run_compare(&left, &right, Mode::Words, "JobStatus New\n\neffect other\n").first, None);
    assert_eq!("one two three".parse::<Renames>().unwrap_err(), "not two words: one two three");
}

#[test]
fn agenda_finds_a_row_in_another_commit() {
    let (left, first) = recording(two_units);
    let row = first + 1;
    let commit = left[row].split_once(".1 ").unwrap().0.rsplit(' ').next().unwrap();
    let other = |line: &String| line.contains(" insert | ") && !line.contains(&format!(" commit {commit}."));
    let next = row + left[row..].iter().position(other).unwrap();
    let place = left[next].split_once(" insert | ").unwrap().0;
    let mut right = left.clone();
    right.insert(next + 1, format!("{place}9 {}", left[row].splitn(4, ' ').nth(3).unwrap()));
    right.remove(row);
    let difference = run_compare(&left, &right, Mode::Agenda, "").first.unwrap();
    let missing = left[row].replacen(".1 ", " ", 1);
    assert_eq!((difference.left, difference.right), (Some(missing), None));
}

#[test]
fn agenda_finds_two_units_that_became_one() {
    let (left, first) = recording(two_units);
    let right = changed(&left, first + 1, ".1 ", ".0 ");
    assert!(!are_equal(&left, &right, Mode::Agenda));
}

#[test]
fn agenda_allows_another_order_inside_of_a_step() {
    let (left, first) = recording(two_units);
    let second = first + 1;
    let mut right = changed(&changed(&left, first, ".0 ", ".1 "), second, ".1 ", ".0 ");
    right.swap(first, second);
    let ms = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let outputs = ["answer", "effect", "read"];
    let pair = (1..right.len()).find(|&at| {
        let (one, other) = (&right[at - 1], &right[at]);
        ms(one) == ms(other)
            && one != other
            && [one, other].iter().all(|line| outputs.contains(&kind(line).as_str()))
    });
    let pair = pair.unwrap();
    right.swap(pair - 1, pair);
    assert!(!are_equal(&left, &right, Mode::Words));
    assert_eq!(run_compare(&left, &right, Mode::Agenda, "").first, None);
}

#[test]
fn agenda_finds_what_moved_to_another_step() {
    let left = lines("seed 1\n5 request 1 | A\n5 effect | X\n5 request 2 | B\n6 effect | Y");
    for wrong in [
        "seed 1\n5 request 1 | A\n5 request 2 | B\n5 effect | X\n6 effect | Y",
        "seed 1\n5 request 1 | A\n5 effect | X\n5 request 2 | B\n5 effect | Y",
        "seed 1\n5 request 1 | A\n5 effect | X\n5 request 2 | B",
        "seed 1\n5 request 1 | A\n5 effect | X\n5 effect | X\n5 request 2 | B\n6 effect | Y",
    ] {
        assert!(!are_equal(&left, &lines(wrong), Mode::Agenda), "{wrong}");
    }
}

#[test]
fn requests_finds_another_state_in_an_answer() {
    let (left, at) = recording_with(&[" answer ", " | cancelled | "]);
    let right = changed(&left, at, " | cancelled | ", " | queued | ");
    let difference = run_compare(&left, &right, Mode::Requests, "").first.unwrap();
    assert!(difference.left.unwrap().ends_with(" | cancelled"));
    assert!(difference.right.unwrap().ends_with(" | queued"));
}

#[test]
fn requests_finds_a_changed_commit() {
    let (left, at) = recording_with(&[" change | ", "rev: 2"]);
    let right = changed(&left, at, "rev: 2", "rev: 3");
    assert!(!are_equal(&left, &right, Mode::Requests));
}

#[test]
fn requests_allows_richer_answers_and_other_forms_of_requests() {
    let (left, _) = recording_with(&["Ok(State("]);
    let right: Vec<_> = left
        .iter()
        .map(|line| line.replace("Ok(State(", "Ok(Job(7, ").replace("Submit(Submit {", "Job(Submit {"))
        .collect();
    assert!(!are_equal(&left, &right, Mode::Words));
    assert_eq!(run_compare(&left, &right, Mode::Requests, "").first, None);
}

#[test]
fn seeds_are_counted_and_those_behind_a_difference_are_compared_too() {
    let all: Vec<Vec<String>> = (0..4).map(|seed| lines(&record(seed))).collect();
    let mut wrong = all.clone();
    wrong[1].truncate(40);
    let result = run_compare(&all.concat(), &wrong.concat(), Mode::Words, "");
    assert_eq!((result.seeds, result.equal), (4, 3));
    let difference = result.first.unwrap();
    assert_eq!((difference.seed.as_str(), difference.right), ("seed 1", None));
    let fewer = run_compare(&all.concat(), &all[..3].concat(), Mode::Words, "");
    assert_eq!((fewer.seeds, fewer.equal), (3, 3));
    assert_eq!(fewer.first.unwrap().left.as_deref(), Some("seed 3"));
}
