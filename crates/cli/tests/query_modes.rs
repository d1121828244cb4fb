//! Modes, places and the display of queries through the program.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::fs::{self, File};
use std::process::Stdio;

use up::{Up, eventually, text};

/// Every command appends its name to the file `ran`.
const COMMANDS: &str = r#"
[commands.load]
run = ["sh", "-c", "echo load >> ran; seq 5"]
inline = true

[commands.now]
run = ["sh", "-c", "echo now >> ran; seq 5"]
inline = true
volatile = true

[commands.object]
run = ["sh", "-c", "seq 5"]
serialisable = false

[commands.numbers]
run = ["sh", "-c", "echo numbers >> ran; seq \"$1\"", "numbers", "{count}"]
args = [{ name = "count", type = "int" }]
media_type = "text/plain"

[commands.head]
run = ["sh", "-c", "echo head >> ran; exec head -n \"$1\"", "head", "{lines}"]
args = [{ name = "lines", type = "int" }]
media_type = "text/plain"

[commands.gui]
run = ["sh", "-c", "mkdir busy || echo twice >> ran; head -c 20000000 /dev/zero | cksum; rmdir busy"]
args = [{ name = "window" }]
mainthread = true

[commands.wait]
run = ["sh", "-c", "'JOBHALL' progress --name rows 30/90 read; echo one; while [ ! -e go ]; do sleep 0.05; done"]
"#;

fn start(words: &[&str]) -> Up {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("worker.toml");
    fs::write(&config, COMMANDS.replace("JOBHALL", env!("CARGO_BIN_EXE_jobhall"))).unwrap();
    let mut all = vec!["--config", config.to_str().unwrap(), "--slots", "4", "--listen", "127.0.0.1:0"];
    all.extend(words);
    let up = Up::start(folder, "up", &all);
    eventually("the declarations", || {
        up.json(&["query", "commands", "--json"]).as_array().unwrap().len() == 7
    });
    up
}

/// The commands that ran, in their order.
fn ran(up: &Up) -> Vec<String> {
    let text = fs::read_to_string(up.folder.path().join("ran")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn q11_an_inline_value_is_reused_where_it_is_and_a_volatile_one_never() {
    let up = start(&[]);
    assert_eq!(up.told(&["query", "load | head 1"]), "1\n");
    assert_eq!(up.told(&["query", "load | head 2"]), "1\n2\n");
    assert_eq!(ran(&up), ["load", "head", "head"], "its worker has kept the value of load");
    assert_eq!(up.told(&["query", "load"]), "1\n2\n3\n4\n5\n");
    assert_eq!(ran(&up).len(), 3, "also as the last step");
    up.told(&["query", "load | head 2", "--refresh=load"]);
    assert_eq!(ran(&up)[3..], ["load", "head"], "unless it is computed anew");
    up.told(&["query", "now | head 1"]);
    up.told(&["query", "now | head 2"]);
    assert_eq!(ran(&up)[5..], ["now", "head", "now", "head"], "volatile outweighs inline");
    let refused = up.run(&["query", "object"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("the value of object cannot leave its worker"), "{refused:?}");
    assert_eq!(up.told(&["query", "object | head 1"]), "1\n");
}

#[test]
fn q12_mainthread_steps_wait_for_the_main_worker_and_run_there_one_at_a_time() {
    let up = start(&[]);
    let promise = up.json(&["query", "gui a", "--no-wait", "--json"]);
    let job = promise["id"].to_string();
    eventually("the explanation", || up.told(&["job", "explain", &job]).contains("main>=1"));
    drop(up);

    let up = start(&["--main"]);
    let file = up.folder.path().join("windows");
    fs::write(&file, (1..=6).map(|window| format!("w{window}\n")).collect::<String>()).unwrap();
    up.told(&["query", "gui {}", "--each", file.to_str().unwrap()]);
    assert!(ran(&up).is_empty(), "two ran at once, with four slots: {:?}", ran(&up));
    let known = up.json(&["query", "gui w1", "--meta", "--json"]);
    assert_eq!((&known["worker"], &known["state"]), (&"local".into(), &"succeeded".into()));
}

#[test]
fn q13_a_designated_step_runs_on_its_worker_only_and_says_that_it_is_absent() {
    let up = start(&[]);
    assert_eq!(up.told(&["query", "-on-local/numbers-2"]), "1\n2\n");
    let known = up.json(&["query", "-on-local/numbers-2", "--meta", "--json"]);
    assert_eq!(known["worker"], "local");
    up.told(&["query", "numbers-2"]);
    assert_eq!(ran(&up), ["numbers", "numbers"], "another place is another value");
    let promise = up.json(&["query", "-on-absent/numbers-2", "--no-wait", "--json"]);
    let explained = up.told(&["job", "explain", &promise["id"].to_string()]);
    assert!(explained.contains("worker=absent"), "{explained}");
    assert_eq!(ran(&up).len(), 2);
    drop(up);

    let up = start(&["--main"]);
    let promise = up.json(&["query", "-on-local/numbers-2", "--no-wait", "--json"]);
    let explained = up.told(&["job", "explain", &promise["id"].to_string()]);
    assert!(explained.contains("!main"), "{explained}");
    assert_eq!(up.told(&["query", "numbers-2"]), "1\n2\n");
    assert_eq!(ran(&up), ["numbers"], "the main worker runs only what is not designated");
}

#[test]
fn q22_a_query_that_takes_long_tells_of_its_steps_and_their_progress() {
    let up = start(&[]);
    let said = up.folder.path().join("said");
    let mut asking = up
        .command(&["query", "wait | head 1"])
        .stdout(Stdio::piped())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let told = || fs::read_to_string(&said).unwrap();
    eventually("the first step", || told().contains("wait: running on local"));
    assert!(told().contains("head: waits for the steps before it"), "{}", told());
    // The progress of the first step reaches the promise of the last one.
    let promise = up.json(&["query", "wait | head 1", "--no-wait", "--json"])["id"].to_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let token = fs::read_to_string(up.data().join("admin.token")).unwrap();
    let client = jobhall_client::Client::new(&up.url, Some(token.trim())).unwrap();
    let promise = runtime.block_on(client.promise(promise.parse().unwrap())).unwrap();
    let [of] = &promise.progress[..] else { panic!("{promise:?}") };
    assert_eq!((of.query.as_str(), of.progress[0].step, of.progress[0].total), ("wait", 30, Some(90)));
    fs::write(up.folder.path().join("go"), "").unwrap();
    assert!(asking.wait().unwrap().success());
    assert!(told().contains("2 steps: 2 computed; 4 bytes of text/plain"), "{}", told());
    // What is answered at once says nothing, and -q nothing ever.
    let quick = up.run(&["query", "wait/head-1"]);
    assert_eq!(text(&quick.stderr).lines().count(), 1, "{quick:?}");
    assert_eq!(text(&up.run(&["query", "wait/head-1", "-q"]).stderr), "");
}

#[test]
fn each_line_of_a_file_is_a_query_and_values_come_in_their_order() {
    let up = start(&[]);
    let at = |name: &str| up.folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("lines"), "3\n\n1\n2\n").unwrap();
    let each = |words: &[&str]| {
        let lines = at("lines");
        let mut all = vec!["query", "numbers 9 | head {}", "--each", &lines];
        all.extend(words);
        up.run(&all)
    };
    let all = each(&[]);
    assert_eq!(text(&all.stdout), "1\n2\n3\n1\n1\n2\n", "{all:?}");
    assert_eq!(ran(&up).iter().filter(|name| *name == "numbers").count(), 1, "what they share runs once");
    let documents: Vec<serde_json::Value> =
        text(&each(&["--jsonl"]).stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> = documents.iter().map(|document| document["query"].as_str().unwrap()).collect();
    assert_eq!(found, ["numbers-9/head-3", "numbers-9/head-1", "numbers-9/head-2"]);
    let names = at("out-{}.txt");
    assert!(each(&["-o", &names]).status.success());
    assert_eq!(fs::read_to_string(at("out-2.txt")).unwrap(), "1\n2\n");

    fs::write(at("lines"), "1\nx\n").unwrap();
    let wrong = each(&[]);
    assert!(text(&wrong.stderr).contains("line 2: ") && text(&wrong.stdout) == "1\n", "{wrong:?}");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("1 of 2 queries have no value"), "{wrong:?}");
    let without = up.run(&["query", "numbers 9", "--each", &at("lines")]);
    assert_eq!(without.status.code(), Some(2));
}

#[test]
fn q21_metadata_is_shown_without_evaluating() {
    let up = start(&[]);
    let none = up.told(&["query", "numbers 3 | head 2", "--meta"]);
    assert!(none.contains("cache     missing") && ran(&up).is_empty(), "{none}");
    up.told(&["query", "numbers 3 | head 2"]);
    let known = up.told(&["query", "numbers 3 | head 2", "--meta"]);
    for line in [
        "state     succeeded",
        "worker    local",
        "from      numbers-3  (numbers@",
        "preview (text/plain):\n1\n2",
    ] {
        assert!(known.contains(line), "{line}: {known}");
    }
    assert_eq!(ran(&up).len(), 2);
}
