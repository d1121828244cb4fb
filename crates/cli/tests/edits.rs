//! Edits of the files of commands, while a worker runs: what is asked for after an edit is never of before it, and what is
//! made from the same bytes is not made again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::fs;
use std::path::Path;
use std::process::Child;

use jobhall_client::{Client, Evaluated};
use serde_json::Value;
use up::{Up, end, eventually, jobhall, text};

/// Each script appends its name to the file `ran`.
const COMMANDS: &str = r#"
[commands.numbers]
run = ["sh", "numbers.sh"]

[commands.sum]
run = ["sh", "sum.sh"]

[commands.label]
run = ["sh", "label.sh", "{text}"]
args = [{ name = "text", default = "x" }]
"#;

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

fn scripts(folder: &Path) {
    write(folder, "numbers.sh", "echo numbers >> ran\nseq 3\n");
    write(folder, "sum.sh", "echo sum >> ran\nawk '{s += $1} END {print s}'\n");
    write(folder, "label.sh", "echo label >> ran\nprintf '%s ' \"$1\"\ncat\n");
}

/// A server whose worker serves a worker file of this name in its directory.
fn start_with(name: &str) -> Up {
    let folder = tempfile::tempdir().unwrap();
    scripts(folder.path());
    write(folder.path(), name, COMMANDS);
    let config = folder.path().join(name);
    let words = ["--config", config.to_str().unwrap(), "--slots", "2", "--listen", "127.0.0.1:0"];
    let up = Up::start(folder, "up", &words);
    until_declared(&up, 3);
    up
}

fn start() -> Up {
    start_with("worker.toml")
}

fn until_declared(up: &Up, count: usize) {
    eventually("the declarations", || {
        up.json(&["query", "commands", "--json"]).as_array().unwrap().len() == count
    });
}

/// The commands that ran, in order.
fn ran(up: &Up) -> Vec<String> {
    let text = fs::read_to_string(up.folder.path().join("ran")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// How the steps of a query were answered.
fn caches(document: &Value) -> Vec<&str> {
    document["steps"].as_array().unwrap().iter().map(|step| step["cache"].as_str().unwrap()).collect()
}

fn client(up: &Up) -> Client {
    let token = fs::read_to_string(up.data().join("admin.token")).unwrap();
    Client::new(&up.url, Some(token.trim())).unwrap()
}

/// The value over HTTP, where the files are not compared.
fn over_http(up: &Up, query: &str) -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match runtime.block_on(client(up).evaluate(query, 60)).unwrap() {
        Evaluated::Value(value) => text(&value.bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn after_each_of_twenty_edits_of_a_cached_chain_the_old_value_is_never_the_answer() {
    let up = start();
    assert_eq!(up.told(&["query", "numbers | sum | label"]), "x 6\n");
    for round in 0..20 {
        let script = format!("echo label >> ran\nprintf '{round:02} '\ncat\n");
        if round % 2 == 0 {
            write(up.folder.path(), "label.sh", &script);
        } else {
            // As an editor does it.
            write(up.folder.path(), ".label.sh.new", &script);
            fs::rename(up.folder.path().join(".label.sh.new"), up.folder.path().join("label.sh")).unwrap();
        }
        assert_eq!(up.told(&["query", "numbers | sum | label"]), format!("{round:02} 6\n"));
        assert_eq!(up.told(&["query", "numbers | sum | label", "--cached"]), format!("{round:02} 6\n"));
    }
    let ran = ran(&up);
    assert_eq!(ran.iter().filter(|name| *name != "label").count(), 2, "{ran:?}");
}

#[test]
fn the_server_learns_of_an_edit_that_nobody_asks_about() {
    let up = start();
    assert_eq!(over_http(&up, "numbers/sum"), "6\n");
    write(up.folder.path(), "sum.sh", "echo sum >> ran\nwc -l\n");
    eventually("the new version", || over_http(&up, "numbers/sum").trim() == "3");
    let known = up.json(&["worker", "list", "--json"]);
    let abilities = known[0]["abilities"].as_str().unwrap();
    let commands = up.json(&["query", "commands", "--json"]);
    for command in commands.as_array().unwrap() {
        let ability =
            format!("{}@{}", command["name"].as_str().unwrap(), command["version"].as_str().unwrap());
        assert!(abilities.contains(&ability), "{ability} of {abilities}");
        assert_eq!(command["workers"], serde_json::json!(["local"]));
    }
}

#[test]
fn who_waits_while_a_script_changes_gets_the_value_of_the_new_one() {
    let up = start();
    let at = |name: &str| up.folder.path().join(name);
    write(
        up.folder.path(),
        "numbers.sh",
        "echo numbers >> ran\nuntil [ -e go ]; do sleep 0.05; done\nseq 3\n",
    );
    let asking = |query: &str| -> Child {
        let mut command = up.command(&["query", query]);
        command.stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    // The later step is queued for the version of now, and the first one runs.
    let asked = asking("numbers | sum | label old");
    eventually("the first step", || ran(&up) == ["numbers"]);
    let version =
        || up.json(&["query", "numbers | sum", "--explain", "--json"])["steps"][1]["version"].clone();
    let old = version();
    write(up.folder.path(), "sum.sh", "echo sum >> ran\nwc -l\n");
    // Who waits may have been planned again by now, or not yet.
    eventually("the new version", || version() != old);
    write(up.folder.path(), "go", "");
    let output = asked.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "old 3\n", "it was planned again");
    assert!(at("go").exists());
    assert_eq!(ran(&up), ["numbers", "sum", "label"], "what had begun was not begun again");
}

#[test]
fn a_step_that_is_made_from_the_same_bytes_again_is_skipped() {
    let up = start();
    let ask = || up.json(&["query", "numbers | sum | label", "--json"]);
    let first = ask();
    assert_eq!((first["value"].as_str(), caches(&first)), (Some("x 6\n"), vec!["computed"; 3]));
    assert_eq!(caches(&ask()), ["hit"; 3]);
    write(up.folder.path(), "numbers.sh", "echo numbers >> ran\n# the first three\nseq 3\n");
    let again = ask();
    assert_eq!(
        (again["value"].as_str(), caches(&again)),
        (Some("x 6\n"), vec!["computed", "skipped", "skipped"])
    );
    assert_eq!(again["cache"], "skipped");
    assert_eq!(ran(&up), ["numbers", "sum", "label", "numbers"], "one line each for those that were skipped");
    let job = again["steps"][1]["job"].to_string();
    assert_eq!(up.json(&["job", "show", &job, "--json"])["attempts"][0]["outcome"], "skipped");
    // Other bytes, of which the step after the next one makes the same again.
    write(up.folder.path(), "numbers.sh", "echo numbers >> ran\nseq 3 -1 1\n");
    assert_eq!(caches(&ask()), ["computed", "computed", "skipped"]);
}

#[test]
fn what_was_made_from_the_same_bytes_is_known_after_a_restart() {
    let mut up = start();
    assert_eq!(up.told(&["query", "numbers | sum"]), "6\n");
    let listen = up.url.strip_prefix("http://").unwrap().to_owned();
    // The record is written after the success.
    write(up.folder.path(), "numbers.sh", "echo numbers >> ran\n# one\nseq 3\n");
    let skipped =
        |up: &Up| caches(&up.json(&["query", "numbers | sum", "--json"])) == ["computed", "skipped"];
    assert!(skipped(&up));
    up.restart(&listen);
    write(up.folder.path(), "numbers.sh", "echo numbers >> ran\n# two\nseq 3\n");
    let worker = Worker::start(&up);
    eventually("the new version", || {
        let known = up.json(&["query", "numbers | sum", "--explain", "--json"]);
        known["steps"][0]["workers"] == serde_json::json!(["w"])
    });
    assert!(skipped(&up), "the records are stored");
    drop(worker);
    assert_eq!(ran(&up).iter().filter(|name| *name == "sum").count(), 1);
}

/// A worker beside a server, ended on drop.
struct Worker(Child);

impl Worker {
    fn start(up: &Up) -> Worker {
        let config = up.folder.path().join("worker.toml");
        let words = ["worker", "--name", "w", "--slots", "2", "--config", config.to_str().unwrap()];
        let mut command = up.command(&words);
        command.env("JOBHALL_TOKEN_FILE", up.data().join("admin.token"));
        Worker(command.stderr(std::process::Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

#[test]
fn explain_says_what_is_stored_what_would_run_and_why_and_runs_nothing() {
    let up = start();
    let explain = || up.json(&["query", "numbers | sum", "--explain", "--json"]);
    let cold = explain();
    assert_eq!(caches(&cold), ["missing", "missing"]);
    assert_eq!(cold["steps"][0]["workers"], serde_json::json!(["local"]));
    let refused = up.run(&["query", "numbers | sum", "--cached"]);
    assert_eq!(refused.status.code(), Some(104), "{}", text(&refused.stderr));
    assert!(ran(&up).is_empty(), "nothing runs");
    up.told(&["query", "numbers | sum"]);
    assert_eq!(caches(&explain()), ["hit", "hit"]);
    write(up.folder.path(), "sum.sh", "echo sum >> ran\nwc -l\n");
    let edited = explain();
    assert_eq!(caches(&edited), ["hit", "missing"]);
    let why = edited["steps"][1]["why"].as_str().unwrap();
    assert!(why.starts_with("sum has another version: "), "{why}");
    let said = up.told(&["query", "numbers | sum", "--explain"]);
    assert!(said.contains("hit, made") && said.contains("would run on local"), "{said}");
    assert_eq!(ran(&up), ["numbers", "sum"]);
}

#[test]
fn a_command_of_the_worker_file_that_is_new_or_changed_counts_at_once() {
    let up = start_with(".jobhall.toml");
    let more = format!("{COMMANDS}\n[commands.twice]\nrun = [\"sh\", \"-c\", \"tee two; cat two\"]\n");
    write(up.folder.path(), ".jobhall.toml", &more);
    until_declared(&up, 4);
    assert_eq!(up.told(&["query", "numbers | twice | sum"]), "12\n");
    let changed = more.replace("tee two; cat two", "cat");
    write(up.folder.path(), ".jobhall.toml", &changed);
    assert_eq!(up.told(&["query", "numbers | twice | sum"]), "6\n");
    // A mistake changes nothing.
    write(up.folder.path(), ".jobhall.toml", "[commands");
    let stale = up.run(&["query", "numbers | twice | sum"]);
    let said = text(&stale.stderr);
    assert_eq!(stale.status.code(), Some(6), "{said}");
    assert!(said.contains("has not declared the change of") && said.contains(".jobhall.toml"), "{said}");
    assert_eq!(over_http(&up, "numbers/twice/sum"), "6\n");
}

#[test]
fn up_serves_the_file_of_the_repository_that_it_is_started_in() {
    let place = tempfile::tempdir().unwrap();
    let inner = place.path().join("src/inner");
    fs::create_dir_all(&inner).unwrap();
    fs::create_dir(place.path().join(".git")).unwrap();
    scripts(place.path());
    write(place.path(), ".jobhall.toml", COMMANDS);
    let up =
        Up::start_in(tempfile::tempdir().unwrap(), &["up", "--no-exec", "--listen", "127.0.0.1:0"], &inner);
    until_declared(&up, 3);
    let said = up.said();
    let file = place.path().join(".jobhall.toml");
    assert!(said.contains(&format!("serves {}: it runs jobs of these types: ", file.display())), "{said}");
    assert_eq!(up.told(&["query", "numbers | sum"]), "6\n");
    write(place.path(), ".jobhall.toml", "[command.a]\nrun = [\"x\"]\n");
    let refused = jobhall().args(["up", "--listen", "127.0.0.1:0"]).current_dir(&inner).output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("did you mean \"commands\"?"), "{said}");
}
