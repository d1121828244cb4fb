//! The program: what it prints and how it exits.

use std::process::{Command, Output};

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jobhall-sim")).args(args).output().expect("the program runs")
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
