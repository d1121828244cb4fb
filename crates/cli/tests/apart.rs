//! Server and worker of the shipped binary in separate processes, so that either can be killed alone.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};

use up::{eventually, jobhall, marked, text};

struct Apart {
    hall: Child,
    worker: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Apart {
    fn start() -> Apart {
        let folder = tempfile::tempdir().unwrap();
        let (hall, address) = Apart::hall(&folder, "127.0.0.1:0");
        let mut worker = jobhall();
        worker.args(["worker", "--allow", "exec", "--slots", "2", "--name", "apart"]);
        worker
            .env("JOBHALL_SERVER", format!("http://{address}"))
            .env("JOBHALL_DATA", folder.path().join("data"));
        let worker = worker.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Apart { hall, worker, address, folder }
    }

    fn hall(folder: &tempfile::TempDir, listen: &str) -> (Child, String) {
        let mut hall = jobhall();
        hall.args(["server", "--listen", listen, "--data"]).arg(folder.path().join("data"));
        let mut hall = hall.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(hall.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("jobhall is up: http://").expect("the link").to_owned();
        (hall, url)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = jobhall();
        command.args(words).env("JOBHALL_SERVER", format!("http://{}", self.address));
        command.env("JOBHALL_DATA", self.folder.path().join("data")).stdin(Stdio::null()).output().unwrap()
    }

    fn show(&self, id: &str) -> serde_json::Value {
        let output = self.run(&["job", "show", id, "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn submit(&self, script: &str) {
        let params = serde_json::json!({ "script": script }).to_string();
        assert!(self.run(&["job", "submit", "exec", "--params", &params]).status.success());
    }

    /// Kills the server without warning and restarts it at the same address.
    fn kill_hall(&mut self) {
        self.hall.kill().unwrap();
        self.hall.wait().unwrap();
        self.hall = Apart::hall(&self.folder, &self.address).0;
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        for child in [&mut self.worker, &mut self.hall] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_hall_that_is_killed_finds_its_jobs_running_and_each_ends_once() {
    let mut apart = Apart::start();
    let (gate, trail) = (apart.folder.path().join("gate"), apart.folder.path().join("trail"));
    let wait = format!("until test -e {}; do sleep 0.05; done", gate.display());
    let script = format!("echo ran >> {}; echo ready; {wait}; echo end", trail.display());
    apart.submit(&script);
    eventually("its output", || text(&apart.run(&["job", "log", "1"]).stdout).contains("ready"));
    apart.kill_hall();
    // The job continues while the server is down, and after it is back.
    eventually("the worker", || text(&apart.run(&["worker", "list", "--json"]).stdout).contains("\"1-1\""));
    eventually("its state", || apart.show("1")["state"].as_str() == Some("running"));
    std::fs::write(&gate, "").unwrap();
    eventually("its end", || apart.show("1")["state"].as_str() == Some("succeeded"));
    let job = apart.show("1");
    assert_eq!((job["attempt"].as_u64(), job["attempts"].as_array().unwrap().len()), (Some(1), 1));
    assert_eq!(std::fs::read_to_string(&trail).unwrap(), "ran\n", "it ran once");
    assert_eq!(text(&apart.run(&["job", "log", "1"]).stdout), "ready\nend\n", "each byte once");
}

#[test]
fn an_outcome_that_the_hall_did_not_live_to_hear_is_told_to_the_next_one() {
    let mut apart = Apart::start();
    let trail = apart.folder.path().join("trail");
    apart.submit(&format!("echo ready; sleep 1; echo ran >> {}", trail.display()));
    eventually("its output", || text(&apart.run(&["job", "log", "1"]).stdout).contains("ready"));
    apart.hall.kill().unwrap();
    apart.hall.wait().unwrap();
    eventually("the end of the command", || trail.exists());
    apart.hall = Apart::hall(&apart.folder, &apart.address).0;
    eventually("its outcome", || apart.show("1")["state"].as_str() == Some("succeeded"));
    let job = apart.show("1");
    assert_eq!(job["attempts"].as_array().unwrap().len(), 1, "{job}");
    assert_eq!(std::fs::read_to_string(&trail).unwrap(), "ran\n", "it ran once");
}

#[test]
fn a_cancel_reaches_a_job_that_runs_while_its_output_floods() {
    let apart = Apart::start();
    apart.submit("echo ready; while :; do echo more and more and more; done");
    eventually("its output", || text(&apart.run(&["job", "log", "1"]).stdout).contains("ready"));
    assert!(apart.run(&["job", "cancel", "1"]).status.success());
    assert_eq!(apart.run(&["job", "wait", "1"]).status.code(), Some(101));
}

#[test]
fn a_result_that_the_hall_takes_for_no_value_is_an_artifact() {
    let apart = Apart::start();
    let deep = "[".repeat(100) + &"]".repeat(100);
    apart.submit(&format!("echo '{deep}' > $JOBHALL_RESULT"));
    eventually("its end", || apart.show("1")["state"].as_str() == Some("succeeded"));
    let job = apart.show("1");
    assert_eq!(
        (&job["result"], job["result_artifact"]["size"].as_u64()),
        (&serde_json::Value::Null, Some(201))
    );
}

#[test]
fn a_worker_never_has_more_jobs_than_slots_and_does_them_all() {
    let apart = Apart::start();
    let (gate, trail) = (apart.folder.path().join("gate"), apart.folder.path().join("trail"));
    for id in ["1", "2"] {
        apart.submit(&format!("echo ready; until test -e {}; do sleep 0.05; done", gate.display()));
        eventually("its output", || text(&apart.run(&["job", "log", id]).stdout).contains("ready"));
    }
    for _ in 0..12 {
        apart.submit(&format!("echo + >> {0}; sleep 0.1; echo - >> {0}", trail.display()));
    }
    for id in ["3", "14"] {
        assert_eq!(
            apart.show(id)["state"].as_str(),
            Some("queued"),
            "no slot is free, so no job is requested"
        );
    }
    std::fs::write(&gate, "").unwrap();
    eventually("all ends", || apart.show("14")["state"].as_str() == Some("succeeded"));
    eventually("all marks", || std::fs::read_to_string(&trail).unwrap().lines().count() == 24);
    let mut running = 0i32;
    for line in std::fs::read_to_string(&trail).unwrap().lines() {
        running += if line == "+" { 1 } else { -1 };
        assert!((0..=2).contains(&running), "two slots, {running} jobs");
    }
}

#[test]
fn a_worker_that_cannot_reach_the_hall_stops_its_job_before_another_may_have_it() {
    let apart = Apart::start();
    let mark = format!("JOBHALL_TEST_MARK=unreached-{}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let params = serde_json::json!({ "script": "echo ready; sleep 600", "env": { name: value } }).to_string();
    assert!(apart.run(&["job", "submit", "exec", "--params", &params]).status.success());
    eventually("its output", || text(&apart.run(&["job", "log", "1"]).stdout).contains("ready"));
    let hall = rustix::process::Pid::from_raw(apart.hall.id().cast_signed()).unwrap();
    // A server that hangs accepts connections and does not respond.
    rustix::process::kill_process(hall, rustix::process::Signal::STOP).unwrap();
    eventually("the end of its processes", || marked(&mark) == 0);
    rustix::process::kill_process(hall, rustix::process::Signal::CONT).unwrap();
    eventually("the end of the attempt", || apart.show("1")["attempts"][0]["ended_at"].is_string());
    let attempt = apart.show("1")["attempts"][0].clone();
    assert_eq!(attempt["outcome"].as_str(), Some("lost"), "its job did not crash: {attempt}");
}

#[test]
fn a_worker_drains_at_the_first_signal_and_stops_at_the_second() {
    let mut apart = Apart::start();
    let gate = apart.folder.path().join("gate");
    apart.submit(&format!("echo ready; until test -e {}; do sleep 0.05; done", gate.display()));
    apart.submit("echo ready; sleep 600");
    for id in ["1", "2"] {
        eventually("its output", || text(&apart.run(&["job", "log", id]).stdout).contains("ready"));
    }
    let pid = rustix::process::Pid::from_raw(apart.worker.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    std::fs::write(&gate, "").unwrap();
    eventually("the end of the first", || apart.show("1")["state"].as_str() == Some("succeeded"));
    apart.submit("true");
    assert!(apart.worker.try_wait().unwrap().is_none(), "the second is running");
    assert_eq!(apart.show("3")["state"].as_str(), Some("queued"), "no further job is taken");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    eventually("its end", || apart.worker.try_wait().unwrap().is_some());
    // The worker sent a leave, so its lease ends immediately and not when it expires.
    eventually("the end of the lease", || apart.show("2")["state"].as_str() != Some("running"));
}
