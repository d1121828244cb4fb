//! Cron expressions: minute, hour, day of the month, month and day of the week.
//!
//! ```text
//! 30 2 * * *          at half past two
//! */15 9-17 * * mon-fri   every quarter of an hour in working hours
//! 0 0 1,15 * *        on the first and the fifteenth
//! @daily              at midnight; also @hourly @weekly @monthly @yearly
//! ```
//!
//! As in other cron implementations, if both the day of the month and the day of the week are given, either is
//! sufficient. A field that begins with a star does not count as given.

use std::fmt;

use jiff::civil::{Date, DateTime};

use crate::bounds::CRON_BYTES;
use crate::needs::slips;

use super::cron_error::{CronError, CronErrorKind};
use super::field::{DAY, Field, HOUR, MINUTE, MONTH, WEEKDAY, field};

/// Names for common lines.
const ALIASES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// How many years a day is searched. The rarest day is 29 February on a given day of the week, across a year such as
/// 2100 that has none: 40 years.
const YEARS: i16 = 41;

/// A validated cron expression. Equal when the texts are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: Box<str>,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

impl Cron {
    /// Parses five fields or a name such as `@daily`.
    ///
    /// # Errors
    /// The first thing wrong with the line, and where; also a line that never comes, such as 30 February.
    pub fn parse(text: &str) -> Result<Cron, CronError> {
        if text.len() > CRON_BYTES {
            return Err(CronError::at("", 0, CronErrorKind::TooLong(text.len())));
        }
        let words = words(text);
        let cron = match words.as_slice() {
            [(at, alias)] if alias.starts_with('@') => {
                Cron::read(alias, &self::words(line(text, *at, alias)?))?
            }
            _ => Cron::read(text, &words)?,
        };
        match cron.next_day(Date::constant(2096, 2, 29)) {
            Some(_) => Ok(cron),
            None => Err(CronError::at("", 0, CronErrorKind::Never)),
        }
    }

    fn read(text: &str, words: &[(usize, &str)]) -> Result<Cron, CronError> {
        let [minute, hour, day, month, weekday] = words else {
            return Err(CronError::at(text, 0, CronErrorKind::Fields(words.len())));
        };
        let read = |(at, word): &(usize, &str), kind| {
            field(word, kind).map_err(|(offset, kind)| CronError::at(text, at + offset, kind))
        };
        let normal = text.split_whitespace().collect::<Vec<_>>().join(" ").to_ascii_lowercase();
        Ok(Cron {
            text: normal.into(),
            minutes: read(minute, &MINUTE)?,
            hours: read(hour, &HOUR)?,
            days: read(day, &DAY)?,
            months: read(month, &MONTH)?,
            weekdays: read(weekday, &WEEKDAY)?.with_sunday_first(),
        })
    }

    /// The expression, in lower case and with single spaces.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it has a time in every hour.
    pub(super) fn is_hourly(&self) -> bool {
        self.hours.is_full(&HOUR)
    }

    /// The first local time of the expression from this one on; seconds must be 0.
    pub(super) fn next(&self, from: DateTime) -> Option<DateTime> {
        let date = self.next_day(from.date())?;
        if date == from.date() {
            if let Some(time) = self.next_time(from.hour(), from.minute()) {
                return Some(date.at(time.0, time.1, 0, 0));
            }
            let date = self.next_day(date.tomorrow().ok()?)?;
            return self.first_time().map(|(hour, minute)| date.at(hour, minute, 0, 0));
        }
        self.first_time().map(|(hour, minute)| date.at(hour, minute, 0, 0))
    }

    fn first_time(&self) -> Option<(i8, i8)> {
        self.next_time(0, 0)
    }

    fn next_time(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        let this_hour = self.hours.next(hour).filter(|&found| found == hour);
        if let Some(found) = this_hour.and_then(|_| self.minutes.next(minute)) {
            return Some((hour, found));
        }
        Some((self.hours.next(hour + 1)?, self.minutes.next(0)?))
    }

    fn next_day(&self, from: Date) -> Option<Date> {
        let last = from.year().saturating_add(YEARS);
        let mut date = from;
        while date.year() <= last {
            if self.has_day(date) {
                return Some(date);
            }
            let next = if self.months.has(date.month()) { date } else { date.last_of_month() };
            date = next.tomorrow().ok()?;
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        let either = !self.days.star && !self.weekdays.star;
        self.months.has(date.month()) && if either { day || weekday } else { day && weekday }
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn words(text: &str) -> Vec<(usize, &str)> {
    let begin = |word: &str| word.as_ptr().addr() - text.as_ptr().addr();
    text.split_whitespace().map(|word| (begin(word), word)).collect()
}

/// The expression of an alias.
fn line(text: &str, at: usize, alias: &str) -> Result<&'static str, CronError> {
    let alias = alias.to_ascii_lowercase();
    if let Some((_, line)) = ALIASES.iter().find(|(name, _)| *name == alias) {
        return Ok(line);
    }
    let near = ALIASES.iter().map(|(name, _)| (slips(&alias, name), *name)).min();
    let meant = near.filter(|(slips, _)| *slips <= 2).map(|(_, name)| name);
    Err(CronError::at(text, at, CronErrorKind::Alias(alias, meant)))
}
