//! The tree of processes below this one: finds it, signals it, ends it, and detects that it is gone.
//!
//! This process is a subreaper, so all descendants of a command stay below it, whatever they do to their parents,
//! group or session. If `wait` reports that there are no children, no descendants are left; that needs no scan.
//! `/proc` is read only if some are left. It is read through `stat`, because the `children` files do not exist on
//! every kernel.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, pidfd_open, pidfd_send_signal, wait, waitpid,
};

/// How long to wait for killed processes.
pub(super) const GIVE_UP: Duration = Duration::from_secs(10);

/// Minimum and maximum interval between two checks of a tree that is ending.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of scans of one kill.
const MOST_LOOKS: usize = 20;

/// One process, distinguished from a later one with the same id by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) pid: i32,
    started: u64,
}

/// Processes seen in several scans, each once.
pub(super) type Seen = HashSet<Process>;

struct Stat {
    process: Process,
    parent: i32,
    dead: bool,
    ticks: u64,
}

/// Every living process below this one.
fn living() -> Vec<Process> {
    living_without(&HashSet::new())
}

/// Every living process below this one, without these children and what is below them.
fn living_without(skipped: &HashSet<i32>) -> Vec<Process> {
    let mut below: HashMap<i32, Vec<Stat>> = HashMap::new();
    for stat in numbers().filter_map(stat) {
        below.entry(stat.parent).or_default().push(stat);
    }
    let mut parents = vec![getpid().as_raw_nonzero().get()];
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        for child in below.remove(&parent).unwrap_or_default() {
            if skipped.contains(&child.process.pid) {
                continue;
            }
            parents.push(child.process.pid);
            if !child.dead {
                found.push(child.process);
            }
        }
    }
    found
}

/// Sends TERM to every process below, and CONT so that stopped ones receive it.
pub(super) fn ask_to_end() -> Vec<Process> {
    let processes = living();
    for process in &processes {
        signal(*process, Signal::TERM);
        signal(*process, Signal::CONT);
    }
    processes
}

/// Kills every process below, and scans again until it finds none that it has not killed.
///
/// A process that forks and exits immediately can escape one scan, but hardly several in a row: a chain of 1,500
/// forks per second that ignored TERM, also with a new session at each, was ended within 200 ms.
pub(super) fn kill() -> Seen {
    let mut killed = Seen::new();
    for _ in 0..MOST_LOOKS {
        let found: Vec<Process> = living().into_iter().filter(|process| killed.insert(*process)).collect();
        if found.is_empty() {
            break;
        }
        found.into_iter().for_each(|process| signal(process, Signal::KILL));
    }
    killed
}

/// Kills until no process is left, or until [`GIVE_UP`].
pub(super) fn end_all() {
    let give_up_at = Instant::now() + GIVE_UP;
    let mut pause = FIRST_PAUSE;
    while !reap(|_, _| {}) && Instant::now() < give_up_at {
        kill();
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Kills and reaps the processes that were reparented to this one: all below it, without its `children` and what is
/// below them. The children are locked while `/proc` is read, so that none is added meanwhile.
pub(crate) fn end_orphans(children: &Mutex<HashSet<i32>>) {
    let give_up_at = Instant::now() + GIVE_UP;
    let mut pause = FIRST_PAUSE;
    while kill_orphans(&children.lock().unwrap_or_else(PoisonError::into_inner))
        && Instant::now() < give_up_at
    {
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns true if there were any.
fn kill_orphans(children: &HashSet<i32>) -> bool {
    let orphans = living_without(children);
    for orphan in &orphans {
        signal(*orphan, Signal::KILL);
        if let Some(pid) = Pid::from_raw(orphan.pid) {
            let _may_have_another_parent = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
    !orphans.is_empty()
}

/// Reaps every child that has ended; returns true if no child is left.
pub(super) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended(pid, status),
            Ok(None) => return false,
            Err(Errno::INTR) => {}
            Err(_) => return true,
        }
    }
}

/// CPU time of a process and of the children it waited for; readable until it is reaped.
pub(super) fn processor_time(pid: Pid) -> Duration {
    let ticks = stat(pid.as_raw_nonzero().get()).map_or(0, |stat| stat.ticks);
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_micros(ticks.saturating_mul(1_000_000) / per_second)
}

/// A pidfd refers to one process; the id could have been reused since the scan.
fn signal(process: Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if stat(process.pid).is_some_and(|stat| stat.process == process) {
        let _may_have_ended = pidfd_send_signal(handle, signal);
    }
}

fn numbers() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn stat(pid: i32) -> Option<Stat> {
    parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name of the program is in parentheses and may contain any byte, so the fields are counted from its end.
fn parse(pid: i32, line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&line[name_end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The state is the third field of the line and the first of these.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        process: Process { pid, started: number(22)? },
        parent: fields.get(1)?.parse().ok()?,
        dead: matches!(*fields.first()?, "Z" | "X"),
        ticks: (14..=17).filter_map(number).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let line = b"7 (a) R 1 (\xff) S 42 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 99 0 0\n";
        let stat = parse(7, line).expect("a stat line");
        assert_eq!((stat.parent, stat.process.started, stat.ticks, stat.dead), (42, 99, 10, false));
        assert!(parse(7, b"7 (a) Z 42").is_none());
        assert!(parse(7, b"").is_none());
    }

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        let pid = i32::try_from(child.id()).expect("a pid");
        assert!(living().iter().any(|process| process.pid == pid));
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert!(living().iter().all(|process| process.pid != pid));
    }
}
