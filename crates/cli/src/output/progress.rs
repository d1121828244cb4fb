//! Progress on standard error: a bar on a terminal, counters in CI, nothing in a pipe.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval between two counters in CI.
const COUNTER: Duration = Duration::from_secs(10);

/// Transfers of at least this size show progress.
pub const LARGE_BYTES: u64 = 8 << 20;

/// The kind of progress display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    Bar,
    /// A line at intervals.
    Counter,
    None,
}

impl Manner {
    /// The display for the current environment.
    pub fn here(quiet: bool) -> Manner {
        let ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false");
        Manner::choose(quiet, std::io::stderr().is_terminal(), ci)
    }

    fn choose(quiet: bool, terminal: bool, ci: bool) -> Manner {
        match (quiet, terminal, ci) {
            (true, _, _) => Manner::None,
            (_, true, false) => Manner::Bar,
            (_, _, true) => Manner::Counter,
            _ => Manner::None,
        }
    }
}

/// The progress of one task.
#[derive(Debug)]
pub struct Progress {
    manner: Manner,
    bar: ProgressBar,
    what: &'static str,
    told: Instant,
}

impl Progress {
    /// Progress towards a total.
    pub fn new(manner: Manner, total: u64, what: &'static str) -> Progress {
        let target = match manner {
            Manner::Bar => ProgressDrawTarget::stderr(),
            Manner::Counter | Manner::None => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {elapsed}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what);
        Progress { manner, bar, what, told: Instant::now() }
    }

    /// Sets the total.
    pub fn grow(&self, total: u64) {
        self.bar.set_length(total);
    }

    pub fn set(&mut self, position: u64, note: &str) {
        let note = if note.is_empty() { self.what.to_owned() } else { format!("{} ({note})", self.what) };
        self.bar.set_message(note.clone());
        self.bar.set_position(position);
        if self.manner == Manner::Counter && self.told.elapsed() >= COUNTER {
            self.told = Instant::now();
            let total = self.bar.length().unwrap_or(0);
            super::talk(&format!("{note}: {position}/{total}"));
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_for_terminals_counters_for_ci_and_pipes_get_nothing() {
        assert_eq!(Manner::choose(false, true, false), Manner::Bar);
        assert_eq!(Manner::choose(false, false, true), Manner::Counter);
        assert_eq!(Manner::choose(false, true, true), Manner::Counter);
        assert_eq!(Manner::choose(false, false, false), Manner::None);
        assert_eq!(Manner::choose(true, true, false), Manner::None);
    }
}
