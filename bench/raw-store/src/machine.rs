//! The cost of a run, read from `/proc`, and the current duration of a sync.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Any error ends the program.
pub type Failed = Box<dyn Error + Send + Sync>;

/// Clock ticks per second in `/proc`; Linux shows 100 to every program, regardless of its timer.
const TICKS: f64 = 100.0;
/// Number of overwrites in one measurement of the sync.
const SYNCS: u64 = 300;
const PAGE: usize = 4_096;
/// Number of pages of the file that the sync is measured on.
const PAGES: u64 = 1_024;

/// A snapshot of the counters of the machine and of this process.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    at: Instant,
    cpu_seconds: f64,
    written: u64,
    steal: u64,
    ticks: u64,
}

/// The difference between two snapshots.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    pub seconds: f64,
    /// CPU time of this process, all threads.
    pub cpu_seconds: f64,
    /// Bytes that this process passed to `write` (`wchar`), log and checkpoints included.
    pub bytes: u64,
    /// Share of the machine's CPU time that the hypervisor gave to others.
    pub steal_percent: f64,
}

impl Sample {
    /// Takes a snapshot.
    pub fn now() -> Result<Sample, Failed> {
        let (steal, ticks) = machine_ticks(&fs::read_to_string("/proc/stat")?)?;
        Ok(Sample {
            at: Instant::now(),
            cpu_seconds: cpu_seconds(&fs::read_to_string("/proc/self/stat")?)?,
            written: written(&fs::read_to_string("/proc/self/io")?)?,
            steal,
            ticks,
        })
    }

    /// The difference to an earlier snapshot.
    pub fn since(&self, earlier: &Sample) -> Used {
        let ticks = self.ticks.saturating_sub(earlier.ticks).max(1);
        let steal = self.steal.saturating_sub(earlier.steal);
        Used {
            seconds: self.at.duration_since(earlier.at).as_secs_f64(),
            cpu_seconds: self.cpu_seconds - earlier.cpu_seconds,
            bytes: self.written.saturating_sub(earlier.written),
            steal_percent: 100.0 * steal as f64 / ticks as f64,
        }
    }
}

/// Resident memory of this process.
pub fn resident_bytes() -> Result<u64, Failed> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no resident memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1_024)
}

/// Stolen ticks and total ticks of the machine.
fn machine_ticks(stat: &str) -> Result<(u64, u64), Failed> {
    let line = stat.lines().next().ok_or("/proc/stat is empty")?;
    let numbers: Result<Vec<u64>, _> = line.split_whitespace().skip(1).map(str::parse).collect();
    let numbers = numbers?;
    // user nice system idle iowait irq softirq steal; guest time, which follows, is already part of user.
    let steal = *numbers.get(7).ok_or("/proc/stat has no steal")?;
    Ok((steal, numbers.iter().take(8).sum()))
}

/// User and system time in a `stat` file of a process or thread. The name in it, in parentheses, may contain
/// anything.
fn cpu_seconds(stat: &str) -> Result<f64, Failed> {
    let (_, after_name) = stat.rsplit_once(')').ok_or("a stat file without a name")?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || -> Result<f64, Failed> { Ok(fields.next().ok_or("a short stat file")?.parse()?) };
    Ok((ticks()? + ticks()?) / TICKS)
}

fn written(io: &str) -> Result<u64, Failed> {
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    Ok(line.ok_or("/proc/self/io has no wchar")?.trim().parse()?)
}

/// CPU seconds of the living threads of this process, summed by name.
pub fn cpu_by_thread() -> Result<BTreeMap<String, f64>, Failed> {
    let mut found = BTreeMap::new();
    for thread in fs::read_dir("/proc/self/task")? {
        // A thread may end between the listing and the read.
        let Ok(stat) = fs::read_to_string(thread?.path().join("stat")) else { continue };
        let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map(|(name, _)| name);
        *found.entry(name.unwrap_or("?").to_owned()).or_insert(0.0) += cpu_seconds(&stat)?;
    }
    Ok(found)
}

/// The current duration of a sync: the median time of a 4 KiB overwrite in a preallocated file with its fdatasync, in
/// microseconds. SQLite's log is such a file once it is reused.
pub fn fdatasync_us(directory: &Path) -> Result<f64, Failed> {
    let path = directory.join("sync-of-the-day");
    let opened = OpenOptions::new().create(true).truncate(true).write(true).open(&path);
    let measured = opened.map_err(Failed::from).and_then(|file| overwrite(&file));
    fs::remove_file(&path)?;
    Ok(median(measured?).as_secs_f64() * 1e6)
}

fn overwrite(file: &File) -> Result<Vec<Duration>, Failed> {
    for page in 0..PAGES {
        file.write_all_at(&[1; PAGE], page * PAGE as u64)?;
    }
    file.sync_all()?;
    let mut times = Vec::new();
    for turn in 0..SYNCS {
        let begun = Instant::now();
        file.write_all_at(&[2; PAGE], turn % PAGES * PAGE as u64)?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// The median; zero if empty.
pub fn median(times: Vec<Duration>) -> Duration {
    percentile(times, 50)
}

/// The percentile; zero if empty.
pub fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0\n";
        assert!((cpu_seconds(stat).unwrap() - 4.0).abs() < 1e-9);
        assert_eq!(machine_ticks("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\n").unwrap(), (8, 36));
        assert_eq!(written("rchar: 5\nwchar: 17\n").unwrap(), 17);
        assert!(cpu_seconds("7").is_err());
    }

    #[test]
    fn percentiles_are_of_sorted_times() {
        let times: Vec<_> = (0..100).rev().map(Duration::from_millis).collect();
        assert_eq!(median(times.clone()), Duration::from_millis(50));
        assert_eq!(percentile(times, 99), Duration::from_millis(99));
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }

    #[test]
    fn this_machine_is_seen() {
        let before = Sample::now().unwrap();
        let used = Sample::now().unwrap().since(&before);
        assert!(used.seconds >= 0.0 && used.cpu_seconds >= 0.0);
        assert!(!cpu_by_thread().unwrap().is_empty());
    }
}
