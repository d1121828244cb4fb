//! Which file of the server uses HTTP status codes: `error.rs`, which converts errors to responses.

use super::ratchet::{self, Found, Listed};
use super::source;
use super::{Fault, File};

/// The file that may use status codes.
const HOME: &str = "crates/server/src/error.rs";

/// Files that currently use some.
pub const LISTED: &[Listed] = &[("crates/server/src/forward.rs", 3)];

/// Every file of the server except `error.rs` that uses `StatusCode` more often than `listed` allows.
#[must_use]
pub fn outside_error(files: &[File], listed: &[(&str, usize)]) -> Vec<Fault> {
    let sources = files.iter().filter(|file| file.path.starts_with("crates/server/src/"));
    let found: Vec<Found> = sources.filter(|file| file.path != HOME).map(mentions).collect();
    ratchet::faults("mentions of StatusCode", 0, &found, listed)
}

fn mentions(file: &File) -> Found {
    let tokens = source::numbered_tokens(&source::bare(&file.text));
    let lines = tokens.into_iter().filter(|(_, token)| token == "StatusCode").map(|(line, _)| line).collect();
    Found { path: file.path.clone(), lines }
}
