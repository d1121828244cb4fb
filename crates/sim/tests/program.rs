//! The program: its output, its files and its exit codes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jobhall-sim")).args(args).output().expect("the program runs")
}

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    path.to_str().expect("a path in plain text").to_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn seeds_are_fresh_unless_the_first_is_given() {
    let first = |args: &[&str]| {
        let output = sim(args);
        assert!(output.status.success(), "{output:?}");
        let text = printed(&output);
        let line = text.lines().next().unwrap();
        line.strip_prefix("seeds from ").unwrap().parse::<u64>().unwrap()
    };
    assert!(first(&["--seeds", "1"]) > 1_700_000_000_000);
    assert_eq!(first(&["--seeds", "1", "--from", "5"]), 5);
}

#[test]
fn a_saved_script_is_run_again() {
    let path = file("saved.json");
    let saved = sim(&["--seed", "7", "--save", &path]);
    assert!(saved.status.success(), "{saved:?}");
    let again = sim(&["--script", &path, "--trace"]);
    assert!(again.status.success(), "{again:?}");
    assert!(printed(&again).contains("the hall starts"), "the trace");
    let wrong = file("wrong.json");
    fs::write(&wrong, fs::read_to_string(&path).unwrap().replacen("\"seed\"", "\"sed\": 1, \"seed\"", 1))
        .unwrap();
    let refused = sim(&["--script", &wrong]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(String::from_utf8(refused.stderr).unwrap(), format!("{wrong}: unknown field sed\n"));
}

#[test]
fn recordings_are_compared() {
    let (first, second, table) = (file("first.txt"), file("second.txt"), file("table.txt"));
    assert!(sim(&["record", "--seeds", "2", "--from", "4", "--out", &first]).status.success());
    let text = fs::read_to_string(&first).unwrap();
    fs::write(&second, text.replace("JobId(", "Number(")).unwrap();
    fs::write(&table, "JobId Number\n").unwrap();
    let differ = sim(&["compare", "--mode", "words", &first, &second]);
    assert_eq!(differ.status.code(), Some(1));
    assert!(
        printed(&differ).starts_with("0 of 2 seeds are equal\nfirst difference: seed 4 at "),
        "{differ:?}"
    );
    let same = sim(&["compare", "--mode", "words", "--rename", &table, &first, &second]);
    assert_eq!((same.status.code(), printed(&same).as_str()), (Some(0), "2 of 2 seeds are equal\n"));
    assert_eq!(sim(&["compare", "--mode", "word", &first, &second]).status.code(), Some(2));
    assert_eq!(sim(&["compare", "--mode", "words", &table, &table]).status.code(), Some(2), "no seeds");
}
