//! `jobhall job explain` with the shipped binary: for each cause its exact words and what to do.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::process::{Child, Stdio};

use up::{Up, end, eventually};

fn start(command: &str) -> Up {
    Up::start(tempfile::tempdir().unwrap(), command, &["--listen", "127.0.0.1:0"])
}

fn submit(up: &Up, words: &[&str]) -> String {
    let all = [&["job", "submit"], words, &["--fields", "id"]].concat();
    up.told(&all).trim().to_owned()
}

fn script(up: &Up, script: &str, words: &[&str]) -> String {
    let params = serde_json::json!({ "script": script }).to_string();
    submit(up, &[&["exec", "--params", &params], words].concat())
}

fn explain(up: &Up, id: &str) -> String {
    up.told(&["job", "explain", id])
}

fn state(up: &Up, id: &str) -> String {
    up.told(&["job", "show", id, "--fields", "state"]).trim().to_owned()
}

/// The text with each time replaced by `TIME`.
fn timeless(text: &str) -> String {
    let word = |word: &str| {
        let time = word.trim_end_matches([',', ';']);
        let is_time = time.len() == 24 && time.ends_with('Z') && time.contains('T');
        if is_time { word.replace(time, "TIME") } else { word.to_owned() }
    };
    let lines = text.lines().map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// A worker of its own, killed on drop.
struct Worker(Child);

impl Worker {
    fn start(up: &Up, name: &str) -> Worker {
        let secret = up.told(&["token", "create", name, "--role", "worker"]);
        let mut command = up.command(&["worker", "--name", name, "--slots", "1", "--allow", "exec"]);
        command.env("JOBHALL_TOKEN", secret.trim()).stdout(Stdio::null()).stderr(Stdio::null());
        Worker(command.spawn().unwrap())
    }

    /// Ends it without warning.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

#[test]
fn a_failed_job_and_those_that_depend_on_it() {
    let up = start("up");
    let failed = script(&up, "sleep 1; exit 7", &[]);
    let after = submit(&up, &["exec", "--params", r#"{"argv":["true"]}"#, "--after", &failed]);
    eventually("the end", || state(&up, &after) == "failed");
    let expected = format!(
        "job {failed} is ✗ failed\n  - attempt 1 of 1 failed: exit_7: exit code 7\n    \
         fix: see `jobhall job log {failed}`; run it again with `jobhall job retry {failed}`\n"
    );
    assert_eq!(explain(&up, &failed), expected);
    let expected = format!(
        "job {after} is ✗ failed\n  - it depends on job {failed}, which has failed\n    \
         job {failed}: attempt 1 of 1 failed: exit_7: exit code 7\n    \
         fix: see `jobhall job log {failed}`; run it again with `jobhall job retry {failed}`, then run this one with \
         `jobhall job retry {after}`\n"
    );
    assert_eq!(explain(&up, &after), expected);
    let crashed = submit(&up, &["exec", "--params", r#"{"argv":["/no/such/program"]}"#]);
    eventually("the end", || state(&up, &crashed) == "crashed");
    let text = explain(&up, &crashed);
    assert!(text.contains("  - attempt 1 of 1 crashed: "), "{text}");
    assert!(text.contains("/no/such/program"), "{text}");
}

#[test]
fn jobs_without_a_worker_and_behind_others() {
    let up = start("server");
    let first = submit(&up, &["render", "--needs", "gpu>=4", "--queue", "film"]);
    let needs = "no worker is connected; it needs one that runs type render in queue film, with gpu>=4";
    let expected =
        format!("job {first} is ○ queued\n  - {needs}\n    fix: start a worker with `jobhall worker`\n");
    assert_eq!(explain(&up, &first), expected);
    let second = submit(&up, &["render", "--after", &first]);
    let expected = format!(
        "job {second} is ◌ blocked\n  - it depends on job {first} (queued), which must end first\n    \
         job {first}: {needs}\n    fix: see `jobhall job explain {first}`\n"
    );
    assert_eq!(explain(&up, &second), expected);
    up.told(&["job", "cancel", &first, "--reason", "not needed"]);
    let text = explain(&up, &first);
    assert!(text.contains("  - it was cancelled: not needed\n    fix: run it again with"), "{text}");
    let text = explain(&up, &second);
    assert!(text.contains(&format!("  - it depends on job {first}, which was cancelled\n")), "{text}");
}

#[test]
fn a_type_that_no_worker_runs() {
    let up = start("up");
    eventually("the worker", || up.told(&["worker", "list"]).contains("local"));
    let id = submit(&up, &["nosuchtype"]);
    let expected = format!(
        "job {id} is ○ queued\n  - no worker runs jobs of type nosuchtype (local runs: exec)\n    \
         fix: start a worker that runs this type, or check the type with `jobhall job show {id}`\n"
    );
    assert_eq!(explain(&up, &id), expected);
}

#[test]
fn jobs_in_line_for_a_limit() {
    let up = start("up");
    up.told(&["queue", "set", "slow", "--limit", "rate=1/1h"]);
    up.told(&["queue", "set", "one", "--limit", "concurrency=1"]);
    script(&up, "true", &["--queue", "slow"]);
    let slow: Vec<_> = (0..3).map(|_| script(&up, "true", &["--queue", "slow"])).collect();
    eventually("the line", || explain(&up, &slow[2]).contains("2 jobs are ahead of it"));
    let fix = "    fix: change the limit with `jobhall queue set slow --limit …`";
    let name = "a limit of queue slow allows 1 start per 1h";
    for (id, ahead) in slow.iter().zip(["it is next", "1 job is ahead of it", "2 jobs are ahead of it"]) {
        let expected = format!("job {id} is ○ queued\n  - {name}; {ahead}, expected start TIME\n{fix}");
        assert_eq!(timeless(&explain(&up, id)), expected);
    }
    let start = |id: &String| {
        let told = up.json(&["job", "explain", id, "--json"]);
        told["reasons"][0]["data"]["expected_start"].as_str().unwrap().to_owned()
    };
    let starts: Vec<_> = slow.iter().map(start).collect();
    assert!(starts[0] < starts[1] && starts[1] < starts[2], "{starts:?}");
    let running = script(&up, "sleep 600", &["--queue", "one"]);
    eventually("the start", || state(&up, &running) == "running");
    let one: Vec<_> = (0..2).map(|_| script(&up, "true", &["--queue", "one"])).collect();
    let text =
        format!("a limit of queue one allows 1 at once: 1 taken by job {running}; 1 job is ahead of it\n");
    eventually("the place in line", || explain(&up, &one[1]).contains(&text));
    up.told(&["job", "cancel", &running]);
}

#[test]
fn a_silent_worker_and_a_lost_attempt() {
    let up = start("server");
    let mut worker = Worker::start(&up, "w2");
    let id = script(&up, "echo ready; sleep 600", &[]);
    eventually("the start", || state(&up, &id) == "running");
    let text = explain(&up, &id);
    assert_eq!(text, format!("job {id} is ● running\n  - worker w2 runs it\n"));
    worker.kill();
    eventually("the end of the connection", || explain(&up, &id).contains("no heartbeat"));
    let text = timeless(&explain(&up, &id));
    let (before, after) = ("  - no heartbeat from w2 for ", " s; taken back at TIME unless it returns\n");
    assert!(text.contains(before) && text.contains(after), "{text}");
    assert!(
        text.contains("    fix: check whether worker w2 is alive: see `jobhall worker show w2`"),
        "{text}"
    );
    let shown = timeless(&up.told(&["worker", "show", "w2"]));
    assert!(shown.contains("state       silent\n"), "{shown}");
    assert!(shown.contains("s; its jobs are taken back at TIME unless it returns"), "{shown}");
    // A revoked worker loses its leases at once.
    up.told(&["token", "revoke", "w2"]);
    eventually("the loss", || state(&up, &id) == "retrying");
    let text = timeless(&explain(&up, &id));
    let lost = "  - 1 attempt was lost, the last one on worker w2; it is retried from TIME on; with 3 lost attempts it \
                ends as crashed\n";
    assert!(text.contains(lost), "{text}");
    assert!(text.contains("it needs one that runs type exec in queue default"), "{text}");
    let shown = up.told(&["job", "show", &id]);
    assert!(shown.contains("attempt    0 of 1, 1 lost\n"), "{shown}");
}
