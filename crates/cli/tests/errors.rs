//! Error messages: what happened, why, how to fix it, and the documented exit code.

use std::path::Path;
use std::process::{Command, Output};

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        Machine(tempfile::tempdir().expect("a directory"))
    }

    /// Runs the program with only this directory as configuration, against a port without a listener.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jobhall"));
        command.env_clear().env("HOME", self.0.path()).current_dir(self.0.path());
        command.env("JOBHALL_SERVER", nobody()).args(words).output().expect("the program runs")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("a file");
    }
}

/// An address that was free a moment ago.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("its address"))
}

#[track_caller]
fn check(output: &Output, exit: i32, said: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{stderr}");
    assert!(stderr.contains(said), "{stderr}");
    assert!(
        output.stdout.is_empty(),
        "messages are not on standard output: {}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn an_unreachable_hall_ends_with_3() {
    let machine = Machine::new();
    for words in
        [["job", "list"].as_slice(), &["worker", "list"], &["run", "--", "true"], &["job", "wait", "7"]]
    {
        let output = machine.run(words);
        check(&output, 3, "error: no server answers at http://127.0.0.1:");
        check(&output, 3, "fix: start one with `jobhall up`");
    }
}

#[test]
fn mistakes_on_the_command_line_end_with_2() {
    let machine = Machine::new();
    check(&machine.run(&["jop", "list"]), 2, "'job'");
    check(&machine.run(&["job", "list", "--state", "runing"]), 2, "did you mean \"running\"?");
    check(&machine.run(&["job", "submit", "t", "--params", "{"]), 2, "params are not JSON");
    check(&machine.run(&["job", "show", "seventeen"]), 2, "invalid");
    check(&machine.run(&["help", "jop"]), 2, "did you mean \"job\"?");
    check(&machine.run(&["worker", "list", "--server", "nonsense"]), 3, "not a URL");
}

#[test]
fn a_wrong_key_in_a_file_is_told_with_its_line() {
    let machine = Machine::new();
    machine.write(".jobhall.toml", "[client]\nsevrer = 'http://hall:7450'\n");
    check(
        &machine.run(&["job", "list"]),
        2,
        ".jobhall.toml:2: unknown key \"sevrer\"; did you mean \"server\"?",
    );
    assert!(machine.run(&["help", "exit-codes"]).status.success(), "help works anyway");
}

#[test]
fn a_file_with_a_similar_name_is_refused_with_the_right_one() {
    let machine = Machine::new();
    machine.write("jobhall.toml", "server = 'http://hall:7450'\n");
    check(&machine.run(&["job", "list"]), 2, "in the table [client] of .jobhall.toml");
}

#[test]
fn settings_are_shown_with_their_origin_and_no_token_is() {
    let machine = Machine::new();
    machine.write(".jobhall.toml", "[client]\ntoken = 'very-secret'\ncolor = 'never'\n");
    let output = machine.run(&["config", "show", "--origin", "--json"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(!text.contains("very-secret"), "{text}");
    let lines: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let origin = |key: &str| {
        let line = lines.iter().find(|line| line["key"] == key).expect("the key");
        line["origin"].as_str().expect("an origin").to_owned()
    };
    assert_eq!(origin("server"), "environment JOBHALL_SERVER");
    assert!(Path::new(&origin("token")).ends_with(".jobhall.toml"));
    assert_eq!(origin("data"), "default");
}

#[test]
fn doctor_says_what_is_wrong_as_data_and_ends_with_its_code() {
    let output = Machine::new().run(&["doctor", "--jsonl"]);
    assert_eq!(output.status.code(), Some(3));
    let check: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    assert_eq!((check["check"].as_str(), check["verdict"].as_str()), (Some("server"), Some("failed")));
}

#[test]
fn completions_and_manual_pages_are_made() {
    let machine = Machine::new();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let output = machine.run(&["completions", shell]);
        assert!(output.status.success() && output.stdout.len() > 1_000, "{shell}");
    }
    assert!(machine.run(&["man", "--dir", "pages"]).status.success());
    let page = std::fs::read_to_string(machine.0.path().join("pages/jobhall-job-submit.1")).expect("a page");
    assert!(page.contains("idempotency"), "{page}");
    let pages = std::fs::read_dir(machine.0.path().join("pages")).expect("pages");
    assert!(
        pages.into_iter().all(|page| !page.expect("a page").file_name().to_string_lossy().contains("__"))
    );
}

#[test]
fn what_a_worker_may_be_used_for_is_a_list_of_known_words() {
    let machine = Machine::new();
    check(&machine.run(&["worker", "--allow", "shell"]), 2, "unknown word \"shell\"; known are: exec");
    check(&machine.run(&["worker", "--allow-exec"]), 2, "fix: give --allow exec");
    machine.write("unknown.toml", "allow = [\"exec\", \"shell\"]\n");
    let output = machine.run(&["worker", "--config", "unknown.toml"]);
    check(&output, 2, "failed to read unknown.toml");
    check(&output, 2, "unknown word \"shell\"; known are: exec");
    machine.write("old.toml", "slots = 1\nallow_exec = true\n");
    let output = machine.run(&["worker", "--config", "old.toml"]);
    check(&output, 2, "failed to read old.toml");
    check(&output, 2, "fix: write `allow = [\"exec\"]` instead of `allow_exec = true`");
    let output = machine.run(&["up", "--listen", "127.0.0.1:0", "--config", "old.toml"]);
    check(&output, 2, "failed to read old.toml");
    check(&output, 2, "fix: write `allow = [\"exec\"]` instead of `allow_exec = true`");
    machine.write("none.toml", "allow = []\n");
    check(&machine.run(&["worker", "--config", "none.toml"]), 2, "this worker has nothing to run");
    // With something to run, it goes on and finds no server.
    machine.write("exec.toml", "allow = [\"exec\"]\n");
    let output = machine.run(&["worker", "--join", "t", "--config", "exec.toml"]);
    check(&output, 3, "no server answers");
}
