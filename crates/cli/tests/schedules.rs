//! Schedules and windows with the shipped binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A hall with a worker in processes of its own; gone with this.
struct Hall {
    child: Child,
    url: String,
    data: PathBuf,
    _folder: tempfile::TempDir,
}

fn jobhall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobhall"));
    for name in ["SERVER", "TOKEN", "DATA", "TOKEN_FILE", "LOG", "LOG_FORMAT"] {
        command.env_remove(format!("JOBHALL_{name}"));
    }
    command.env("NO_COLOR", "1");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Hall {
    fn start() -> Hall {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut child = jobhall()
            .args(["up", "--slots", "1", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let link = line.trim().strip_prefix("jobhall is up: ").expect("the link");
        let url = link.split("/?").next().unwrap_or(link).to_owned();
        Hall { child, url, data, _folder: folder }
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = jobhall();
        command.args(words).env("JOBHALL_SERVER", &self.url).env("JOBHALL_DATA", &self.data);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Asks again until it is so.
    fn until(&self, words: &[&str], good: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let told = self.json(words);
            if good(&told) {
                return told;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{words:?}: {told}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

#[test]
fn a_schedule_is_set_runs_its_jobs_and_is_paused_and_removed() {
    let hall = Hall::start();
    let params = r#"{"argv":["true"]}"#;
    let made = hall.json(&["schedule", "set", "tick", "--every", "1s", "--type", "exec", "--params", params]);
    assert_eq!((&made["every"], &made["overlap"]), (&json!("1s"), &json!("skip")));
    assert!(made["version"].as_str().unwrap().starts_with("\"1-"));
    let jobs =
        hall.until(&["job", "list", "--state", "succeeded"], |jobs| jobs.as_array().unwrap().len() >= 2);
    assert!(jobs.as_array().unwrap().iter().all(|job| job["schedule"] == "tick"), "{jobs}");
    let paused = hall.json(&["schedule", "pause", "tick"]);
    assert_eq!((&paused["paused"], &paused["next_tick"]), (&json!(true), &Value::Null));
    assert!(text(&hall.run(&["schedule", "list"]).stdout).contains("paused"));
    assert_eq!(hall.json(&["schedule", "next", "tick", "--count", "3"]).as_array().unwrap().len(), 3);
    let resumed = hall.json(&["schedule", "resume", "tick"]);
    assert!(resumed["next_tick"].is_string());
    let run = hall.json(&["schedule", "run", "tick"]);
    assert!(run["id"].is_u64(), "{run}");
    assert_eq!(hall.run(&["schedule", "remove", "tick"]).status.code(), Some(0));
    assert_eq!(hall.json(&["schedule", "list"]), json!([]));
}

#[test]
fn what_cannot_be_is_refused_and_what_was_meant_is_suggested() {
    let hall = Hall::start();
    let set =
        ["schedule", "set", "nightly", "--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--type", "report"];
    assert_eq!(hall.run(&set).status.code(), Some(0));
    let shown = text(&hall.run(&["schedule", "show", "nightly"]).stdout);
    assert!(shown.contains("when       0 3 * * * Europe/Berlin\n"), "{shown}");
    for (words, code, said) in [
        (&["schedule", "show", "nightl"][..], 5, "did you mean \"nightly\"?"),
        (&["schedule", "pause", "other"][..], 5, "there is no schedule \"other\""),
        (&["schedule", "remove", "other"][..], 5, "there is no schedule \"other\""),
        (
            &["schedule", "set", "nightly", "--cron", "0 25 * * *"][..],
            2,
            "cron: \"25\" is no hour at column 3",
        ),
        (&["schedule", "set", "nightly", "--zone", "Berlin"][..], 2, "did you mean Europe/Berlin?"),
        (&["schedule", "set", "new", "--type", "t"][..], 2, "a new schedule needs cron or every"),
        (
            &["schedule", "set", "nightly", "--jitter", "1m", "--if-match", "\"9-00000000\""][..],
            6,
            "as version",
        ),
        (
            &["job", "submit", "t", "--window", "9-17"][..],
            2,
            "windows: \"9\" is not a time of day at column 1",
        ),
    ] {
        let output = hall.run(words);
        let said_all = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said_all.contains(said), "{words:?}: {output:?}");
    }
}

#[test]
fn a_job_outside_of_its_window_says_so() {
    let hall = Hall::start();
    // Closed for some of every day; whichever of the two is closed now is asked for.
    let closed = ["00:00-12:00", "12:00-00:00"].map(|window| {
        let made =
            hall.json(&["job", "submit", "exec", "--window", window, "--params", r#"{"argv":["true"]}"#]);
        let id = made["id"].to_string();
        let job = hall.json(&["job", "show", &id]);
        let explained = text(&hall.run(&["job", "explain", &id]).stdout);
        (job["state"] == "scheduled", explained.contains("its windows are closed until"))
    });
    assert!(closed.iter().any(|(scheduled, _)| *scheduled), "one of them is closed");
    assert!(closed.iter().all(|(scheduled, told)| scheduled == told), "{closed:?}");
}
