//! The command line of the tasks; `cargo run -p xtask -- help` lists them.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use xtask::acceptance::{self, Mode};
use xtask::tidy::{self, methods, old_words};

const USAGE: &str = "\
usage: xtask acceptance [--check]
       xtask methods <crate-dir> <Struct>
       xtask words

  acceptance           run every test and write docs/acceptance.md
  acceptance --check   run every test and fail when docs/acceptance.md is stale
  methods              count fields, impl blocks and methods of a struct, and show the largest cycle of calls
  words                list where each renamed word still occurs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["acceptance"] => run_acceptance(Mode::Write),
        ["acceptance", "--check"] => run_acceptance(Mode::Check),
        ["methods", directory, name] => print(count_methods(Path::new(directory), name)),
        ["words"] => print(list_words()),
        ["help" | "--help" | "-h"] => print(Ok(USAGE.to_owned())),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run_acceptance(mode: Mode) -> ExitCode {
    match acceptance::run(&xtask::workspace_root(), mode) {
        Ok(note) => print(Ok(note)),
        Err(stop) => {
            eprintln!("error: {stop}");
            ExitCode::from(stop.exit_code())
        }
    }
}

fn print(result: Result<String, String>) -> ExitCode {
    match result {
        // A reader that closes the pipe early, such as `head`, is not a failure.
        Ok(text) => match writeln!(io::stdout(), "{text}") {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => print(Err(error.to_string())),
            Ok(()) | Err(_) => ExitCode::SUCCESS,
        },
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn count_methods(directory: &Path, name: &str) -> Result<String, String> {
    let files = tidy::files(directory, "src", ".rs").map_err(|error| error.to_string())?;
    let shape = methods::of(&files, name)
        .ok_or_else(|| format!("no struct {name} in {}", directory.join("src").display()))?;
    Ok(methods::report(name, &shape))
}

fn list_words() -> Result<String, String> {
    let files = tidy::tree(&xtask::workspace_root()).map_err(|error| error.to_string())?;
    Ok(old_words::report(&old_words::prepare(&files), old_words::OLD))
}
