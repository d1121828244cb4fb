//! Time-of-day windows: when a job may start.
//!
//! A window is open according to the local wall clock of its zone. This also defines days on which the clocks change:
//! a window that would begin in the skipped hour begins after it, and one in the repeated hour opens twice. A window
//! that lies wholly in the skipped time does not open that day.
//!
//! ```text
//! 22:00-06:00 Europe/Berlin, 12:00-13:00       at night and at lunch, both in Berlin
//! mon-fri 09:00-17:00 America/New_York         on working days
//! sat sun 00:00-00:00                          from midnight to midnight, UTC
//! ```
//!
//! A window is `[days] start-end [zone]`. Its days are those on which it begins; none means every day. The end is
//! exclusive. An end before the start is on the next day, an end equal to the start is 24 hours later. A zone applies
//! to its window and those after it, until another is named; the default is UTC.

mod days;
mod error;
mod parse;

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use jiff::civil::DateTime;

use crate::bounds::WINDOWS_BYTES;
use crate::name::as_text;
use crate::time::Time;
use crate::time::zone::Zone;

use days::Days;

pub use error::{WindowError, WindowErrorKind};

/// How many days the next opening or closing is searched: windows repeat every week, and one may fall into hours or a
/// day that are skipped.
const HORIZON: u64 = 22;
const DAY_MS: u64 = 24 * 3_600 * 1_000;

/// When a job may start. Cheap to clone; equal when the canonical texts are equal. By default at any time.
#[derive(Clone, Debug, Default)]
pub struct Windows(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    text: Box<str>,
    windows: Box<[Window]>,
}

/// One window of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    days: Days,
    /// Minutes after midnight.
    start: u16,
    /// Minutes after midnight; not after the start if it is on the next day.
    end: u16,
    zone: Zone,
}

as_text!(Windows, Windows::parse);

impl Windows {
    /// Parses windows separated by commas; an empty text is open at any time.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where.
    pub fn parse(text: &str) -> Result<Windows, WindowError> {
        let windows = parse::windows(text)?;
        if windows.is_empty() {
            return Ok(Windows::default());
        }
        let canonical = canonical(&windows);
        if canonical.len() > WINDOWS_BYTES {
            return Err(WindowError::too_long(canonical.len()));
        }
        Ok(Windows(Some(Arc::new(Inner { text: canonical.into(), windows: windows.into() }))))
    }

    /// The canonical text: in the order given, days and times normalised, the zone named.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_deref().map_or("", |inner| &inner.text)
    }

    /// Whether it is never closed.
    #[must_use]
    pub fn is_always(&self) -> bool {
        self.windows().is_empty() || self.windows().iter().any(Window::is_always)
    }

    /// Whether a job may start at this time.
    #[must_use]
    pub fn open_at(&self, at: Time) -> bool {
        self.is_always() || self.windows().iter().any(|window| window.contains(window.zone.civil(at)))
    }

    /// The first time, from this one on, at which a job may start.
    #[must_use]
    pub fn next_open(&self, from: Time) -> Time {
        self.first(from, true).unwrap_or(Time::END)
    }

    /// The first time, from this one on, at which no job may start; none if it never closes.
    #[must_use]
    pub fn closes_at(&self, from: Time) -> Option<Time> {
        self.first(from, false)
    }

    /// Since when it has been open at this time; none if it is closed or always open.
    #[must_use]
    pub fn opened_at(&self, at: Time) -> Option<Time> {
        if self.is_always() || !self.open_at(at) {
            return None;
        }
        let opens = |turn: &Time| self.open_at(*turn) && !self.open_at(turn.minus_ms(1));
        (0..HORIZON).find_map(|day| {
            let end = at.minus_ms(DAY_MS * day);
            self.turns(end.minus_ms(DAY_MS), end).into_iter().rfind(opens)
        })
    }

    /// When a job starts that was requested for this time: not before it, and only while a window is open. A job that
    /// missed an opening starts in the current one, or in the next.
    #[must_use]
    pub fn start_of(&self, asked: Time, now: Time) -> Time {
        let start = asked.max(now);
        if !self.open_at(start) {
            return self.next_open(start);
        }
        let opened = if asked <= now { self.opened_at(start) } else { None };
        opened.map_or(asked, |opened| asked.max(opened))
    }

    fn windows(&self) -> &[Window] {
        self.0.as_deref().map_or(&[], |inner| &inner.windows)
    }

    fn first(&self, from: Time, open: bool) -> Option<Time> {
        if self.open_at(from) == open {
            return Some(from);
        }
        if self.is_always() {
            return None;
        }
        (0..HORIZON).find_map(|day| {
            let begin = from.plus_ms(DAY_MS * day);
            self.turns(begin, begin.plus_ms(DAY_MS)).into_iter().find(|&turn| self.open_at(turn) == open)
        })
    }

    /// Every time after `begin` up to `end` at which a window may open or close, in order.
    fn turns(&self, begin: Time, end: Time) -> Vec<Time> {
        let mut turns: Vec<Time> =
            self.windows().iter().flat_map(|window| window.turns(begin, end)).collect();
        turns.retain(|&turn| turn > begin && turn <= end);
        turns.sort_unstable();
        turns
    }
}

impl Window {
    fn is_always(&self) -> bool {
        self.days.is_every() && self.start == self.end
    }

    fn contains(&self, civil: DateTime) -> bool {
        let minute = minute_of(civil);
        let today = self.days.has(civil.date());
        if self.start < self.end {
            return today && (self.start..self.end).contains(&minute);
        }
        let yesterday = civil.date().yesterday().is_ok_and(|yesterday| self.days.has(yesterday));
        (today && minute >= self.start) || (yesterday && minute < self.end)
    }

    /// Its starts and ends around these times, and the clock changes between them.
    fn turns(&self, begin: Time, end: Time) -> Vec<Time> {
        let mut turns: Vec<Time> = self.zone.changes(begin).take_while(|&change| change <= end).collect();
        let mut date = self.zone.civil(begin).date();
        let last = self.zone.civil(end).date();
        while date <= last {
            for minute in [self.start, self.end] {
                let (first, second) = self.zone.moments(date.to_datetime(clock(minute)));
                turns.extend([first, second]);
            }
            let Ok(next) = date.tomorrow() else { break };
            date = next;
        }
        turns
    }
}

fn minute_of(civil: DateTime) -> u16 {
    u16::from(civil.hour().unsigned_abs()) * 60 + u16::from(civil.minute().unsigned_abs())
}

fn clock(minute: u16) -> jiff::civil::Time {
    let midnight = jiff::civil::Time::midnight();
    midnight.wrapping_add(jiff::SignedDuration::from_mins(i64::from(minute)))
}

fn canonical(windows: &[Window]) -> String {
    let mut text = String::new();
    let mut zone = None;
    for window in windows {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&window.to_string());
        if zone != Some(&window.zone) {
            text.push(' ');
            text.push_str(window.zone.as_str());
            zone = Some(&window.zone);
        }
    }
    text
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.days.is_every() {
            write!(f, "{} ", self.days)?;
        }
        let (start, end) = (self.start, self.end);
        write!(f, "{:02}:{:02}-{:02}:{:02}", start / 60, start % 60, end / 60, end % 60)
    }
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Windows {
    fn eq(&self, other: &Windows) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Windows {}

impl Hash for Windows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
