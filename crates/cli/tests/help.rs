//! Help texts are a contract: they are compared with files. `UPDATE=1` writes the files again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every visible command; its file is named after it.
const COMMANDS: &[&str] = &[
    "",
    "up",
    "run",
    "job",
    "job submit",
    "job list",
    "job show",
    "job log",
    "job artifacts",
    "job artifact",
    "job wait",
    "job cancel",
    "job retry",
    "job explain",
    "job edit",
    "job hold",
    "job release",
    "job run-now",
    "job complete",
    "job bulk",
    "job bulk cancel",
    "job bulk retry",
    "job bulk delete",
    "job bulk list",
    "job bulk show",
    "job bulk stop",
    "group",
    "group create",
    "group list",
    "group show",
    "group close",
    "group cancel",
    "group retry",
    "group wait",
    "artifact",
    "artifact put",
    "query",
    "query commands",
    "source",
    "source put",
    "source get",
    "source list",
    "source remove",
    "recipe",
    "recipe list",
    "recipe show",
    "recipe status",
    "recipe make",
    "recipe watch",
    "recipe put",
    "recipe remove",
    "cache",
    "cache list",
    "cache show",
    "cache drop",
    "cache pin",
    "cache verify",
    "cache stats",
    "queue",
    "queue list",
    "queue show",
    "queue set",
    "queue pause",
    "queue resume",
    "queue reset",
    "stats",
    "move",
    "nodes",
    "type",
    "type list",
    "type show",
    "type set",
    "type reset",
    "retention",
    "retention show",
    "retention set",
    "schedule",
    "schedule list",
    "schedule show",
    "schedule set",
    "schedule remove",
    "schedule pause",
    "schedule resume",
    "schedule run",
    "schedule next",
    "token",
    "token create",
    "token list",
    "token revoke",
    "audit",
    "key",
    "key show",
    "key rotate",
    "call",
    "input",
    "progress",
    "events",
    "server",
    "worker",
    "worker list",
    "worker show",
    "worker pause",
    "worker drain",
    "worker resume",
    "doctor",
    "config",
    "config show",
    "completions",
    "man",
    "help",
];

fn jobhall(words: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jobhall"));
    command.args(words).env("COLUMNS", "100").env_remove("CLICOLOR_FORCE").env("NO_COLOR", "1");
    command.output().expect("the program runs")
}

fn file_of(name: &str) -> PathBuf {
    let name = if name.is_empty() { "jobhall".to_owned() } else { name.replace(' ', "-") };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help").join(format!("{name}.txt"))
}

fn check(name: &str, text: &str) {
    let path = file_of(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
        std::fs::write(&path, text).expect("it can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{} differs: run with UPDATE=1 and look at the change", path.display());
}

#[test]
fn help_texts_are_as_they_were() {
    for name in COMMANDS {
        let words: Vec<&str> = name.split_whitespace().chain(["--help"]).collect();
        let output = jobhall(&words);
        assert!(output.status.success(), "{name}");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains("Example"), "{name} has no example");
        check(name, &text);
    }
}

#[test]
fn exit_codes_are_a_topic_of_help() {
    let output = jobhall(&["help", "exit-codes"]);
    assert!(output.status.success());
    check("exit-codes", &String::from_utf8(output.stdout).expect("text"));
}

#[test]
fn there_are_no_files_of_commands_that_are_gone() {
    let known: BTreeSet<PathBuf> = COMMANDS.iter().chain(&["exit-codes"]).map(|name| file_of(name)).collect();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    for entry in std::fs::read_dir(directory).expect("the directory of help texts") {
        let path = entry.expect("an entry").path();
        assert!(known.contains(&path), "{} belongs to no command", path.display());
    }
}

/// The commands that a help text lists.
fn listed_by(name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split_whitespace().chain(["--help"]).collect();
    let text = String::from_utf8(jobhall(&words).stdout).expect("text");
    let lines =
        text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Continued lines are indented further.
    let names =
        lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_is_listed_here() {
    assert!(listed_by("").len() > 10);
    for name in COMMANDS {
        for below in listed_by(name) {
            let whole = format!("{name} {below}");
            assert!(COMMANDS.contains(&whole.trim()), "{whole}");
        }
    }
}
