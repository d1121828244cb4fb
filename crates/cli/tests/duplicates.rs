//! A key that a pending job holds: other params are never dropped silently, and each `--on-duplicate` does what it says.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::process::{Output, Stdio};

use up::{Up, eventually, text};

fn start() -> Up {
    Up::start(tempfile::tempdir().unwrap(), "up", &["--listen", "127.0.0.1:0", "--slots", "2"])
}

/// Submits job 1, which matches no worker, with the key `k`.
fn hold(up: &Up) {
    up.told(&[
        "job",
        "submit",
        "exec",
        "--key",
        "k",
        "--needs",
        "gpu>=4",
        "--params",
        "{\"argv\":[\"true\"]}",
    ]);
}

const OTHER: &str = "{\"argv\":[\"echo\",\"other\"]}";

fn submit(up: &Up, more: &[&str]) -> Output {
    up.run(&[&["job", "submit", "exec", "--key", "k", "--params", OTHER, "--json"], more].concat())
}

fn count(up: &Up) -> usize {
    up.json(&["job", "list", "--all", "--json"]).as_array().unwrap().len()
}

fn state(up: &Up, id: &str) -> String {
    up.json(&["job", "show", id, "--json"])["state"].as_str().unwrap().to_owned()
}

fn is_refused(output: &Output) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("NOT submitted"), "{said}");
    for word in ["--on-duplicate", "run-again", "supersede", "join", "reject"] {
        assert!(said.contains(word), "{word} in {said}");
    }
}

#[test]
fn other_params_for_a_held_key_are_refused_and_nothing_is_written() {
    let up = start();
    hold(&up);
    is_refused(&submit(&up, &[]));
    is_refused(&up.run(&["run", "--key", "k", "--", "echo", "other"]));
    let from = up.folder.path().join("jobs.jsonl");
    std::fs::write(&from, format!("{{\"type\":\"exec\",\"key\":\"k\",\"params\":{OTHER}}}\n")).unwrap();
    let from = from.to_str().unwrap();
    is_refused(&up.run(&["job", "submit", "--from", from]));
    let group = up.run(&["group", "create", "--from", from]);
    is_refused(&group);
    assert!(text(&group.stderr).contains("#0 (job 1)"), "{}", text(&group.stderr));
    let groups = up.json(&["group", "list", "--json"]);
    assert_eq!(groups[0]["state"], "cancelled", "a group without jobs has not succeeded: {groups}");
    assert_eq!((count(&up), state(&up, "1")), (1, "queued".to_owned()));
    let same = "{ \"argv\": [\"true\"] }";
    let joined = up.json(&["job", "submit", "exec", "--key", "k", "--params", same, "--json"]);
    assert_eq!((&joined["id"], &joined["disposition"]), (&1.into(), &"joined".into()), "the same JSON value");
}

#[test]
fn join_returns_the_pending_job_and_says_that_its_params_count() {
    let up = start();
    hold(&up);
    let joined = submit(&up, &["--on-duplicate", "join"]);
    assert!(joined.status.success());
    assert!(text(&joined.stdout).contains("\"joined\""), "{}", text(&joined.stdout));
    assert!(text(&joined.stderr).contains("yours were not submitted"), "{}", text(&joined.stderr));
    assert_eq!(count(&up), 1);
}

#[test]
fn reject_refuses_the_same_params_too() {
    let up = start();
    hold(&up);
    assert_eq!(submit(&up, &["--on-duplicate", "reject"]).status.code(), Some(6));
    let same = [
        "job",
        "submit",
        "exec",
        "--key",
        "k",
        "--params",
        "{\"argv\":[\"true\"]}",
        "--on-duplicate",
        "reject",
    ];
    assert_eq!(up.run(&same).status.code(), Some(6));
    assert_eq!(
        up.run(&["run", "--key", "k", "--on-duplicate", "reject", "--", "true"]).status.code(),
        Some(6)
    );
    assert_eq!(count(&up), 1);
}

#[test]
fn supersede_cancels_the_pending_job_and_runs_the_new_one() {
    let up = start();
    hold(&up);
    let superseding = submit(&up, &["--on-duplicate", "supersede", "--wait"]);
    assert_eq!(superseding.status.code(), Some(0), "{}", text(&superseding.stderr));
    assert_eq!(state(&up, "1"), "cancelled");
    assert!(up.told(&["job", "log", "2"]).contains("other"));
}

#[test]
fn run_again_follows_the_job_that_runs_after_the_pending_one() {
    let up = start();
    let flag = up.folder.path().join("flag");
    let script = format!("while ! test -e {}; do sleep 0.05; done; echo first", flag.display());
    let params = serde_json::json!({ "script": script }).to_string();
    up.told(&["job", "submit", "exec", "--key", "k", "--params", &params]);
    eventually("the start", || state(&up, "1") == "running");
    let words = ["run", "--key", "k", "--on-duplicate", "run-again", "--", "echo", "second"];
    let said = up.folder.path().join("run.said");
    let mut run = up.command(&words);
    run.stdout(Stdio::piped()).stderr(std::fs::File::create(&said).unwrap());
    let run = run.spawn().unwrap();
    eventually("the request", || std::fs::read_to_string(&said).unwrap().contains("job 1 has the key"));
    assert_eq!(count(&up), 1, "the follow-up is created when job 1 ends");
    std::fs::write(&flag, "").unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", std::fs::read_to_string(&said).unwrap());
    assert_eq!(text(&output.stdout).trim(), "second");
    assert_eq!((state(&up, "1"), count(&up)), ("succeeded".to_owned(), 2));
}

/// A job that succeeded, one that failed, one that crashed and one that is queued.
fn mixed(up: &Up) {
    for (script, code) in [("true", 0), ("exit 3", 100)] {
        let params = serde_json::json!({ "script": script }).to_string();
        let words = ["job", "submit", "exec", "--max-attempts", "1", "--params", &params, "--wait"];
        assert_eq!(up.run(&words).status.code(), Some(code));
    }
    let crash = "{\"argv\":[\"/no/such/program\"]}";
    let words = ["job", "submit", "exec", "--max-attempts", "1", "--params", crash, "--wait"];
    assert_eq!(up.run(&words).status.code(), Some(103));
    hold(up);
}

#[test]
fn bulk_retry_takes_only_failed_and_crashed_jobs() {
    let up = start();
    mixed(&up);
    let retried = up.json(&["job", "bulk", "retry", "--all", "--yes", "--json"]);
    assert_eq!(["total", "done"].map(|field| retried[field].as_u64()), [Some(2), Some(2)], "{retried}");
    let jobs = up.json(&["job", "list", "--all", "--json"]);
    let mut of: Vec<_> = jobs.as_array().unwrap().iter().filter_map(|job| job["retry_of"].as_u64()).collect();
    of.sort_unstable();
    assert_eq!(of, [2, 3]);
}

#[test]
fn bulk_cancel_counts_and_takes_only_pending_jobs() {
    let up = start();
    mixed(&up);
    let counted = up.json(&["job", "bulk", "cancel", "--all", "--dry-run", "--json"]);
    assert_eq!(counted["total"].as_u64(), Some(1), "{counted}");
    let cancelled = up.json(&["job", "bulk", "cancel", "--all", "--yes", "--json"]);
    let numbers = ["total", "done", "skipped"].map(|field| cancelled[field].as_u64());
    assert_eq!(numbers, [Some(1), Some(1), Some(0)], "{cancelled}");
    let states = ["1", "2", "3", "4"].map(|id| state(&up, id));
    assert_eq!(states, ["succeeded", "failed", "crashed", "cancelled"]);
}
