//! Inspection of a hall with the shipped binary: its log, queues, statistics, and the doctor.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

/// A server in a separate process whose standard error is written to a file; stopped on drop.
struct Hall {
    child: Child,
    url: String,
    data: PathBuf,
    folder: tempfile::TempDir,
}

impl Hall {
    fn start(words: &[&str]) -> Hall {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let errors = File::create(folder.path().join("stderr")).unwrap();
        let mut child = jobhall()
            .args(words)
            .args(["--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("jobhall is up: ").expect("the link").to_owned();
        Hall { child, url, data, folder }
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = jobhall();
        command.args(words).env("JOBHALL_SERVER", &self.url).env("JOBHALL_DATA", &self.data);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Sends a request without a token, with this request id.
    fn get(&self, path: &str, id: &str) -> String {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nX-Request-Id: {id}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The standard error of the server and its worker.
    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).unwrap()
    }

    /// The lines of a JSON log; each must have the common fields, and there must be no other output.
    fn lines(&self) -> Vec<Map<String, Value>> {
        let said = self.said();
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        let parse = |line: &str| -> Map<String, Value> {
            let line: Map<String, Value> =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            for key in ["time", "level", "target", "message"] {
                assert!(line.get(key).is_some_and(Value::is_string), "{key}: {line:?}");
            }
            line
        };
        whole.lines().map(parse).collect()
    }

    /// Waits for a line of the log with these fields.
    fn logged(&self, fields: &[(&str, Value)]) -> Map<String, Value> {
        let has = |line: &Map<String, Value>| fields.iter().all(|(key, value)| line.get(*key) == Some(value));
        let mut found = None;
        eventually(&format!("a line with {fields:?} in {}", self.said()), || {
            found = self.lines().into_iter().find(has);
            found.is_some()
        });
        found.unwrap()
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn jobhall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobhall"));
    let names = ["SERVER", "TOKEN", "DATA", "TOKEN_FILE", "LOG", "LOG_FORMAT"];
    for name in names {
        command.env_remove(format!("JOBHALL_{name}"));
    }
    command.env("XDG_RUNTIME_DIR", "/proc/none").env("XDG_STATE_HOME", "/proc/none");
    command.env("NO_COLOR", "1");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for a condition, with a generous deadline.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_log_in_json_tells_requests_and_jobs_and_no_secrets() {
    let hall = Hall::start(&["up", "--slots", "1", "--log", "debug", "--log-format", "json"]);
    let params = r#"{"script":"echo out-hunter2; exit 3","env":{"PASSWORD":"env-hunter2"}}"#;
    let output = hall.run(&["job", "submit", "exec", "--key", "key-hunter2", "--params", params, "--wait"]);
    assert_eq!(output.status.code(), Some(100), "{}", text(&output.stderr));
    let [job, attempt] = [Value::from(1), Value::from("1-1")];
    let line = |words: &str| ("message", Value::from(words));
    let submitted = hall.logged(&[line("job submitted"), ("job", job.clone()), ("level", "info".into())]);
    assert_eq!((&submitted["type"], &submitted["queue"]), (&"exec".into(), &"default".into()));
    let of_attempt = [("job", job.clone()), ("attempt", attempt.clone()), ("worker", "local".into())];
    hall.logged(&[[line("attempt assigned")].as_slice(), &of_attempt].concat());
    let end = [("outcome", Value::from("failed")), ("state", "failed".into()), ("level", "info".into())];
    hall.logged(&[[line("job completed")].as_slice(), &of_attempt, &end].concat());
    let end = [("outcome", Value::from("failed")), ("target", "jobhall_worker::attempt".into())];
    hall.logged(&[[line("attempt ended"), ("job", job), ("attempt", attempt)].as_slice(), &end].concat());

    let route = [("route", Value::from("/api/v1/jobs")), ("method", "POST".into()), ("status", 200.into())];
    let request = hall.logged(&[[line("request"), ("who", "admin".into())].as_slice(), &route].concat());
    assert!(request["request_id"].is_string() && request["took_ms"].is_u64(), "{request:?}");
    assert_eq!(request["level"], "debug");
    hall.get("/livez", "trace-41");
    let open = hall.logged(&[line("request"), ("request_id", "trace-41".into())]);
    assert_eq!((&open["who"], &open["route"]), (&"".into(), &"/livez".into()));

    let said = hall.said();
    let token = std::fs::read_to_string(hall.data.join("admin.token")).unwrap();
    for secret in [token.trim(), "jh_", "hunter2"] {
        assert!(!said.contains(secret), "{secret} is in the log: {said}");
    }
    // A lease has 32 hex digits, the secret of a token 64; nothing else is that long.
    let longest = said.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
    assert!(longest < Some(32), "{said}");
}

#[test]
fn every_line_within_a_request_has_its_id() {
    let hall = Hall::start(&["server", "--log-format", "json"]);
    assert!(hall.get("/readyz", "trace-1").starts_with("HTTP/1.1 200"));
    let aside = hall.data.with_extension("aside");
    std::fs::rename(&hall.data, &aside).unwrap();
    assert!(hall.get("/readyz", "trace-2").starts_with("HTTP/1.1 503"));
    std::fs::rename(&aside, &hall.data).unwrap();
    let words = [("message", "not ready".into()), ("request_id", "trace-2".into())];
    let line = hall.logged(&[words.as_slice(), &[("check", "disk room".into())]].concat());
    assert_eq!(line["level"], "warn");
    // A reader of the store that starts at that time also finds no file; nothing else logs a warning.
    let of_request =
        |line: &Map<String, Value>| words.iter().all(|(name, value)| line.get(*name) == Some(value));
    assert!(hall.lines().iter().all(of_request), "{}", hall.said());
}

#[test]
fn a_log_in_text_is_as_loud_as_it_should_be() {
    let hall = Hall::start(&["up", "--slots", "1", "--log", "info"]);
    assert!(hall.run(&["run", "--", "true"]).status.success());
    eventually("the end of the job", || {
        hall.said().contains("job completed job=1 attempt=1-1 worker=local outcome=succeeded")
    });
    assert!(!hall.said().contains("DEBUG"), "{}", hall.said());
    let output = jobhall().args(["server", "--log", "loud"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("debug"), "it lists the valid levels: {}", text(&output.stderr));
    let output = jobhall().args(["worker", "list"]).env("JOBHALL_LOG", "inf").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean \"info\"?"), "{}", text(&output.stderr));
}

#[test]
fn queues_and_figures_are_shown() {
    let hall = Hall::start(&["up", "--slots", "1"]);
    assert!(hall.run(&["run", "--", "true"]).status.success());
    let submit = [
        "job",
        "submit",
        "exec",
        "--queue",
        "later",
        "--needs",
        "gpu>=1",
        "--params",
        "{\"argv\":[\"true\"]}",
    ];
    assert!(hall.run(&submit).status.success());
    let queues = hall.json(&["queue", "list", "--json"]);
    let names: Vec<_> = queues.as_array().unwrap().iter().map(|queue| queue["name"].clone()).collect();
    assert_eq!(names, ["default", "later"]);
    let shown = text(&hall.run(&["queue", "list"]).stdout);
    let row: Vec<_> = shown.lines().last().unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row[2]), ("later", "1", "1"), "{shown}");
    let shown = text(&hall.run(&["queue", "show", "later"]).stdout);
    assert!(shown.contains("queued     1") && shown.contains("ready      1"), "{shown}");
    let missing = hall.run(&["queue", "show", "elsewhere"]);
    assert_eq!(missing.status.code(), Some(5), "{}", text(&missing.stderr));

    let stats = hall.json(&["stats", "--json"]);
    assert_eq!(
        (stats["jobs"]["queued"].as_u64(), stats["totals"]["completed"]["succeeded"].as_u64()),
        (Some(1), Some(1))
    );
    assert_eq!(stats["token"]["role"].as_str(), Some("admin"));
    assert_eq!(stats["kept"]["jobs"].as_u64(), Some(1), "{stats}");
    assert_eq!(stats["kept"]["types"], serde_json::json!([{"type": "exec", "jobs": 1}]));
    assert_eq!(stats["kept"]["retention"]["keep_count"].as_u64(), Some(1_000_000));
    assert!(stats["disk"]["blob_bytes"].as_u64().is_some(), "{stats}");
    let shown = text(&hall.run(&["stats"]).stdout);
    for part in [
        "kept         1 completed jobs: 1 exec",
        "retention    completed jobs are kept for 30d, at most 1000000 of each type",
        ", blobs ",
        "open jobs    1 queued",
        "submitted    2 since start",
        "completed    1 succeeded",
        "run          p50 ",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(hall.run(&["stats", "--watch"]).status.code(), Some(2), "a pipe cannot be redrawn");
}

#[test]
fn figures_can_be_watched_as_lines() {
    let hall = Hall::start(&["server"]);
    let mut command = jobhall();
    command.args(["stats", "--watch", "--jsonl", "--fields", "uptime_ms"]);
    command.env("JOBHALL_SERVER", &hall.url).env("JOBHALL_DATA", &hall.data);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut uptime = || {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        line["uptime_ms"].as_u64().unwrap()
    };
    let (first, second) = (uptime(), uptime());
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(second > first, "{first} {second}");
}

#[test]
fn workers_are_shown_with_their_slots_and_jobs() {
    let hall = Hall::start(&["up", "--slots", "2"]);
    let params = "{\"script\":\"echo ready; sleep 600\"}";
    assert!(hall.run(&["job", "submit", "exec", "--params", params]).status.success());
    eventually("its output", || text(&hall.run(&["job", "log", "1"]).stdout).contains("ready"));
    let row = || {
        let shown = text(&hall.run(&["worker", "list"]).stdout);
        shown.lines().last().unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    eventually("the second slot", || row().starts_with(&["local", "busy", "1", "1", "1"].map(str::to_owned)));
    let shown = hall.json(&["worker", "show", "local", "--json"]);
    assert_eq!((shown["name"].as_str(), shown["slots"].as_u64()), (Some("local"), Some(1)));
    let unknown = hall.run(&["worker", "show", "locl"]);
    assert_eq!(unknown.status.code(), Some(5));
    assert!(text(&unknown.stderr).contains("local"), "{}", text(&unknown.stderr));
    hall.run(&["job", "cancel", "1"]);
    hall.run(&["job", "wait", "1"]);
}

#[test]
fn short_commands_do_the_same_as_the_long_ones() {
    let hall = Hall::start(&["up", "--slots", "2"]);
    let params = "{\"script\":\"echo ready; sleep 600\"}";
    assert!(hall.run(&["submit", "exec", "--params", params]).status.success());
    eventually("its output", || text(&hall.run(&["logs", "1"]).stdout).contains("ready"));
    assert!(
        hall.run(&["submit", "exec", "--needs", "gpu>=9", "--params", "{\"argv\":[\"true\"]}"])
            .status
            .success()
    );
    let ids = |words: &[&str]| -> Vec<u64> {
        let jobs = hall.json(words);
        jobs.as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect()
    };
    assert_eq!(ids(&["ls", "--json"]), ids(&["job", "list", "--json"]));
    assert_eq!(ids(&["ps", "--json"]), [1], "only what a worker has");
    assert_eq!(ids(&["ps", "--state", "queued", "--json"]), [2]);
    for (short, long) in [(["status"].as_slice(), ["stats"].as_slice()), (&["workers"], &["worker", "list"])]
    {
        let (short, long) = (hall.run(short), hall.run(long));
        let first = |output: &Output| text(&output.stdout).lines().next().map(str::to_owned);
        assert!(short.status.success() && first(&short).is_some());
        assert_eq!(first(&short), first(&long));
    }
    hall.run(&["job", "cancel", "1", "2"]);
    hall.run(&["job", "wait", "1", "2"]);
}

#[test]
fn the_doctor_knows_a_hall_that_is_well_and_one_without_a_worker() {
    let verdicts = |hall: &Hall| {
        let checks = hall.json(&["doctor", "--json"]);
        let all = checks.as_array().unwrap().iter();
        all.map(|check| {
            (check["check"].as_str().unwrap().to_owned(), check["verdict"].as_str().unwrap().to_owned())
        })
        .collect::<Vec<_>>()
    };
    let hall = Hall::start(&["up", "--slots", "1"]);
    eventually("the worker", || {
        verdicts(&hall).iter().any(|(check, verdict)| check == "workers" && verdict == "ok")
    });
    let found = verdicts(&hall);
    let names: Vec<_> = found.iter().map(|(check, _)| check.as_str()).collect();
    let all = ["server", "ready", "clock", "files", "token", "version", "disk", "workers", "retention"];
    assert_eq!(names, all);
    for (check, verdict) in found.iter().filter(|(check, _)| !["files", "disk"].contains(&check.as_str())) {
        assert_eq!(verdict, "ok", "{check}");
    }
    let told = text(&hall.run(&["doctor"]).stdout);
    assert!(told.contains("accepted as admin, role admin"), "{told}");
    let wrong = jobhall()
        .args(["doctor", "--json"])
        .env("JOBHALL_SERVER", &hall.url)
        .env("JOBHALL_TOKEN", "jh_wrong")
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(4), "{}", text(&wrong.stdout));
    let alone = Hall::start(&["server"]);
    assert!(verdicts(&alone).contains(&("workers".to_owned(), "warning".to_owned())));
}
