//! The number of modules that the `lib.rs` of a crate lists. A list longer than a screen hides the structure.

use super::ratchet::{self, Found};
use super::source;
use super::{Fault, File};

/// Maximum number of modules in a `lib.rs`.
pub const MOST: usize = 15;

/// Every `lib.rs` among `files` that lists more than [`MOST`] modules.
#[must_use]
pub fn crowded(files: &[File]) -> Vec<Fault> {
    let roots = files.iter().filter(|file| file.path.ends_with("/src/lib.rs"));
    let found: Vec<Found> = roots.map(declarations).collect();
    ratchet::faults("modules", MOST, &found, &[])
}

/// Every `mod name;` of the file that is not for tests; a module with an inline body counts as well.
fn declarations(file: &File) -> Found {
    let tokens = source::numbered_tokens(&source::without_test_items(&source::bare(&file.text)));
    let declares =
        |window: &&[(usize, String)]| window[0].1 == "mod" && matches!(window[2].1.as_str(), ";" | "{");
    let lines = tokens.windows(3).filter(declares).map(|window| window[0].0).collect();
    Found { path: file.path.clone(), lines }
}
