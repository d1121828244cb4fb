//! Schedules: at which moments a job is made, again and again.
//!
//! A tick is a moment that the rhythm names, and one job is made for it. Ticks are found from the last one that was
//! seen to, and that one is stored with the job it made: a clock that is set back, a restart or a second node cannot
//! make a tick happen twice. What passed while nobody looked is caught up with as the schedule says.

mod cron;
mod cron_error;
mod field;
mod rhythm;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bounds::{CATCH_UP_TICKS, DELAY_MS, EVERY_MS};
use crate::name::ScheduleName;
use crate::time::Time;
use crate::zone::Zone;

pub use cron::Cron;
pub use cron_error::{CronError, CronErrorKind};
pub use rhythm::Rhythm;

/// Ticks further back than this count as missed; nearer ones are only late.
pub const LATE_MS: u64 = 60_000;

/// What happens to ticks that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// They are gone.
    None,
    /// The last of them is made, the others are gone.
    #[default]
    One,
    /// Each is made, or the newest hundred where there are more.
    All,
}

/// What happens to a tick while the job of an earlier one is not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It passes without a job.
    #[default]
    Skip,
    /// Its job is made and may run beside the other.
    Allow,
}

/// When ticks are, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The moments.
    pub when: Rhythm,
    /// Whose clock a cron line means.
    pub zone: Zone,
    /// A job starts up to so long after its tick, always as long for the same tick; 0 starts it at once.
    pub jitter_ms: u64,
    /// What happens to ticks that were missed.
    pub catch_up: CatchUp,
    /// What happens to ticks that come too soon.
    pub overlap: Overlap,
    /// Ticks pass without a job, and are not caught up with.
    pub paused: bool,
}

/// Why a schedule was not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleError {
    /// Ticks too close together or too far apart, in milliseconds.
    Every(u64),
    /// Jitter beyond the limit, in milliseconds.
    Jitter(u64),
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleError::Every(ms) => write!(f, "every {ms} ms is outside {EVERY_MS} to {DELAY_MS}"),
            ScheduleError::Jitter(ms) => write!(f, "jitter of {ms} ms is outside 0 to {DELAY_MS}"),
        }
    }
}

impl std::error::Error for ScheduleError {}

impl Schedule {
    /// Refuses numbers beyond the limits.
    pub fn check(&self) -> Result<(), ScheduleError> {
        if self.jitter_ms > DELAY_MS {
            return Err(ScheduleError::Jitter(self.jitter_ms));
        }
        self.when.check()
    }

    /// The first tick after this moment; none when time ends before it.
    #[must_use]
    pub fn next_tick(&self, after: Time) -> Option<Time> {
        self.when.next_tick(&self.zone, after)
    }

    /// The ticks after `last` that want a job now, in order: those that are only late, and of the missed ones as many
    /// as are caught up with.
    #[must_use]
    pub fn due(&self, last: Time, now: Time) -> Vec<Time> {
        let late = now.minus_ms(LATE_MS);
        let mut ticks = match self.catch_up {
            CatchUp::None => Vec::new(),
            CatchUp::One => self.missed(last, late, 1),
            CatchUp::All => self.missed(last, late, CATCH_UP_TICKS),
        };
        let mut after = last.max(late);
        while let Some(tick) = self.next_tick(after).filter(|&tick| tick <= now) {
            ticks.push(tick);
            after = tick;
        }
        ticks
    }

    /// The newest ticks after `last` and up to `until`, in order.
    fn missed(&self, last: Time, until: Time, most: usize) -> Vec<Time> {
        let before = |tick: &Time| self.last_tick(last, tick.minus_ms(1));
        let mut ticks: Vec<Time> =
            std::iter::successors(self.last_tick(last, until), before).take(most).collect();
        ticks.reverse();
        ticks
    }

    /// The last tick after `since` and up to `until`. Found by halving: there is a tick in between exactly when the
    /// next one after the earlier moment is not past the later one.
    fn last_tick(&self, since: Time, until: Time) -> Option<Time> {
        let next = |after: Time| self.next_tick(after).filter(|&tick| tick <= until);
        let mut found = next(since)?;
        let mut beyond = until;
        while found < beyond {
            let middle = found.plus_ms(beyond.since(found) / 2);
            match next(middle) {
                Some(later) => found = later,
                None => beyond = middle,
            }
        }
        Some(found)
    }

    /// When the job of a tick starts: spread over the jitter by name and tick, so that each node and each restart
    /// comes to the same moment.
    #[must_use]
    pub fn start_of(&self, name: &ScheduleName, tick: Time) -> Time {
        let spread = self.jitter_ms.saturating_add(1);
        tick.plus_ms(hash(name.as_str(), tick) % spread)
    }
}

/// FNV-1a over name and tick, stirred so that its low bits spread evenly. Stored nowhere, but the same on every node:
/// to be changed for no reason.
fn hash(name: &str, tick: Time) -> u64 {
    let tick = tick.as_ms().to_le_bytes();
    let bytes = name.bytes().chain([0]).chain(tick);
    let mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let stirred = (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    stirred ^ (stirred >> 29)
}
