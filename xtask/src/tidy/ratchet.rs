//! Counts that may only decrease: a limit for every file, and a list of the files that currently exceed it.
//!
//! A listed count must be exact. When a file improves, its entry has to be lowered in the same change, so that the
//! list never allows more than the tree needs.

use super::Fault;

/// A file and its counted lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Path from the root of the workspace.
    pub path: String,
    /// One line number for each occurrence.
    pub lines: Vec<usize>,
}

/// Maximum number of lines in a fault.
const SHOWN: usize = 10;

/// A file with exactly this many occurrences.
pub type Listed = (&'static str, usize);

/// Every file with more than `most` occurrences that `listed` does not allow, and every entry that is too high.
/// `what` names the occurrences in the plural.
#[must_use]
pub fn faults(what: &str, most: usize, found: &[Found], listed: &[(&str, usize)]) -> Vec<Fault> {
    let above = found.iter().filter_map(|file| above(what, most, file, listed));
    let stale = listed.iter().filter_map(|entry| stale(what, most, found, entry));
    above.chain(stale).collect()
}

fn above(what: &str, most: usize, file: &Found, listed: &[(&str, usize)]) -> Option<Fault> {
    let allowed = listed.iter().find(|(path, _)| *path == file.path).map_or(most, |(_, count)| *count);
    let (path, count) = (&file.path, file.lines.len());
    let mut lines: Vec<String> = file.lines.iter().take(SHOWN).map(ToString::to_string).collect();
    lines.extend((count > SHOWN).then(|| "…".to_owned()));
    (count > allowed)
        .then(|| format!("{path} has {count} {what}, {allowed} allowed: lines {}", lines.join(", ")))
}

fn stale(what: &str, most: usize, found: &[Found], (path, listed): &(&str, usize)) -> Option<Fault> {
    let count = found.iter().find(|file| file.path == *path).map_or(0, |file| file.lines.len());
    if count <= most {
        Some(format!("{path} has {count} {what}, {most} allowed for any file: remove its entry"))
    } else {
        (count < *listed).then(|| format!("{path} has only {count} {what}: lower its entry from {listed}"))
    }
}
