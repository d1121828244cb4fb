//! Output of jobs with the shipped binary: artifacts, results, and logs with separate streams.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A server in a separate process, stopped on drop.
struct Hall {
    child: Child,
    url: String,
    folder: tempfile::TempDir,
}

impl Hall {
    /// A server with its local worker.
    fn up() -> Hall {
        Hall::start(&["up", "--slots", "1"])
    }

    fn start(words: &[&str]) -> Hall {
        let folder = tempfile::tempdir().unwrap();
        let mut command = jobhall(words);
        command.args(["--listen", "127.0.0.1:0", "--data"]).arg(folder.path().join("data"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("jobhall is up: ").expect("the link").to_owned();
        Hall { child, url, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = jobhall(words);
        command.env("JOBHALL_SERVER", &self.url).env("JOBHALL_DATA", self.path("data")).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a script as a job to its end.
    fn job(&self, script: &str) -> Output {
        let params = json!({ "script": script }).to_string();
        self.run(&["job", "submit", "exec", "--max-attempts", "1", "--params", &params, "--wait"])
    }

    fn names(&self, id: &str) -> Vec<String> {
        let list = self.json(&["job", "artifacts", id, "--json"]);
        list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the worker of this hall runs.
    fn wait_for_worker(&self) -> i32 {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            for process in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
                let words = text(&fs::read(process.path().join("cmdline")).unwrap_or_default());
                if words.contains("\0worker\0") && words.contains(&self.url) {
                    return process.file_name().to_str().unwrap().parse().unwrap();
                }
            }
            assert!(Instant::now() < end, "no worker");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
            let _ = rustix::process::kill_process(pid, signal);
        }
        let _ = self.child.wait();
    }
}

fn jobhall(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobhall"));
    for name in ["JOBHALL_SERVER", "JOBHALL_TOKEN", "JOBHALL_DATA", "JOBHALL_TOKEN_FILE", "JOBHALL_LEASE"] {
        command.env_remove(name);
    }
    command.env("XDG_RUNTIME_DIR", "/proc/none").env("XDG_STATE_HOME", "/proc/none");
    command.env("NO_COLOR", "1").args(words);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_a_job_leaves_in_its_output_is_kept_also_when_it_failed() {
    let hall = Hall::up();
    let all: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    fs::write(hall.path("all"), &all).unwrap();
    let script = format!(
        "cd $JOBHALL_OUTPUT; mkdir -p report/deep; echo page > report/deep/index.html; cp {} bytes; : > empty;
         ln -s /etc/passwd link; echo x > 'a:b'; echo x > result; mkfifo pipe; exit 3",
        hall.path("all").display()
    );
    assert_eq!(hall.job(&script).status.code(), Some(100), "it failed");
    assert_eq!(hall.names("1"), ["bytes", "empty", "report/deep/index.html"]);
    let log = text(&hall.run(&["job", "log", "1"]).stdout);
    for (name, why) in
        [("link", "symbolic link"), ("a:b", "':'"), ("result", "JOBHALL_RESULT"), ("pipe", "plain file")]
    {
        let line = log.lines().find(|line| line.contains(&format!("artifact \"{name}\" was not kept")));
        assert!(line.is_some_and(|line| line.contains(why)), "{name}: {log}");
    }

    assert!(hall.run(&["job", "artifact", "1", "bytes"]).stdout == all, "to a pipe");
    let file = hall.path("here.bin");
    let output = hall.run(&["job", "artifact", "1", "bytes", "-o", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read(&file).unwrap() == all, "to a file");
    let page = hall.run(&["job", "artifact", "1", "report/deep/index.html", "--attempt", "1-1"]);
    assert_eq!(text(&page.stdout), "page\n");
    assert!(text(&hall.run(&["job", "artifacts", "1"]).stdout).contains("text/html"));
    let none = hall.run(&["job", "artifact", "1", "none", "-o", hall.path("none").to_str().unwrap()]);
    assert_eq!(none.status.code(), Some(5), "{}", text(&none.stderr));
    let left: Vec<_> =
        fs::read_dir(hall.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "no part of a file is left: {left:?}");
}

#[test]
fn a_download_that_is_not_what_was_kept_leaves_no_file() {
    let hall = Hall::up();
    hall.job("echo right > $JOBHALL_OUTPUT/a");
    let digest = hall.json(&["job", "artifacts", "1", "--json"])[0]["digest"].as_str().unwrap().to_owned();
    let blob = hall.path("data/blobs/objects").join(&digest[..2]).join(&digest[2..]);
    fs::write(blob, "wrong\n").unwrap();
    let file = hall.path("a");
    let output = hall.run(&["job", "artifact", "1", "a", "-o", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("damaged"), "{}", text(&output.stderr));
    assert!(!file.exists());
}

#[test]
fn a_result_is_a_value_where_it_is_small_json_and_an_artifact_otherwise() {
    let hall = Hall::up();
    for script in [
        "echo '{\"n\": 1}' > $JOBHALL_RESULT",
        "echo no json > $JOBHALL_RESULT",
        "printf '\"%0100000d\"' 7 > $JOBHALL_RESULT",
        "printf '\\377' > $JOBHALL_RESULT",
    ] {
        let output = hall.job(script);
        assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    }
    let show = |id: &str| hall.json(&["job", "show", id, "--json"]);
    assert_eq!(show("1")["result"], json!({"n": 1}));
    assert!(hall.names("1").is_empty());
    for (id, kind, size) in [
        ("2", "text/plain; charset=utf-8", 8),
        ("3", "application/json", 100_002),
        ("4", "application/octet-stream", 1),
    ] {
        let job = show(id);
        assert_eq!(job["result"], Value::Null);
        let artifact = &job["result_artifact"];
        assert_eq!(
            (artifact["media_type"].as_str(), artifact["size"].as_u64()),
            (Some(kind), Some(size)),
            "{job}"
        );
    }
    assert!(text(&hall.run(&["job", "show", "3"]).stdout).contains("artifact result: 100002 bytes"));
    assert_eq!(hall.run(&["job", "artifact", "4", "result"]).stdout, b"\xff");
}

#[test]
fn logs_tell_their_streams() {
    let hall = Hall::up();
    let run = hall.run(&["run", "--", "sh", "-c", "echo out; echo err >&2; printf '\\377\\n'"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert_eq!(run.stdout, b"out\n\xff\n", "standard output only, unchanged");
    assert!(text(&run.stderr).contains("err\n"), "{}", text(&run.stderr));

    let log = |words: &[&str]| hall.run(&[&["job", "log", "1"], words].concat()).stdout;
    let whole = log(&[]);
    assert!(whole.len() == 10 && whole.windows(4).any(|part| part == b"err\n"), "{}", text(&whole));
    assert_eq!(log(&["--stream", "stderr"]), b"err\n");
    assert_eq!(log(&["--stream", "stdout", "-f"]), b"out\n\xff\n");
    let stamped = text(&log(&["--timestamps", "--stream", "stderr"]));
    let (at, line) = stamped.split_once(' ').unwrap();
    assert_eq!(line, "err\n");
    assert!(at.parse::<jobhall_protocol::Timestamp>().is_ok(), "{at}");
    let frames = text(&log(&["--jsonl"]));
    let frames: Vec<jobhall_protocol::LogFrame> =
        frames.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().unwrap()).collect();
    assert_eq!(bytes, whole, "all frames are the whole log");
    assert_eq!(hall.run(&["job", "log", "1", "--stream", "both"]).status.code(), Some(2));
}

/// Takes the one queued job as a worker of its own.
fn taken(
    hall: &Hall,
    runtime: &tokio::runtime::Runtime,
) -> (jobhall_client::Client, jobhall_protocol::Assigned) {
    let token = fs::read_to_string(hall.path("data/admin.token")).unwrap();
    let client = jobhall_client::Client::new(&hall.url, Some(token.trim())).unwrap();
    let vacancy = jobhall_protocol::Vacancy { wait_s: 20, ..jobhall_protocol::Vacancy::default() };
    let given = runtime.block_on(client.vacancies(&vacancy)).unwrap().attempts.remove(0);
    (client, given)
}

#[test]
fn ground_10_notes_are_printed_and_followed() {
    let hall = Hall::start(&["server"]);
    hall.run(&["job", "submit", "mine"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, given) = taken(&hall, &runtime);
    let lease = jobhall_client::AttemptRef { attempt: &given.id, lease: &given.lease };
    let append = |stream, offset, bytes: &'static str| {
        runtime.block_on(client.append_log(lease, stream, offset, bytes.into())).unwrap()
    };
    append(jobhall_client::Stream::Stdout, 0, "{\"output\":1}\n");
    append(jobhall_client::Stream::Note, 0, "{\"phase\":1}\n");
    let notes = |words: &[&str]| text(&hall.run(&[&["job", "log", "1", "--notes"], words].concat()).stdout);
    assert_eq!(notes(&[]), "{\"phase\":1}\n");
    let mut follower =
        hall.command(&["job", "log", "1", "--notes", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "{\"phase\":1}");
    append(jobhall_client::Stream::Note, 12, "{\"phase\":2}\n");
    assert_eq!(lines.next().unwrap().unwrap(), "{\"phase\":2}");
    let report = json!({"outcome": "succeeded"});
    let report: jobhall_protocol::OutcomeReport = serde_json::from_value(report).unwrap();
    runtime.block_on(client.outcome(lease, &report)).unwrap();
    assert!(lines.next().is_none(), "it ends with the job");
    assert!(follower.wait().unwrap().success());
    let stamped = notes(&["--timestamps"]);
    assert!(stamped.lines().count() == 2 && stamped.ends_with(" {\"phase\":2}\n"), "{stamped}");
    let frame: Value = serde_json::from_str(notes(&["--jsonl"]).lines().nth(1).unwrap()).unwrap();
    assert_eq!((frame["stream"].as_str(), frame["offset"].as_u64()), (Some("note"), Some(12)));
    for more in [["--stream", "stdout"], ["--tail", "5"]] {
        assert_eq!(hall.run(&[&["job", "log", "1", "--notes"][..], &more].concat()).status.code(), Some(2));
    }
    assert_eq!(hall.run(&["job", "log", "1"]).stdout, b"{\"output\":1}\n");
}

/// The process of a job prints lines that look like notes, and asks for one with its token.
#[test]
fn ground_10_no_process_writes_a_note() {
    let hall = Hall::up();
    let script = "echo '{\"note\":1}'; echo '{\"note\":2}' >&2
        curl -s -o /dev/null -w '%{http_code}' --data-binary '{}\n' -H \"Authorization: Bearer $JOBHALL_TOKEN\" \\
            \"$JOBHALL_SERVER/api/v1/attempts/$JOBHALL_JOB-$JOBHALL_CLAIM/log?stream=note\"";
    let output = hall.job(script);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(hall.run(&["job", "log", "1", "--notes"]).stdout, b"");
    let log = text(&hall.run(&["job", "log", "1"]).stdout);
    assert!(log.contains("{\"note\":1}") && log.contains("{\"note\":2}") && log.contains("403"), "{log}");
}

/// A worker written as a shell script stores a file with its lease.
#[test]
fn a_file_is_put_from_inside_a_job() {
    let hall = Hall::start(&["server"]);
    hall.run(&["job", "submit", "mine"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (_, given) = taken(&hall, &runtime);
    let content = "kept\n".repeat(3_000_000);
    fs::write(hall.path("file"), &content).unwrap();
    let put = |lease: &str, words: &[&str]| {
        let mut command = hall.command(&["artifact", "put"]);
        command.args(words).current_dir(hall.folder.path()).env("JOBHALL_LEASE", lease);
        command.env("JOBHALL_JOB", "1").env("JOBHALL_CLAIM", "1").output().unwrap()
    };
    let output = put(&given.lease, &["logs/all.txt", "file", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let kept: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((kept["size"].as_u64(), kept["attempt"].as_str()), (Some(15_000_000), Some("1-1")));
    assert!(hall.run(&["job", "artifact", "1", "logs/all.txt"]).stdout == content.as_bytes());
    for name in ["../up", "a/../../b", "..", ".", "", "a:b", "-x/.."] {
        let output = put(&given.lease, &["--", name, "file"]);
        assert_eq!(output.status.code(), Some(2), "{name:?}: {}", text(&output.stderr));
    }
    assert_eq!(hall.names("1"), ["logs/all.txt"]);
    let stranger = put(&"0".repeat(32), &["a", "file"]);
    assert_eq!(stranger.status.code(), Some(6), "{}", text(&stranger.stderr));
    assert_eq!(put(&given.lease, &["a", "no such file"]).status.code(), Some(2));
    let outside = hall.run(&["artifact", "put", "a", "file"]);
    assert!(text(&outside.stderr).contains("not inside a job"), "{}", text(&outside.stderr));
}

/// The peak memory of a process, in KiB.
fn peak(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn large_output_and_large_artifacts_grow_neither_hall_nor_worker() {
    let hall = Hall::up();
    let (server, worker) = (hall.child.id().cast_signed(), hall.wait_for_worker());
    let leave = |mib: u32| {
        let mib = format!("{mib}M");
        let script = format!(
            "head -c {mib} /dev/zero | tee $JOBHALL_OUTPUT/zeros; head -c {mib} /dev/zero > $JOBHALL_RESULT"
        );
        let output = hall.job(&script);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    leave(2);
    let before = [server, worker].map(peak);
    leave(200);
    let grown = [server, worker].map(peak);
    for (name, before, grown) in [("hall", before[0], grown[0]), ("worker", before[1], grown[1])] {
        let more = grown.saturating_sub(before) / 1_024;
        assert!(more <= 64, "the {name} grew by {more} MiB");
    }
    let size = hall.json(&["job", "artifacts", "2", "--json"])[1]["size"].as_u64();
    assert_eq!(size, Some(200 << 20));
    let result = hall.json(&["job", "show", "2", "--json"])["result_artifact"]["size"].as_u64();
    assert_eq!(result, Some(200 << 20));
    let file = hall.path("zeros");
    hall.run(&["job", "artifact", "2", "zeros", "-o", file.to_str().unwrap()]);
    assert_eq!(fs::metadata(&file).unwrap().len(), 200 << 20);
    let downloaded = peak(server);
    assert!(downloaded.saturating_sub(before[0]) >> 10 <= 64, "a download needs no more memory either");
}
