//! Words that must not remain in the tree, and files that are too long.

use super::{Fault, File};

/// Leftovers, written in two halves so that this file does not contain them.
const LEFTOVERS: [&str; 4] =
    [concat!("to", "do!("), concat!("un", "implemented!("), concat!("FIX", "ME"), concat!("d", "bg!(")];

/// Maximum number of lines in a source file.
pub const MOST_LINES: usize = 700;

/// Every line with a leftover.
#[must_use]
pub fn leftovers(files: &[File]) -> Vec<Fault> {
    files.iter().flat_map(leftovers_in).collect()
}

fn leftovers_in(file: &File) -> Vec<Fault> {
    (1..)
        .zip(file.text.lines())
        .flat_map(|(number, line)| {
            LEFTOVERS.iter().filter(move |word| line.contains(**word)).map(move |word| (number, word))
        })
        .map(|(number, word): (usize, _)| format!("{}:{number} holds {word}", file.path))
        .collect()
}

/// Every file longer than [`MOST_LINES`].
#[must_use]
pub fn too_long(files: &[File]) -> Vec<Fault> {
    files
        .iter()
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(file, lines)| format!("{} has {lines} lines, more than {MOST_LINES}", file.path))
        .collect()
}
