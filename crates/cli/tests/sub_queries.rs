//! Commands that ask for other queries while they run: shell filters that call `jobhall query`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::fs;
use std::process::Output;

use up::{Up, eventually, text};

/// Every command appends its name to the file `ran`. `HALL` is the program.
const COMMANDS: &str = r#"
allow = ["exec"]

[commands.nest]
run = ["sh", "-c", 'test "$1" = 0 && exec echo 0; below=$("$HALL" query "nest-$(($1 - 1))") || exit; echo $((below + 1))', "nest", "{depth}"]
args = [{ name = "depth", type = "int" }]

[commands.upper]
run = ["sh", "-c", "echo upper >> ran; exec tr a-z A-Z"]

[commands.reads]
run = ["sh", "-c", 'echo reads >> ran; exec "$HALL" query "source:data.txt | upper"']

[commands.later]
run = ["sh", "-c", "echo later >> ran; exec cat"]

[commands.plain]
run = ["sh", "-c", "echo plain >> ran; exec cat"]

[commands.itself]
run = ["sh", "-c", 'exec "$HALL" query itself']

[commands.ping]
run = ["sh", "-c", 'exec "$HALL" query "pong | later"']

[commands.pong]
run = ["sh", "-c", 'exec "$HALL" query ping']

[commands.left]
run = ["sh", "-c", ': > left.began; until test -e go; do sleep 0.02; done; exec "$HALL" query right']

[commands.right]
run = ["sh", "-c", ': > right.began; until test -e go; do sleep 0.02; done; exec "$HALL" query left']

[commands.breaks]
run = ["sh", "-c", "echo no such column >&2; exit 3"]

[commands.hands_on]
run = ["sh", "-c", 'exec "$HALL" query breaks']

[commands.handles]
run = ["sh", "-c", '"$HALL" query breaks || echo "handled $?"']

[commands.sleeps]
run = ["sh", "-c", "echo began >> slept; exec sleep 600"]

[commands.waits]
run = ["sh", "-c", 'exec "$HALL" query sleeps']

[commands.twice]
run = ["sh", "-c", '''"$HALL" query upper > first && : > twice.asked && until test -e go; do sleep 0.02; done
    "$HALL" query upper > second; "$HALL" query upper --json; "$HALL" query large | wc -c''']

[commands.large]
run = ["head", "-c", "200000", "/dev/zero"]

[commands.dice]
run = ["sh", "-c", "echo dice >> ran; exec head -c 8 /dev/urandom"]
volatile = true

[commands.hex]
run = ["od", "-An", "-tx1"]

[commands.throws]
run = ["sh", "-c", '"$HALL" query "dice | hex"; "$HALL" query "dice | hex"; "$HALL" query "plain | unkept | later"']

[commands.unkept]
run = ["sh", "-c", 'echo unkept >> ran; test -z "$JOBHALL_JOB" || echo "$JOBHALL_JOB"']
volatile = true

[commands.endless]
run = ["sh", "-c", 'exec "$HALL" query endless']
volatile = true

[commands.wrong]
run = ["sh", "-c", '"$HALL" query "uper"; echo $?; "$HALL" query "upper | head +"; echo $?; "$HALL" query upper --explain; echo $?']
"#;

fn start(slots: &str) -> Up {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("worker.toml");
    let env = format!("env = {{ HALL = {:?} }}\n", env!("CARGO_BIN_EXE_jobhall"));
    let commands: String = COMMANDS
        .split_inclusive('\n')
        .map(|line| if line.starts_with("[commands.") { format!("{line}{env}") } else { line.to_owned() })
        .collect();
    fs::write(&config, commands).unwrap();
    let words = ["--config", config.to_str().unwrap(), "--slots", slots, "--listen", "127.0.0.1:0"];
    let up = Up::start(folder, "up", &words);
    let all = COMMANDS.matches("[commands.").count();
    eventually("the declarations", || {
        up.json(&["query", "commands", "--json"]).as_array().unwrap().len() == all
    });
    up
}

fn ran(up: &Up) -> Vec<String> {
    let text = fs::read_to_string(up.folder.path().join("ran")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn put(up: &Up, data: &str) {
    let file = up.folder.path().join("put.txt");
    fs::write(&file, data).unwrap();
    up.told(&["source", "put", "data.txt", file.to_str().unwrap()]);
}

fn there(up: &Up, name: &str) -> bool {
    up.folder.path().join(name).exists()
}

fn fails(output: &Output, code: i32, words: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

/// The job of this type, as it is shown.
fn job_of(up: &Up, command: &str) -> serde_json::Value {
    let jobs = up.json(&["job", "list", "--all", "--json"]);
    let found = jobs.as_array().unwrap().iter().find(|job| job["type"] == format!("q.{command}").as_str());
    up.json(&["job", "show", &found.unwrap()["id"].to_string(), "--json"])
}

#[test]
fn q15_fifty_deep_with_one_slot_and_one_place() {
    let up = start("1");
    up.told(&["type", "set", "q.nest", "--limit", "concurrency=1"]);
    assert_eq!(up.told(&["query", "nest 50"]), "50\n");
    assert_eq!(up.told(&["query", "nest 50"]), "50\n");
    let jobs = up.json(&["job", "list", "--all", "--json"]);
    assert_eq!(jobs.as_array().unwrap().len(), 51, "each ran once");
}

#[test]
fn q16_a_command_that_asks_for_itself_fails_at_once_and_names_the_cycle() {
    let up = start("2");
    fails(&up.run(&["query", "itself"]), 100, &["itself (job 1): exit_100"]);
    let log = text(&up.run(&["job", "log", "1"]).stdout);
    assert!(log.contains("a query that waits for itself: itself asks for itself"), "{log}");
    fails(&up.run(&["query", "ping"]), 100, &["exit_100"]);
    let pong = job_of(&up, "pong");
    let log = text(&up.run(&["job", "log", &pong["id"].to_string()]).stdout);
    assert!(log.contains("ping asks for pong asks for ping"), "{log}");
    assert_eq!(job_of(&up, "later")["state"], "failed", "what came after it did not run");
}

#[test]
fn q16_two_that_wait_for_each_other_fail_at_once_and_name_the_cycle() {
    let up = start("2");
    let asked: Vec<_> = ["left", "right"]
        .map(|name| up.command(&["query", name]).stderr(std::process::Stdio::piped()).spawn().unwrap())
        .into();
    eventually("both run", || there(&up, "left.began") && there(&up, "right.began"));
    fs::write(up.folder.path().join("go"), "").unwrap();
    let said: Vec<String> = asked
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(100), "{}", text(&output.stderr));
            text(&output.stderr)
        })
        .collect();
    let cycle = |said: &String| {
        said.contains("wait_cycle: left waits for right waits for left")
            || said.contains("wait_cycle: right waits for left waits for right")
    };
    assert!(said.iter().all(cycle), "{said:?}");
}

#[test]
fn q17_a_failed_sub_query_fails_its_asker_with_the_chain_unless_it_is_handled() {
    let up = start("1");
    let output = up.run(&["query", "hands_on"]);
    let breaks = job_of(&up, "breaks")["id"].to_string();
    fails(&output, 100, &[&format!("breaks (job {breaks}): exit_3"), &format!("jobhall job log {breaks}")]);
    let asker = job_of(&up, "hands_on");
    assert_eq!((&asker["state"], &asker["error"]["reason"]), (&"failed".into(), &"exit_100".into()));
    let log = text(&up.run(&["job", "log", &asker["id"].to_string()]).stdout);
    assert!(log.contains(&format!("breaks (job {breaks}): exit_3")), "{log}");
    assert_eq!(up.told(&["query", "handles"]), "handled 100\n");
}

#[test]
fn q17_a_cancelled_sub_query_cancels_its_asker_and_a_cancelled_asker_what_nobody_else_wants() {
    let up = start("1");
    let slept = || fs::read_to_string(up.folder.path().join("slept")).unwrap_or_default().lines().count();
    let state = |id: &str| up.json(&["job", "show", id, "--json"])["state"].as_str().unwrap().to_owned();
    for cancelled in ["sleeps", "waits"] {
        let before = slept();
        let asking = up.command(&["query", "waits"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
        eventually("it sleeps", || slept() > before);
        let jobs = ["sleeps", "waits"].map(|name| job_of(&up, name)["id"].to_string());
        eventually("the asker waits", || state(&jobs[1]) == "waiting");
        let first = job_of(&up, cancelled)["id"].to_string();
        up.told(&["job", "cancel", &first]);
        for job in &jobs {
            eventually("both are cancelled", || state(job) == "cancelled");
        }
        let output = asking.wait_with_output().unwrap();
        fails(&output, 101, &["cancelled"]);
        if cancelled == "sleeps" {
            let why = up.json(&["job", "show", &jobs[1], "--json"])["error"]["explanation"].to_string();
            assert!(
                why.contains(&format!("sleeps, which it asked for, was cancelled (job {})", jobs[0])),
                "{why}"
            );
        }
    }
}

#[test]
fn q17_a_sub_query_that_someone_else_wants_outlives_its_asker() {
    let up = start("1");
    let state = |id: &str| up.json(&["job", "show", id, "--json"])["state"].as_str().unwrap().to_owned();
    up.told(&["query", "waits", "--no-wait"]);
    eventually("it sleeps", || there(&up, "slept"));
    let [sleeps, waits] = ["sleeps", "waits"].map(|name| job_of(&up, name)["id"].to_string());
    eventually("the asker waits", || state(&waits) == "waiting");
    up.told(&["query", "sleeps", "--no-wait"]);
    up.told(&["job", "cancel", &waits]);
    eventually("the asker is cancelled", || state(&waits) == "cancelled");
    assert_eq!(state(&sleeps), "running");
    up.told(&["job", "cancel", &sleeps]);
}

#[test]
fn what_was_asked_while_running_counts() {
    let up = start("1");
    put(&up, "one\n");
    assert_eq!(up.told(&["query", "reads | later"]), "ONE\n");
    assert_eq!(ran(&up), ["reads", "upper", "later"]);
    assert_eq!(up.told(&["query", "reads | later"]), "ONE\n");
    assert_eq!(ran(&up).len(), 3, "nothing ran");
    put(&up, "two\n");
    assert_eq!(up.told(&["query", "reads | later"]), "TWO\n", "also through a step that asked for nothing");
    assert_eq!(ran(&up)[3..], ["reads", "upper", "later"]);
    assert_eq!(up.told(&["query", "reads"]), "TWO\n");
    put(&up, "one\n");
    assert_eq!(up.told(&["query", "reads | later"]), "ONE\n");
    assert_eq!(ran(&up)[6..], ["reads"], "what it asked for and what follows were seen before");
    assert_eq!(up.told(&["query", "reads | later"]), "ONE\n");
    assert_eq!(ran(&up).len(), 7);
}

#[test]
fn an_edit_of_a_command_that_was_asked_for_counts() {
    let up = start("1");
    put(&up, "one\n");
    assert_eq!(up.told(&["query", "reads | later"]), "ONE\n");
    let config = up.folder.path().join("worker.toml");
    let edited = fs::read_to_string(&config).unwrap().replace("exec tr a-z A-Z", "exec tr a-z a-y_");
    fs::write(&config, edited.replace("exec tr a-z a-y_", "exec tr o 0")).unwrap();
    eventually("the edit", || up.told(&["query", "source:data.txt | upper"]) == "0ne\n");
    assert_eq!(up.told(&["query", "reads | later"]), "0ne\n");
}

#[test]
fn q14_the_same_text_is_answered_by_the_worker_and_a_large_value_from_the_cache() {
    let up = start("1");
    let asking = up.command(&["query", "twice"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually("the first answer", || there(&up, "twice.asked"));
    // Without the value in the hall, only the worker can have it.
    up.told(&["cache", "drop", "upper", "--yes"]);
    fs::write(up.folder.path().join("go"), "").unwrap();
    let output = asking.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = text(&output.stdout);
    assert!(said.contains("\"query\":\"upper\"") && said.trim_end().ends_with("200000"), "{said}");
    assert_eq!(ran(&up), ["upper"], "it ran once");
    let [first, second] = ["first", "second"].map(|name| fs::read(up.folder.path().join(name)).unwrap());
    assert_eq!(first, second);
}

#[test]
fn a_wrong_query_of_a_command_is_refused_with_its_place() {
    let up = start("1");
    let codes = up.told(&["query", "wrong"]);
    assert_eq!(codes.lines().collect::<Vec<_>>(), ["2", "2", "2"]);
    let log = text(&up.run(&["job", "log", "1"]).stdout);
    assert!(log.contains("upper") && log.contains("^^^^"), "{log}");
    assert!(log.contains("--explain is not available in a command that runs"), "{log}");
}

#[test]
fn a_job_that_is_no_step_may_not_ask() {
    let up = start("1");
    let env = serde_json::json!({ "HALL": env!("CARGO_BIN_EXE_jobhall") });
    let params = serde_json::json!({ "script": "\"$HALL\" query plain", "env": env }).to_string();
    assert_eq!(up.run(&["job", "submit", "exec", "--params", &params, "--wait"]).status.code(), Some(100));
    assert_eq!(up.json(&["job", "show", "1", "--json"])["error"]["reason"], "exit_4");
    let log = text(&up.run(&["job", "log", "1"]).stdout);
    assert!(log.contains("is not a step of a query"), "{log}");
    assert_eq!(up.json(&["job", "list", "--all", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn q14_what_may_not_be_kept_is_run_by_the_asker_itself() {
    let up = start("1");
    let said = up.told(&["query", "throws"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, lines[1]), "once for an attempt: {said}");
    let throws = job_of(&up, "throws")["id"].to_string();
    assert_eq!(lines[2], throws, "it ran as part of the asking job");
    assert_eq!(ran(&up), ["dice", "plain", "unkept", "later"]);
    let jobs = up.json(&["job", "list", "--all", "--json"]);
    let mut types: Vec<&str> =
        jobs.as_array().unwrap().iter().map(|job| job["type"].as_str().unwrap()).collect();
    types.sort_unstable();
    assert_eq!(types, ["q.plain", "q.throws"], "only what may be kept is a job");
    fails(&up.run(&["query", "endless"]), 100, &["exit_100"]);
    let log = text(&up.run(&["job", "log", &job_of(&up, "endless")["id"].to_string()]).stdout);
    assert!(log.contains("endless asks for endless"), "{log}");
}
