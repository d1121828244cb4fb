//! The moments of a schedule.
//!
//! On days on which the clocks are changed a cron line keeps to what people expect. With an hour of its own (`30 2 * * *`)
//! it comes once a day: at the end of what is left out, and only the first time of what comes twice. In every hour
//! (`30 * * * *`) it comes whenever the clock on the wall shows it.

use jiff::civil::DateTime;

use crate::bounds::{DELAY_MS, EVERY_MS};
use crate::time::Time;
use crate::zone::Zone;

use super::ScheduleError;
use super::cron::Cron;

/// Which moments are ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// By the clock on the wall.
    Cron(Cron),
    /// At even distances from a moment, to whichever side. Does not drift: a late tick does not move the next.
    Every {
        /// The distance.
        ms: u64,
        /// A moment that is a tick.
        anchor: Time,
    },
}

impl Rhythm {
    pub(super) fn check(&self) -> Result<(), ScheduleError> {
        match self {
            Rhythm::Every { ms, .. } if !(EVERY_MS..=DELAY_MS).contains(ms) => Err(ScheduleError::Every(*ms)),
            Rhythm::Every { .. } | Rhythm::Cron(_) => Ok(()),
        }
    }

    pub(super) fn next_tick(&self, zone: &Zone, after: Time) -> Option<Time> {
        match self {
            Rhythm::Every { ms, anchor } => next_even(*ms, *anchor, after),
            Rhythm::Cron(cron) if cron.is_hourly() => next_shown(cron, zone, after),
            Rhythm::Cron(cron) => next_once(cron, zone, after),
        }
    }
}

fn next_even(ms: u64, anchor: Time, after: Time) -> Option<Time> {
    let ms = i64::try_from(ms).ok()?;
    let past = (after.as_ms() - anchor.as_ms()).rem_euclid(ms);
    Time::from_ms(after.as_ms() - past + ms).ok()
}

/// The first moment after this one that belongs to a clock time of the line, each having one moment.
fn next_once(cron: &Cron, zone: &Zone, after: Time) -> Option<Time> {
    let mut from = next_minute(zone.civil(after))?;
    loop {
        let civil = cron.next(from)?;
        let (moment, _) = zone.moments(civil);
        // In the second pass of an hour that comes twice the line may have been seen to in the first.
        if moment > after {
            return (moment < Time::END).then_some(moment);
        }
        from = next_minute(civil)?;
    }
}

/// The first moment after this one at which the clock shows a time of the line. Between two changes of the clocks
/// moments and clock times run alike.
fn next_shown(cron: &Cron, zone: &Zone, after: Time) -> Option<Time> {
    let mut from = next_minute(zone.civil(after))?;
    let mut changes = zone.changes(after);
    let mut begin = (after, zone.civil(after));
    loop {
        let civil = cron.next(from)?;
        let ahead = civil.duration_since(begin.1).as_millis();
        let moment = Time::from_ms(begin.0.as_ms() + i64::try_from(ahead).ok()?).ok()?;
        match changes.next() {
            Some(change) if change <= moment => {
                begin = (change, zone.civil(change));
                from = whole_minute(begin.1)?;
            }
            _ => return Some(moment),
        }
    }
}

/// The minute after the one that has begun.
fn next_minute(civil: DateTime) -> Option<DateTime> {
    minute_of(civil)?.checked_add(jiff::SignedDuration::from_mins(1)).ok()
}

/// This moment, or the next minute when some of this one has passed.
fn whole_minute(civil: DateTime) -> Option<DateTime> {
    let minute = minute_of(civil)?;
    if minute == civil { Some(minute) } else { next_minute(civil) }
}

fn minute_of(civil: DateTime) -> Option<DateTime> {
    civil.with().second(0).subsec_nanosecond(0).build().ok()
}
