//! The times of a schedule.
//!
//! On days on which the clocks change, a cron expression behaves as users expect. With a given hour (`30 2 * * *`) it
//! ticks once a day: at the end of the skipped time, and only at the first of two repeated times. In every hour
//! (`30 * * * *`) it ticks whenever the local clock shows the time.

use jiff::civil::DateTime;

use crate::bounds::{DELAY_MS, EVERY_MS};
use crate::time::Time;
use crate::time::zone::Zone;

use super::ScheduleError;
use super::cron::Cron;

/// Which times are ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rhythm {
    /// By the local wall clock.
    Cron(Cron),
    /// At a fixed interval from an anchor, before and after it. Does not drift: a late tick does not delay the next.
    Every {
        /// The interval.
        ms: u64,
        /// A time that is a tick.
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

/// The first time after this one that belongs to a local time of the expression, one time for each.
fn next_once(cron: &Cron, zone: &Zone, after: Time) -> Option<Time> {
    let mut from = next_minute(zone.civil(after))?;
    loop {
        let civil = cron.next(from)?;
        let (moment, _) = zone.moments(civil);
        // In the second pass of a repeated hour, the tick may have been handled in the first.
        if moment > after {
            return (moment < Time::END).then_some(moment);
        }
        from = next_minute(civil)?;
    }
}

/// The first time after this one at which the local clock shows a time of the expression. Between two clock changes,
/// times and local times advance alike.
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

/// This time, or the next minute if part of this one has passed.
fn whole_minute(civil: DateTime) -> Option<DateTime> {
    let minute = minute_of(civil)?;
    if minute == civil { Some(minute) } else { next_minute(civil) }
}

fn minute_of(civil: DateTime) -> Option<DateTime> {
    civil.with().second(0).subsec_nanosecond(0).build().ok()
}
