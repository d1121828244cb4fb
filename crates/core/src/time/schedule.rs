//! Schedules: the times at which jobs are created repeatedly.
//!
//! A tick is a time given by the rhythm, and one job is created for it. Ticks are computed from the last one that was
//! handled, and that one is stored with the job it created: a clock that is set back, a restart or a second node
//! cannot repeat a tick. Ticks missed while no server was running are caught up with as configured.

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
use crate::time::zone::Zone;

pub use cron::Cron;
pub use cron_error::{CronError, CronErrorKind};
pub use rhythm::Rhythm;

/// Ticks older than this count as missed; newer ones are only late.
pub const LATE_MS: u64 = 60_000;

/// What happens to ticks that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// They are dropped.
    None,
    /// The last of them gets its job; the others are dropped.
    #[default]
    One,
    /// Each gets its job, or the newest hundred if there are more.
    All,
}

/// What happens to a tick while the job of an earlier one is not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It is skipped.
    #[default]
    Skip,
    /// Its job is created and may run in parallel with the other.
    Allow,
}

/// When a schedule ticks, and how its ticks are handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The times of the ticks.
    pub when: Rhythm,
    /// The time zone of a cron expression.
    pub zone: Zone,
    /// Maximum delay of a job after its tick, always the same for the same tick; 0 starts it immediately.
    pub jitter_ms: u64,
    /// What happens to ticks that were missed.
    pub catch_up: CatchUp,
    /// What happens to ticks while an earlier job is not completed.
    pub overlap: Overlap,
    /// Whether it is paused: ticks create no job, and are not caught up with.
    pub paused: bool,
}

/// Why a schedule is invalid.
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
    /// Rejects numbers beyond the limits.
    pub fn check(&self) -> Result<(), ScheduleError> {
        if self.jitter_ms > DELAY_MS {
            return Err(ScheduleError::Jitter(self.jitter_ms));
        }
        self.when.check()
    }

    /// The first tick after this time; none if it is beyond the range of time.
    #[must_use]
    pub fn next_tick(&self, after: Time) -> Option<Time> {
        self.when.next_tick(&self.zone, after)
    }

    /// The ticks after `last` that need a job now, in order: late ones, and as many of the missed ones as are caught
    /// up with.
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

    /// The last tick after `since` and up to `until`, found by bisection: there is a tick between two times exactly if
    /// the next tick after the earlier time is not after the later one.
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
    /// computes the same time.
    #[must_use]
    pub fn start_of(&self, name: &ScheduleName, tick: Time) -> Time {
        let spread = self.jitter_ms.saturating_add(1);
        tick.plus_ms(hash(name.as_str(), tick) % spread)
    }
}

/// FNV-1a over name and tick, mixed so that its low bits are evenly distributed. It is not stored, but must be the
/// same on every node: do not change it without need.
fn hash(name: &str, tick: Time) -> u64 {
    let tick = tick.as_ms().to_le_bytes();
    let bytes = name.bytes().chain([0]).chain(tick);
    let mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let stirred = (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    stirred ^ (stirred >> 29)
}
