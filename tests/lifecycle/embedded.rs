//! `jobhall run` without a running server: it starts its own, and leaves nothing behind.

use std::process::{Output, Stdio};

use jobhall_tests::{Process, Rig, Signal, descendants, eventually, jobhall, marked, text};

/// Runs the program with an empty home directory, without a server.
fn alone(rig: &Rig, words: &[&str]) -> std::process::Command {
    let mut command = jobhall();
    let home = rig.folder();
    for name in ["HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
        command.env(name, home);
    }
    let (name, value) = rig.mark().split_once('=').unwrap();
    command.env(name, value).args(words).current_dir(home).stdin(Stdio::null());
    command
}

fn run(rig: &Rig, words: &[&str]) -> Output {
    alone(rig, words).output().unwrap()
}

/// Nothing of an embedded server is left, neither a directory nor a process.
fn nothing_is_left(rig: &Rig) {
    eventually("the end of all processes", || marked(rig.mark()).is_empty());
    let left = std::fs::read_dir(rig.folder()).unwrap().filter_map(Result::ok);
    let left: Vec<_> = left.map(|entry| entry.file_name()).filter(|name| name != "run.said").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn without_a_hall_the_exit_code_is_still_the_verdict() {
    let rig = Rig::new();
    for (words, code) in [
        (&["run", "--", "true"][..], 0),
        (&["run", "--", "sh", "-c", "exit 7"], 100),
        (&["run", "--", "/no/such/program"], 103),
        (&["run", "--", "sh", "-c", "kill -KILL $$"], 103),
        (&["run", "--env", "=x", "--", "true"], 2),
        (&["run", "--needs", "gpu ==== 4", "--", "true"], 2),
    ] {
        let output = run(&rig, words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output.stderr));
    }
    let output = run(&rig, &["run", "--", "sh", "-c", "echo out; echo err >&2; pwd"]);
    let here = rig.folder().canonicalize().unwrap();
    assert!(text(&output.stdout).contains("out\n"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains(here.to_str().unwrap()), "it runs here");
    nothing_is_left(&rig);
}

/// A command that runs on an embedded server until it is stopped.
fn long(rig: &Rig) -> Process {
    let command = rig.spawn(alone(rig, &["run", "--", "sh", "-c", "echo ready; sleep 600"]), "run");
    eventually("its output", || rig.said("run").contains("ready"));
    command
}

#[test]
fn an_interrupt_or_a_request_to_end_cancels_and_leaves_nothing() {
    let rig = Rig::new();
    for signal in [Signal::INT, Signal::TERM] {
        std::fs::remove_file(rig.folder().join("run.said")).unwrap_or_default();
        let mut command = long(&rig);
        command.signal(signal);
        assert_eq!(command.wait().code(), Some(130), "{}", rig.said("run"));
        nothing_is_left(&rig);
    }
}

/// Another process of this user, which may read the private directory, cancels the job.
#[test]
fn a_cancelled_command_has_an_exit_code_of_its_own() {
    let rig = Rig::new();
    let mut command = long(&rig);
    let below = descendants(command.pid());
    let words = below.iter().find(|(_, words)| words.contains(" worker ")).unwrap().1.clone();
    let server = words.split("--server ").nth(1).unwrap().split(' ').next().unwrap();
    let entries = std::fs::read_dir(rig.folder()).unwrap().filter_map(Result::ok);
    let hall = entries.map(|entry| entry.path().join("admin.token")).find(|path| path.exists()).unwrap();
    let cancel =
        jobhall().args(["job", "cancel", "1", "--server", server]).env("JOBHALL_TOKEN_FILE", hall).output();
    assert!(cancel.as_ref().unwrap().status.success(), "{}", text(&cancel.unwrap().stderr));
    assert_eq!(command.wait().code(), Some(101), "{}", rig.said("run"));
    nothing_is_left(&rig);
}

/// The directory of a killed process is left; no process is.
#[test]
fn a_killed_command_leaves_no_process_behind() {
    let rig = Rig::new();
    let mut command = long(&rig);
    assert!(marked(rig.mark()).len() >= 2, "the command and its worker");
    command.kill();
    eventually("the end of all processes", || marked(rig.mark()).is_empty());
}

/// If a server is named, it must answer: the command must not use an embedded one instead.
#[test]
fn a_hall_that_was_named_and_is_not_there_is_an_error() {
    let rig = Rig::new();
    let output = alone(&rig, &["run", "--", "true"]).env("JOBHALL_SERVER", rig.url()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
