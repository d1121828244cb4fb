//! Groups and dependencies on the command line: created from a file, followed to the verdict, retried as a whole.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use serde_json::{Value, json};
use up::{Up, text};

fn start() -> Up {
    Up::start(tempfile::tempdir().unwrap(), "up", &["--listen", "127.0.0.1:0", "--slots", "2"])
}

fn json(up: &Up, words: &[&str]) -> Value {
    serde_json::from_str(&up.told(words)).unwrap()
}

fn exec(script: &str, after: &[&str]) -> Value {
    json!({"type": "exec", "params": {"script": script}, "retry": {"max_attempts": 1}, "after": after})
}

/// Writes jobs into a file of the test, one per line.
fn file(up: &Up, jobs: &[Value]) -> String {
    let lines: String = jobs.iter().map(|job| format!("{job}\n")).collect();
    let path = up.folder.path().join("jobs.jsonl");
    std::fs::write(&path, lines).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_group_from_a_file_runs_in_order_and_ends_with_its_verdict() {
    let up = start();
    let order = up.folder.path().join("order");
    let order = order.to_str().unwrap();
    // More jobs than fit in one request; the last one depends on the first and on the one before it.
    let mut jobs = vec![exec(&format!("sleep 0.2; echo first >>{order}"), &[])];
    jobs.extend((1..520).map(|_| json!({"type": "never", "run_at": "2099-01-01T00:00:00Z"})));
    jobs.push(exec(&format!("echo second >>{order}"), &["#0"]));
    jobs.push(exec(&format!("echo third >>{order}"), &["#0", "#520"]));
    let from = file(&up, &jobs);
    let group = json(&up, &["group", "create", "--name", "n", "--from", &from, "--open", "--json"]);
    let id = group["id"].to_string();
    assert_eq!((&group["counts"]["total"], &group["closed"]), (&json!(522), &json!(false)));
    let never = ["job", "bulk", "cancel", "--group", &id, "--type", "never", "--yes"];
    assert!(up.run(&never).status.success());
    up.told(&["group", "close", &id]);
    let waited = up.run(&["group", "wait", &id, "--timeout", "60s"]);
    assert_eq!(waited.status.code(), Some(101), "some were cancelled: {}", text(&waited.stderr));
    assert!(text(&waited.stdout).contains("522: 3 succeeded, 519 cancelled"), "{}", text(&waited.stdout));
    assert_eq!(std::fs::read_to_string(order).unwrap(), "first\nsecond\nthird\n");
    assert!(up.told(&["group", "list"]).contains("cancelled"));
    let listed = json(&up, &["job", "list", "--group", &id, "--state", "succeeded", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 3);
}

#[test]
fn what_failed_is_tried_again_as_a_new_group() {
    let up = start();
    let flag = up.folder.path().join("flag");
    let script = format!("test -e {}", flag.to_str().unwrap());
    let from = file(&up, &[exec("true", &[]), exec(&script, &[]), exec("true", &["#1"])]);
    let made = up.run(&["group", "create", "--from", &from, "--wait", "--json"]);
    assert_eq!(made.status.code(), Some(100), "{}", text(&made.stderr));
    let group: Value = serde_json::from_slice(&made.stdout).unwrap();
    let counts = |group: &Value| ["succeeded", "failed"].map(|name| group["counts"][name].as_u64().unwrap());
    assert_eq!(counts(&group), [1, 2], "the dependent job failed too");
    std::fs::write(&flag, "").unwrap();
    let retried = up.run(&["group", "retry", &group["id"].to_string(), "--wait", "--json"]);
    assert_eq!(retried.status.code(), Some(0), "{}", text(&retried.stderr));
    let new: Value = serde_json::from_slice(&retried.stdout).unwrap();
    assert_eq!((counts(&new), &new["retry_of"]), ([2, 0], &group["id"]));
    let again = up.run(&["group", "retry", &new["id"].to_string()]);
    assert_eq!(again.status.code(), Some(6));
    assert!(text(&again.stderr).contains("no member of group"), "{}", text(&again.stderr));
}

#[test]
fn a_job_behind_another_is_shown_explained_and_cancelled_with_its_group() {
    let up = start();
    let id = up.told(&["group", "create", "--owner", "me", "--tag", "x", "--fields", "id"]).trim().to_owned();
    let submit = |words: &[&str]| {
        let all = [&["job", "submit", "nobody", "--fields", "id"], words].concat();
        up.told(&all).trim().to_owned()
    };
    let first = submit(&["--group", &id, "--owner", "me", "--tag", "red", "--tag", "blue"]);
    let second = submit(&["--after", &first, "--after-any", "--group", &id]);
    let shown = up.told(&["job", "show", &second]);
    assert!(shown.contains(&format!("after      {first} (any end)")), "{shown}");
    assert!(shown.contains(&format!("group      {id}")), "{shown}");
    let why = up.told(&["job", "explain", &second]);
    assert!(why.contains(&format!("it depends on job {first} (queued), which must end first")), "{why}");
    let found = up.told(&["job", "list", "--owner", "me", "--tag", "blue", "--fields", "id"]);
    assert!(found.lines().any(|line| line.trim() == first), "{found}");
    let late = up.run(&["group", "wait", &id, "--timeout", "1s"]);
    assert_eq!(late.status.code(), Some(102));
    assert!(text(&late.stderr).contains(&format!("jobhall group close {id}")), "{}", text(&late.stderr));
    let cancelled = up.told(&["group", "cancel", &id, "--reason", "wrong"]);
    assert!(cancelled.contains("wrong"), "{cancelled}");
    assert_eq!(up.run(&["group", "wait", &id]).status.code(), Some(101));
    let unknown = up.run(&["group", "show", "999999"]);
    assert_eq!(unknown.status.code(), Some(5));
    assert!(text(&unknown.stderr).contains("jobhall group list"), "{}", text(&unknown.stderr));
    let closed = up.run(&["job", "submit", "nobody", "--group", &id]);
    assert_eq!(closed.status.code(), Some(6), "{}", text(&closed.stderr));
    let gone = up.run(&["job", "submit", "nobody", "--after", &first]);
    assert_eq!(gone.status.code(), Some(6));
    assert!(text(&gone.stderr).contains("--after-any"), "{}", text(&gone.stderr));
}

#[test]
fn ground_3_ground_13_groups_are_listed_by_tag_and_owner_and_stopped_as_failed() {
    let up = start();
    let create = |words: &[&str]| {
        let all = [&["group", "create", "--fields", "id"], words].concat();
        up.told(&all).trim().to_owned()
    };
    let mine = create(&["--owner", "me", "--tag", "x"]);
    create(&["--owner", "you", "--tag", "x"]);
    let listed = up.told(&["group", "list", "--tag", "x", "--owner", "me", "--fields", "id"]);
    assert_eq!(listed.split_whitespace().last(), Some(mine.as_str()), "{listed}");
    up.told(&["job", "submit", "nobody", "--group", &mine]);
    up.told(&["group", "cancel", &mine, "--fail", "--reason", "too many failures"]);
    assert_eq!(up.run(&["group", "wait", &mine]).status.code(), Some(100), "it has failed");
}
