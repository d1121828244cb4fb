//! The command line of the chores: `cargo run -p xtask -- acceptance [--check]`.

use std::process::ExitCode;

use xtask::acceptance::{self, Mode};

const USAGE: &str = "\
usage: xtask acceptance [--check]

  acceptance           run every test and write docs/acceptance.md
  acceptance --check   run every test and fail when docs/acceptance.md is stale";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mode = match arguments.as_slice() {
        ["acceptance"] => Mode::Write,
        ["acceptance", "--check"] => Mode::Check,
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match acceptance::run(&xtask::workspace_root(), mode) {
        Ok(note) => {
            println!("{note}");
            ExitCode::SUCCESS
        }
        Err(stop) => {
            eprintln!("error: {stop}");
            ExitCode::from(stop.exit_code())
        }
    }
}
