//! `jobhall cache` against a server with a worker.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod up;

use std::fs;

use serde_json::json;
use up::{Up, eventually, text};

const COMMANDS: &str = r#"
[commands.numbers]
run = ["sh", "-c", "echo numbers >> ran; seq \"$1\"", "numbers", "{count}"]
args = [{ name = "count", type = "int" }]
media_type = "text/plain"

[commands.last]
run = ["sh", "-c", "echo last >> ran; tail -n 1"]
"#;

fn start(words: &[&str]) -> Up {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("worker.toml");
    fs::write(&config, COMMANDS).unwrap();
    let own = ["--config", config.to_str().unwrap(), "--slots", "2", "--listen", "127.0.0.1:0"];
    let up = Up::start(folder, "up", &[own.as_slice(), words].concat());
    eventually("the declarations", || {
        up.json(&["query", "commands", "--json"]).as_array().unwrap().len() == 2
    });
    up
}

fn ran(up: &Up) -> usize {
    fs::read_to_string(up.folder.path().join("ran")).unwrap_or_default().lines().count()
}

#[test]
fn q18_stored_values_are_shown_pinned_and_dropped() {
    let up = start(&["--cache-size", "20MB", "--cache-values", "500"]);
    assert_eq!(up.told(&["query", "numbers 5 | last"]), "5\n");
    assert_eq!(up.told(&["query", "numbers-2"]), "1\n2\n");
    let value = up.json(&["cache", "show", "numbers 5", "--json"]);
    assert_eq!(
        (&value["size"], &value["query"], &value["pinned"]),
        (&json!(10), &json!("numbers-5"), &json!(false))
    );
    let none = up.run(&["cache", "show", "numbers-9"]);
    assert!(text(&none.stderr).contains("nothing is stored for numbers-9"), "{}", text(&none.stderr));
    up.told(&["cache", "pin", "numbers 5"]);
    let list = up.told(&["cache", "list", "--command", "numbers"]);
    assert!(list.lines().count() == 3 && list.contains("yes"), "{list}");

    let unsure = up.run(&["cache", "drop", "--command", "numbers"]);
    assert!(text(&unsure.stderr).contains("add --yes"), "{}", text(&unsure.stderr));
    let counted = up.json(&["cache", "drop", "--command", "numbers", "--dry-run", "--json"]);
    assert_eq!((&counted["values"], &counted["kept"]), (&json!(2), &json!(1)));
    let dropped = up.told(&["cache", "drop", "--command", "numbers", "--yes"]);
    assert!(dropped.starts_with("2 values of 6 B removed; 1 stay"), "{dropped}");
    assert_eq!((up.told(&["query", "numbers 5 | last"]), ran(&up)), ("5\n".to_owned(), 4));
    up.told(&["cache", "pin", "--remove", "numbers-5"]);
    let named = up.told(&["cache", "drop", "numbers-5", "numbers 5 | last", "--yes"]);
    assert!(named.starts_with("2 values of"), "{named}");
    let nothing = up.run(&["cache", "drop", "numbers-5", "--yes"]);
    assert_eq!(nothing.status.code(), Some(104), "{}", text(&nothing.stderr));
    for wrong in [&["cache", "drop"][..], &["cache", "drop", "--all", "numbers-5"]] {
        assert_eq!(up.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert!(up.told(&["cache", "verify"]).starts_with("0 values read, 0 damaged"));

    let stats = up.json(&["cache", "stats", "--json"]);
    assert_eq!((&stats["max_bytes"], &stats["max_values"]), (&json!(20_000_000), &json!(500)));
    let shown = up.told(&["cache", "stats"]);
    assert!(
        shown.contains("of at most 500") && shown.contains("HIT RATE") && shown.contains("numbers"),
        "{shown}"
    );
}

#[test]
fn the_bounds_of_the_cache_are_checked_wherever_they_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = |words: &[&str], env: Option<(&str, &str)>| {
        let mut command = up::jobhall();
        command.args(["server", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]).args(words);
        command.envs(env);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    assert!(server(&["--cache-size", "many"], None).contains("is not a size such as 10GiB"));
    assert!(server(&["--cache-size", "1023KiB"], None).contains("is below 1MiB"));
    assert!(server(&["--cache-values", "0"], None).contains("is not a number from 1 to 100000000"));
    let said = server(&[], Some(("JOBHALL_CACHE_SIZE", "1.5GB")));
    assert!(said.contains("JOBHALL_CACHE_SIZE: cache_size: \"1.5GB\" is not a size"), "{said}");
}

#[test]
fn a_restart_finds_the_values_again() {
    let mut up = start(&[]);
    assert_eq!(up.told(&["query", "numbers 5 | last"]), "5\n");
    up.restart("127.0.0.1:0");
    eventually("the index", || up.json(&["cache", "stats", "--json"])["values"] == 2);
    let file = up.folder.path().join("value");
    let said = up.run(&["query", "numbers 5 | last", "-o", file.to_str().unwrap()]);
    assert!(text(&said.stderr).contains("2 hits; 2 bytes"), "{}", text(&said.stderr));
    assert_eq!(ran(&up), 2);
}
