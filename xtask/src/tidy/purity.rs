//! What `core` must not touch: files, network, clock, threads, processes, environment, randomness, async.

use super::source;
use super::{Fault, File};

/// Banned paths and words, each as the tokens it is made of.
const BANNED: [&[&str]; 17] = [
    &["std", ":", ":", "fs"],
    &["std", ":", ":", "net"],
    &["std", ":", ":", "io"],
    &["std", ":", ":", "thread"],
    &["std", ":", ":", "process"],
    &["std", ":", ":", "env"],
    &["std", ":", ":", "os"],
    &["std", ":", ":", "*"],
    &["SystemTime"],
    &["Instant", ":", ":", "now"],
    &["Timestamp", ":", ":", "now"],
    &["Zoned", ":", ":", "now"],
    &["TimeZone", ":", ":", "system"],
    &["async"],
    &[".", "await"],
    &["tokio"],
    &["rand"],
];

/// Every banned word in the files that ship; `files` are the sources of one crate.
#[must_use]
pub fn touched(files: &[File]) -> Vec<Fault> {
    source::shipped(files).into_iter().flat_map(faults_of).collect()
}

fn faults_of(file: &File) -> Vec<Fault> {
    let tokens = source::tokens(&source::without_test_items(&source::bare(&file.text)));
    let imported: Vec<Vec<String>> =
        source::imports(&tokens).iter().map(|path| source::tokens(path)).collect();
    BANNED
        .iter()
        .filter(|banned| contains(&tokens, banned) || imported.iter().any(|path| contains(path, banned)))
        .map(|banned| format!("{} uses {}", file.path, banned.concat()))
        .collect()
}

fn contains(tokens: &[String], banned: &[&str]) -> bool {
    tokens.windows(banned.len()).any(|window| window == banned)
}
