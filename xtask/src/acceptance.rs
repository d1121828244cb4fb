//! The acceptance page: which requirement is proven by which test.
//!
//! ```text
//! docs/acceptance.toml (rows) ──┐
//!                               ├── page ── docs/acceptance.md
//! nextest ── junit.xml (tests) ─┘
//! ```
//!
//! Nextest runs once, with its ordinary output on the terminal, and writes a JUnit file that is read afterwards. It
//! runs under a separate profile, so a plain `cargo nextest run` at the same time cannot replace the file.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub mod difference;
pub mod junit;
pub mod names;
pub mod page;
pub mod rows;

/// The nextest profile that writes the JUnit file.
const PROFILE: &str = "acceptance";
/// Nextest's exit code for "the tests ran and some failed".
const TESTS_FAILED: i32 = 100;

/// What to do with the rendered page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Write,
    /// Compare it with the page in the tree.
    Check,
}

/// Why the task failed.
#[derive(Debug)]
pub enum Stop {
    /// The list, the results or the page could not be used; the text has the reason.
    Unusable(String),
    /// The tests did not build, or some failed; the code is nextest's.
    Tests {
        code: u8,
        /// What happened to the page.
        note: String,
    },
    /// The page in the tree differs from the result of this run.
    Stale(String),
}

impl Stop {
    /// The exit code of the task.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Tests { code, .. } => *code,
            Self::Unusable(_) | Self::Stale(_) => 1,
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(reason) => write!(out, "{reason}"),
            Self::Tests { code, note } => write!(out, "the test run ended with {code}; {note}"),
            Self::Stale(difference) => {
                write!(
                    out,
                    "docs/acceptance.md is stale (- in the tree, + by this run); run `make acceptance`\n{difference}"
                )
            }
        }
    }
}

/// Runs every test of the workspace once, then writes the page or compares it.
///
/// # Errors
/// Any [`Stop`]: a failed build or test, unreadable results, an unknown row in a test's name, a stale page.
pub fn run(root: &Path, mode: Mode) -> Result<String, Stop> {
    let list = read(&root.join("docs/acceptance.toml"))?;
    let lists = rows::parse(&list).map_err(Stop::Unusable)?;
    let page_path = root.join("docs/acceptance.md");
    let code = run_tests(root)?;
    if code != 0 && (code != TESTS_FAILED || mode == Mode::Check) {
        return Err(tests_stop(code, "the acceptance page was not checked"));
    }
    let page = page::from_results(&lists, &read(&results_path(root))?).map_err(Stop::Unusable)?;
    settle(&page, &page_path, mode)?;
    if code != 0 {
        return Err(tests_stop(code, "docs/acceptance.md was written anyway"));
    }
    let note = match mode {
        Mode::Write => "docs/acceptance.md written",
        Mode::Check => "docs/acceptance.md is up to date",
    };
    let tests = junit::parse(&read(&results_path(root))?).map_err(Stop::Unusable)?;
    let passed = tests.iter().filter(|test| test.passed).count();
    Ok(format!("{note}\n{passed} passed, {} failed", tests.len() - passed))
}

/// Writes the page, or compares it with the one at `path`.
///
/// # Errors
/// [`Stop::Stale`] if they differ under [`Mode::Check`]; [`Stop::Unusable`] if the file cannot be written.
pub fn settle(page: &str, path: &Path, mode: Mode) -> Result<(), Stop> {
    match mode {
        Mode::Write => fs::write(path, page).map_err(|error| unusable("write", path, &error)),
        Mode::Check => {
            let present = if path.exists() { read(path)? } else { String::new() };
            difference::between(&present, page).map_or(Ok(()), |difference| Err(Stop::Stale(difference)))
        }
    }
}

fn run_tests(root: &Path) -> Result<i32, Stop> {
    let results = results_path(root);
    match fs::remove_file(&results) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(unusable("remove the old", &results, &error));
        }
        _ => {}
    }
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast", "--profile", PROFILE])
        .current_dir(root)
        .status()
        .map_err(|error| Stop::Unusable(format!("failed to start cargo nextest: {error}")))?;
    Ok(status.code().unwrap_or(1))
}

fn results_path(root: &Path) -> PathBuf {
    // Nextest keeps its store in the workspace's target directory, wherever cargo builds to.
    root.join("target/nextest").join(PROFILE).join("junit.xml")
}

fn tests_stop(code: i32, note: &str) -> Stop {
    Stop::Tests { code: u8::try_from(code).unwrap_or(1), note: note.to_owned() }
}

fn read(path: &Path) -> Result<String, Stop> {
    fs::read_to_string(path).map_err(|error| unusable("read", path, &error))
}

fn unusable(verb: &str, path: &Path, error: &io::Error) -> Stop {
    Stop::Unusable(format!("failed to {verb} {}: {error}", path.display()))
}
