//! Processes according to the system.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal; ignores a process that has ended.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Suspends a process, and waits until none of its threads runs.
///
/// # Panics
/// It does not stop in time.
pub fn suspend(pid: u32) {
    signal(pid, Signal::STOP);
    crate::eventually("the process to stop", || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        threads.filter_map(Result::ok).all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name before the state may have any character.
            stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('T'))
        })
    });
}

/// Kills a process without warning.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

fn all() -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
}

/// Living processes whose environment contains this text. A zombie is not living.
pub fn marked(word: &str) -> Vec<u32> {
    let has = |path: &PathBuf| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(word)
    };
    all().filter(|(_, path)| has(path)).map(|(pid, _)| pid).collect()
}

/// All descendants of a process, children before grandchildren, each with its command line.
pub fn descendants(of: u32) -> Vec<(u32, String)> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, path) in all() {
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        next.extend(&below);
        found.extend(below.into_iter().map(|pid| (pid, words(pid))));
    }
    found
}

fn words(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Number of open files and sockets of a process, except those of the store: its readers open theirs on first use and
/// keep them.
pub fn files(pid: u32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(Result::ok);
    let names = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    names.filter(|name| !name.to_string_lossy().contains("/jobs.db")).count()
}
