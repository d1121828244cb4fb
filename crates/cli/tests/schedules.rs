//! Schedules and windows with the shipped binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use serde_json::{Value, json};
use up::{Up, eventually, text};

/// A hall with a worker, and its JSON output.
struct Hall(Up);

impl std::ops::Deref for Hall {
    type Target = Up;

    fn deref(&self) -> &Up {
        &self.0
    }
}

impl Hall {
    fn start() -> Hall {
        let words = ["--slots", "1", "--listen", "127.0.0.1:0"];
        Hall(Up::start(tempfile::tempdir().unwrap(), "up", &words))
    }

    fn json(&self, words: &[&str]) -> Value {
        self.0.json(&[words, &["--json"]].concat())
    }

    /// Repeats the command until the condition holds.
    fn until(&self, words: &[&str], good: impl Fn(&Value) -> bool) -> Value {
        let mut told = Value::Null;
        eventually(&words.join(" "), || {
            told = self.json(words);
            good(&told)
        });
        told
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
            "cron: \"25\" is not a valid hour at column 3",
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
    // Each is closed for part of the day; the one that is closed now is used.
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
