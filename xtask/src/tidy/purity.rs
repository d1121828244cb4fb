//! What `core` and `kernel` must not use: files, network, clock, threads, processes, environment, randomness, async;
//! and, in `kernel`, logging.

use super::source;
use super::{Fault, File};

/// A banned path or word, as tokens.
pub type Banned = &'static [&'static str];

/// What `core` must not use.
pub const CORE: &[Banned] = &[
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

/// What `kernel` must not use in addition: it notifies an observer instead.
pub const KERNEL: &[Banned] = &[&["tracing"]];

/// Every banned word in the shipped files; `files` are the sources of one crate, `lists` what it must not use.
#[must_use]
pub fn touched(files: &[File], lists: &[&[Banned]]) -> Vec<Fault> {
    let banned = lists.concat();
    source::shipped(files).into_iter().flat_map(|file| faults_of(file, &banned)).collect()
}

fn faults_of(file: &File, banned: &[Banned]) -> Vec<Fault> {
    let tokens = source::tokens(&source::without_test_items(&source::bare(&file.text)));
    let imported: Vec<Vec<String>> =
        source::imports(&tokens).iter().map(|path| source::tokens(path)).collect();
    banned
        .iter()
        .filter(|banned| contains(&tokens, banned) || imported.iter().any(|path| contains(path, banned)))
        .map(|banned| format!("{} uses {}", file.path, banned.concat()))
        .collect()
}

fn contains(tokens: &[String], banned: &[&str]) -> bool {
    tokens.windows(banned.len()).any(|window| window == banned)
}
