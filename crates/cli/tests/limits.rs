//! Limits, pauses, holds and edits with the shipped binary against its own server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use serde_json::Value;
use up::{Up, text};

fn hall() -> Up {
    Up::start(tempfile::tempdir().unwrap(), "server", &["--listen", "127.0.0.1:0"])
}

fn json(hall: &Up, words: &[&str]) -> Value {
    let words: Vec<_> = words.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&hall.told(&words)).unwrap()
}

fn submit(hall: &Up, words: &[&str]) -> String {
    let words: Vec<_> = ["job", "submit", "t"].into_iter().chain(words.iter().copied()).collect();
    json(hall, &words)["id"].to_string()
}

fn fails(hall: &Up, words: &[&str], code: i32, said: &str) {
    let output = hall.run(words);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
    assert!(errors.contains(said), "{words:?}: {errors}");
}

#[test]
fn queues_and_types_get_limits_and_pauses() {
    let hall = hall();
    let told = hall.told(&[
        "queue",
        "set",
        "mail",
        "--limit",
        "concurrency=2, by=params.customer.id",
        "--limit",
        "rate=100/1m",
    ]);
    assert!(
        told.starts_with(
            "queue mail is not paused; limits: concurrency=2, by=params.customer.id; rate=100/1m;"
        ),
        "{told}"
    );
    let shown = json(&hall, &["queue", "show", "mail"]);
    assert_eq!(shown["limits"][1]["rate"]["per_ms"].as_u64(), Some(60_000));
    let version = shown["version"].as_str().unwrap();
    hall.told(&["queue", "pause", "mail"]);
    assert!(
        hall.told(&["queue", "list"]).contains("paused; concurrency=2, by=params.customer.id; rate=100/1m")
    );
    let id = submit(&hall, &["--queue", "mail"]);
    assert!(hall.told(&["job", "explain", &id]).contains("queue mail is paused; resume it"));
    fails(&hall, &["queue", "set", "mail", "--limit", "none", "--if-match", version], 6, "version");
    hall.told(&["queue", "resume", "mail"]);
    assert!(hall.told(&["queue", "set", "mail", "--limit", "none"]).contains("limits: none"));
    hall.told(&["queue", "reset", "mail"]);
    let told = hall.told(&["type", "set", "t", "--paused", "true", "--limit", "concurrency=4"]);
    assert!(told.contains("paused     yes\nlimits     concurrency=4\n"), "{told}");
    assert!(hall.told(&["job", "explain", &id]).contains("type t is paused; resume it"));
}

#[test]
fn a_limit_that_is_wrong_is_refused_before_anything_travels() {
    let hall = hall();
    fails(&hall, &["queue", "set", "q", "--limit", "concurrency=1, by=ownr"], 2, "did you mean \"owner\"?");
    fails(&hall, &["queue", "set", "q", "--limit", "5"], 2, "is not a part of a limit");
    fails(&hall, &["queue", "set", "q"], 2, "nothing to set");
    fails(&hall, &["queue", "show", "q"], 5, "there is no queue q");
}

#[test]
fn jobs_are_edited_held_released_and_run_now() {
    let hall = hall();
    let id = submit(&hall, &["--in", "1h", "--owner", "ann", "--tag", "a", "--throttle-factor", "2"]);
    let job = json(
        &hall,
        &["job", "edit", &id, "--priority", "-3", "--tag", "b", "--params", "{\"n\":1}", "--timeout", "2h"],
    );
    assert_eq!((job["priority"].as_i64(), job["tags"][0].as_str()), (Some(-3), Some("b")));
    assert_eq!((job["owner"].as_str(), job["throttle_factor"].as_u64()), (Some("ann"), Some(2)));
    let shown = hall.told(&["job", "show", &id]);
    assert!(shown.contains("weight     2\n") && shown.contains("owner      ann\ntags       b\n"), "{shown}");
    let job = json(&hall, &["job", "edit", &id, "--owner", "", "--no-tags"]);
    assert!(job["owner"].is_null() && job["tags"].as_array().unwrap().is_empty(), "{job}");
    assert!(hall.told(&["job", "hold", &id]).contains("held"));
    assert!(hall.told(&["job", "explain", &id]).contains("it is on hold; release it"));
    assert!(!hall.told(&["job", "release", &id]).contains("held"));
    let job = json(&hall, &["job", "run-now", &id]);
    assert_eq!(job["items"].as_array().map_or(&job[0], |items| &items[0])["state"].as_str(), Some("queued"));
    fails(&hall, &["job", "edit", &id], 2, "nothing to change");
    fails(&hall, &["job", "edit", &id, "--needs", "gpu >"], 2, "needs:");
    fails(&hall, &["job", "edit", "999", "--priority", "1"], 5, "job 999");
    hall.told(&["job", "cancel", &id]);
    fails(&hall, &["job", "hold", &id], 6, "cancelled");
    fails(&hall, &["job", "run-now", &id], 6, "cancelled");
}
