//! The shipped binary as a user runs it: `jobhall up` in a separate process, and commands against it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use up::{Up, end, eventually, jobhall, marked, text};

fn start() -> Up {
    Up::start(tempfile::tempdir().unwrap(), "up", &["--listen", "127.0.0.1:0", "--slots", "2"])
}

#[test]
fn a_command_runs_as_a_job_with_its_log_and_its_verdict() {
    let up = start();
    let output = up.run(&["run", "--", "sh", "-c", "echo out; echo err >&2; exit 0"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("out"));
    let output = up.run(&["run", "--", "sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(100), "the job failed");
    let output = up.run(&["run", "--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(103), "it could not be run");
    assert!(text(&output.stderr).contains("/no/such/program"), "{}", text(&output.stderr));
}

#[test]
fn a_job_that_says_later_is_tried_again_and_its_result_is_kept() {
    let up = start();
    let flag = up.folder.path().join("flag");
    let script = format!(
        "test -e {0} && echo '{{\"n\":2}}' > $JOBHALL_RESULT && exit 0; touch {0}; exit 75",
        flag.display()
    );
    let params = serde_json::json!({ "script": script }).to_string();
    let output = up.run(&["job", "submit", "exec", "--max-attempts", "3", "--params", &params, "--wait"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let job = up.json(&["job", "show", "1", "--json"]);
    assert_eq!((job["state"].as_str(), job["attempt"].as_u64()), (Some("succeeded"), Some(2)));
    assert_eq!(job["result"]["n"].as_u64(), Some(2));
    assert_eq!(job["attempts"][0]["outcome"].as_str(), Some("failed"));
}

#[test]
fn a_job_that_no_worker_suits_is_explained() {
    let up = start();
    let params = "{\"argv\":[\"true\"]}";
    up.run(&["job", "submit", "exec", "--needs", "gpu>=4", "--params", params]);
    eventually("the worker", || text(&up.run(&["worker", "list"]).stdout).contains("local"));
    let words = text(&up.run(&["job", "explain", "1"]).stdout);
    assert!(words.contains("worker local: gpu>=4: this worker has no gpu"), "{words}");
}

#[test]
fn k20_a_cancel_ends_the_whole_tree_of_processes() {
    let up = start();
    let mark = format!("JOBHALL_TEST_MARK={}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let script =
        "trap '' TERM; (setsid sleep 600 &); (sh -c 'trap \"\" TERM; sleep 600' &); echo ready; sleep 600";
    let params = serde_json::json!({ "script": script, "env": { name: value } }).to_string();
    up.run(&["job", "submit", "exec", "--params", &params]);
    eventually("its output", || text(&up.run(&["job", "log", "1"]).stdout).contains("ready"));
    assert!(marked(&mark) >= 3, "the job, its daemon and its child");
    up.run(&["job", "cancel", "1"]);
    let output = up.run(&["job", "wait", "1"]);
    assert_eq!(output.status.code(), Some(101), "cancelled");
    assert_eq!(marked(&mark), 0, "no survivor");
}

#[test]
fn a_worker_that_dies_is_started_again_and_its_job_is_not_lost() {
    let up = start();
    let mark = format!("JOBHALL_TEST_MARK=dies-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let params = serde_json::json!({ "script": "echo ready; sleep 600", "env": { name: value } }).to_string();
    up.run(&["job", "submit", "exec", "--params", &params]);
    eventually("its output", || text(&up.run(&["job", "log", "1"]).stdout).contains("ready"));
    kill_worker(&up.url);
    eventually("the end of its processes", || marked(&mark) == 0);
    let output = up.run(&["run", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "another worker does the next job");
    assert_eq!(
        up.json(&["job", "show", "1", "--json"])["state"].as_str(),
        Some("running"),
        "until its lease expires"
    );
}

/// Kills the worker of this hall without warning.
fn kill_worker(url: &str) {
    for process in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let words = text(&std::fs::read(process.path().join("cmdline")).unwrap_or_default());
        let pid = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(pid) = pid.filter(|_| words.contains("\0worker\0") && words.contains(url)) {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
    }
}

#[test]
fn a_hall_that_stops_finishes_its_job_and_the_next_one_knows_it() {
    let mut up = start();
    up.run(&["job", "submit", "exec", "--params", "{\"script\":\"echo ready; sleep 2; echo end\"}"]);
    eventually("its output", || text(&up.run(&["job", "log", "1"]).stdout).contains("ready"));
    up.restart("127.0.0.1:0");
    let job = up.json(&["job", "show", "1", "--json"]);
    assert_eq!(job["state"].as_str(), Some("succeeded"));
    assert!(text(&up.run(&["job", "log", "1"]).stdout).ends_with("end\n"));
}

#[test]
fn two_halls_never_share_a_directory() {
    let up = start();
    let output =
        jobhall().args(["server", "--listen", "127.0.0.1:0", "--data"]).arg(up.data()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("another server has this store open"), "{said}");
    assert!(said.contains("fix: use the server that runs (`jobhall stats --data "), "{said}");
    let output =
        jobhall().args(["server", "--listen", "0.0.0.0:0", "--data"]).arg(up.data()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "only on this machine without TLS");
}

#[test]
fn a_command_that_no_worker_runs_says_why_it_waits() {
    let up = Up::start(tempfile::tempdir().unwrap(), "up", &["--listen", "127.0.0.1:0", "--no-exec"]);
    let mut command = up.command(&["run", "--", "true"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said: Vec<_> = lines.map(Result::unwrap).take(3).collect();
    end(&mut child);
    assert!(said[1].starts_with("job 1 waits: no worker is connected; "), "{said:?}");
    assert!(said[2].starts_with("  fix: "), "{said:?}");
}

#[test]
fn a_wrong_token_and_a_missing_hall_have_codes_of_their_own() {
    let up = start();
    let output = up.command(&["job", "list"]).env("JOBHALL_TOKEN", "jh_wrong").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let output = up.run(&["job", "show", "999"]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    let output = up.command(&["job", "list"]).env("JOBHALL_SERVER", "http://127.0.0.1:9").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}

#[test]
fn without_a_hall_a_command_runs_on_one_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = jobhall();
        command.args(words).env("XDG_DATA_HOME", home.path()).env("XDG_CONFIG_HOME", home.path());
        command.env("TMPDIR", home.path()).current_dir(home.path()).output().unwrap()
    };
    let output = run(&["run", "--", "sh", "-c", "pwd; exit 4"]);
    assert_eq!(output.status.code(), Some(100), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(home.path().to_str().unwrap()), "it runs here");
    assert!(text(&output.stderr).contains("on an embedded one"), "{}", text(&output.stderr));
    assert_eq!(run(&["run", "--", "true"]).status.code(), Some(0));
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().filter_map(Result::ok).collect();
    assert!(left.is_empty(), "nothing is left: {left:?}");
}

/// The commands in the first part of the README, as a new user would paste them.
#[test]
fn the_lines_of_the_readme_work() {
    let readme =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let (_, from) = readme.split_once("<!-- every line of this block is run by a test -->\n```sh\n").unwrap();
    let lines: Vec<_> = from.split_once("\n```").unwrap().0.lines().collect();
    assert!(lines.len() >= 5, "{lines:?}");
    let up = start();
    let bin = Path::new(env!("CARGO_BIN_EXE_jobhall")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    eventually("the worker", || text(&up.run(&["worker", "list"]).stdout).contains("local"));
    for line in lines {
        let (command, comment) = line.split_once(" # ").expect("a comment says what to expect");
        let output = Command::new("sh")
            .args(["-c", command])
            .env("PATH", &path)
            .env("JOBHALL_SERVER", &up.url)
            .env("JOBHALL_DATA", up.data())
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let all = text(&output.stdout) + &text(&output.stderr);
        let expected = comment.trim().strip_prefix("→ ").expect("the comment begins with →");
        assert!(all.contains(expected), "{command}\nexpected: {expected}\ngot: {all}");
    }
}

/// Submits jobs that match no worker, so that they stay queued.
fn stuck(up: &Up, count: usize) {
    for _ in 0..count {
        up.json(&[
            "job",
            "submit",
            "exec",
            "--needs",
            "gpu>=4",
            "--params",
            "{\"argv\":[\"true\"]}",
            "--json",
        ]);
    }
}

#[test]
fn many_jobs_are_changed_at_once_after_they_were_counted() {
    let up = start();
    stuck(&up, 3);
    let unsure = up.run(&["job", "bulk", "cancel", "--type", "exec"]);
    assert_eq!(unsure.status.code(), Some(2), "there is no terminal for the confirmation");
    let words = text(&unsure.stderr);
    assert!(words.contains("3 jobs match") && words.contains("--yes"), "{words}");
    assert_eq!(up.run(&["job", "bulk", "cancel"]).status.code(), Some(2), "which jobs?");
    let counted = up.json(&["job", "bulk", "cancel", "--all", "--dry-run", "--json"]);
    assert_eq!((counted["total"].as_u64(), counted["done"].as_u64()), (Some(3), Some(0)));
    assert_eq!(up.json(&["job", "list", "--state", "queued", "--json"]).as_array().unwrap().len(), 3);
    let nothing = up.run(&["job", "bulk", "cancel", "--q", "not in any of them", "--yes"]);
    assert_eq!(nothing.status.code(), Some(104), "{}", text(&nothing.stderr));
    let cancelled =
        up.json(&["job", "bulk", "cancel", "--q", "TRUE", "--state", "pending", "--yes", "--json"]);
    assert_eq!((cancelled["state"].as_str(), cancelled["done"].as_u64()), (Some("succeeded"), Some(3)));
    let retried = up.json(&["job", "bulk", "retry", "--state", "cancelled", "--yes", "--json"]);
    assert_eq!(retried["done"].as_u64(), Some(3));
    let deleted = up.json(&["job", "bulk", "delete", "--all", "--yes", "--json"]);
    assert_eq!((deleted["done"].as_u64(), deleted["skipped"].as_u64()), (Some(3), Some(0)));
    let left = up.json(&["job", "list", "--json"]);
    assert!(left.as_array().unwrap().iter().all(|job| job["state"] == "queued"), "{left}");
    let id = deleted["id"].to_string();
    assert_eq!(up.json(&["job", "bulk", "show", &id, "--json"]), deleted);
    assert_eq!(up.run(&["job", "bulk", "stop", &id]).status.code(), Some(6), "it has ended");
    let listed = text(&up.run(&["job", "bulk", "list"]).stdout);
    assert!(listed.contains("delete") && !listed.contains("(dry run)"), "{listed}");
}

#[test]
fn a_wait_outlives_a_restart_of_the_hall() {
    let mut up = start();
    stuck(&up, 2);
    let mut wait = up.command(&["job", "wait", "1", "2"]).stdout(Stdio::null()).spawn().unwrap();
    let address = up.url.trim_start_matches("http://").to_owned();
    eventually("its stream", || metrics(&up, &address).contains("jobhall_live_clients 1"));
    up.restart(&address);
    let output = up.run(&["job", "cancel", "1", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(wait.wait().unwrap().code(), Some(101), "cancelled");
}

fn metrics(up: &Up, address: &str) -> String {
    use std::io::{Read as _, Write as _};
    let token = std::fs::read_to_string(up.data().join("admin.token")).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    write!(stream, "{head}Authorization: Bearer {}\r\n\r\n", token.trim()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_new_hall_has_a_rule_for_completed_jobs_and_it_is_changed() {
    let mut up = start();
    let rule =
        "completed jobs are kept for 30d, at most 1000000 of each type; `jobhall retention set` changes that";
    eventually("the rule is said", || up.said().contains(rule));
    let shown = up.json(&["retention", "show", "--json"]);
    let numbers = ["keep_ms", "keep_count"].map(|field| shown[field].as_u64());
    assert_eq!(numbers, [Some(2_592_000_000), Some(1_000_000)]);
    let set = up.json(&["retention", "set", "--keep", "forever", "--keep-count", "5", "--json"]);
    assert!(set["keep_ms"].is_null() && set["keep_count"].as_u64() == Some(5), "{set}");
    let nothing = up.run(&["retention", "set"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", text(&nothing.stderr));
    let queue = up.json(&["queue", "set", "mail", "--keep", "7d", "--keep-count", "all", "--json"]);
    assert_eq!(queue["keep_ms"].as_u64(), Some(604_800_000));
    assert!(text(&up.run(&["queue", "show", "mail"]).stdout).contains("7d"));
    up.restart("127.0.0.1:0");
    let kept = up.json(&["retention", "show", "--json"]);
    assert_eq!((kept["keep_count"].as_u64(), kept["is_set"].as_bool()), (Some(5), Some(true)));
    assert!(!up.said().contains("completed jobs are kept"), "{}", up.said());
}

#[test]
fn a_type_is_configured_by_version() {
    let up = start();
    let set = up.json(&["type", "set", "mail", "--keep", "7d", "--keep-count", "9", "--json"]);
    assert_eq!((set["keep_ms"].as_u64(), set["keep_count"].as_u64()), (Some(604_800_000), Some(9)));
    let version = set["version"].as_str().unwrap();
    let set = up.json(&["type", "set", "mail", "--keep", "forever", "--if-match", version, "--json"]);
    assert_eq!((set["keep_ms"].as_u64(), set["keep_count"].as_u64()), (Some(3_153_600_000_000), Some(9)));
    assert!(text(&up.run(&["type", "show", "mail"]).stdout).contains("forever"));
    let set = up.json(&["type", "set", "mail", "--keep", "default", "--json"]);
    assert!(set["keep_ms"].is_null(), "{set}");
    let late = up.run(&["type", "set", "mail", "--keep", "1d", "--if-match", version]);
    assert_eq!(late.status.code(), Some(6), "{}", text(&late.stderr));
    assert!(text(&up.run(&["type", "show", "mail"]).stdout).contains(set["version"].as_str().unwrap()));
    assert!(up.run(&["type", "reset", "mail"]).status.success());
    let gone = up.run(&["type", "show", "mial"]);
    assert_eq!(gone.status.code(), Some(5), "{}", text(&gone.stderr));
}
