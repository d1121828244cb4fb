//! Tests do not sleep: a fixed pause is too short on a slow machine and wasted on a fast one. They wait for a
//! signal, use virtual time, or poll a condition with a time limit.
//!
//! A sleep is allowed
//! - in a function that polls until a condition holds, as its name says: `wait_…`, `poll_…`, `until…`,
//!   `eventually…`;
//! - in a test with tokio's paused clock (`start_paused`), where a sleep takes no time;
//! - in `tests/chaos/`, where a random pause between two faults is part of the schedule of faults.

use super::ratchet::{self, Found, Listed};
use super::source;
use super::{Fault, File};

const SLEEPS: [&str; 2] = ["sleep", "sleep_until"];
const WAITS: [&str; 4] = ["wait_", "poll_", "until", "eventually"];
const PACED: &str = "tests/chaos/";

/// Files whose tests may sleep, with how often. None does; a new entry needs a reason beside it.
pub const LISTED: &[Listed] = &[];

/// Every file whose tests sleep more often than `listed` allows. `files` are Rust sources of the whole tree.
#[must_use]
pub fn in_tests(files: &[File], listed: &[(&str, usize)]) -> Vec<Fault> {
    let declared = source::for_tests(files);
    let found: Vec<Found> = files
        .iter()
        .filter(|file| !file.path.starts_with(PACED))
        .map(|file| {
            let bare = source::bare(&file.text);
            let whole = is_test(&file.path) || declared.contains(file.path.as_str());
            let tests = if whole { bare } else { source::test_items(&bare) };
            Found { path: file.path.clone(), lines: sleeps(&tests) }
        })
        .collect();
    ratchet::faults("sleeps in tests", 0, &found, listed)
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/")
}

/// The lines of bare source with a call of a sleep that is not allowed.
fn sleeps(bare: &str) -> Vec<usize> {
    let tokens = source::numbered_tokens(bare);
    let mut found = Vec::new();
    // For each open brace, whether the block may sleep; the last signature waits for the brace of its body.
    let mut blocks = vec![false];
    let (mut signature, mut paused) = (None, false);
    for (at, (line, token)) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).map_or("", |(_, next)| next.as_str());
        let around = blocks.last().copied().unwrap_or(false);
        match token.as_str() {
            "start_paused" => paused = true,
            "fn" if next.starts_with(|first: char| first.is_alphabetic() || first == '_') => {
                signature = Some(paused || WAITS.iter().any(|prefix| next.starts_with(prefix)));
                paused = false;
            }
            "{" => blocks.push(signature.take().unwrap_or(around)),
            "}" => {
                blocks.pop();
            }
            name if SLEEPS.contains(&name) && next == "(" && !around => found.push(*line),
            _ => {}
        }
    }
    found
}
