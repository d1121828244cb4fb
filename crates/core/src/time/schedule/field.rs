//! One field of a cron expression.

use crate::needs::slips;

use super::cron_error::CronErrorKind;

/// The range of a field.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    least: u8,
    most: u8,
    /// Names of its values, from the minimum on.
    words: &'static [&'static str],
}

pub(super) const MINUTE: Kind = Kind { name: "minute", least: 0, most: 59, words: &[] };
pub(super) const HOUR: Kind = Kind { name: "hour", least: 0, most: 23, words: &[] };
pub(super) const DAY: Kind = Kind { name: "day of the month", least: 1, most: 31, words: &[] };
pub(super) const MONTH: Kind = Kind {
    name: "month",
    least: 1,
    most: 12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
pub(super) const WEEKDAY: Kind = Kind {
    name: "day of the week",
    least: 0,
    most: 7,
    words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// A set of values, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    bits: u64,
    /// Whether it began with a star.
    pub(super) star: bool,
}

impl Field {
    pub(super) fn has(self, value: i8) -> bool {
        self.bits >> value & 1 == 1
    }

    /// The first value of the set from this one on.
    pub(super) fn next(self, from: i8) -> Option<i8> {
        let ahead = self.bits.checked_shr(u32::from(from.unsigned_abs())).filter(|&bits| bits != 0)?;
        i8::try_from(ahead.trailing_zeros()).ok().map(|step| from + step)
    }

    pub(super) fn is_full(self, kind: &Kind) -> bool {
        self.bits == range(kind.least, kind.most, 1)
    }

    /// Sunday is both 0 and 7; here it is 0.
    pub(super) fn with_sunday_first(self) -> Field {
        Field { bits: (self.bits | self.bits >> 7) & 0b111_1111, ..self }
    }
}

fn range(from: u8, to: u8, step: u8) -> u64 {
    (from..=to).step_by(usize::from(step.max(1))).fold(0, |bits, value| bits | 1 << value)
}

type Fault = (usize, CronErrorKind);

/// Parses a list such as `1,5-10,*/15`; an error gives the byte offset in it.
pub(super) fn field(text: &str, kind: &'static Kind) -> Result<Field, Fault> {
    let mut bits = 0;
    let mut offset = 0;
    for part in text.split(',') {
        bits |= self::part(part, kind).map_err(|(at, fault)| (offset + at, fault))?;
        offset += part.len() + 1;
    }
    Ok(Field { bits, star: text.starts_with('*') })
}

fn part(text: &str, kind: &'static Kind) -> Result<u64, Fault> {
    let (span, step) = match text.split_once('/') {
        Some((span, step)) => (span, Some((span.len() + 1, step))),
        None => (text, None),
    };
    let stepped = step.is_some();
    let step = step.map_or(Ok(1), |(at, step)| self::step(step, kind).map_err(|fault| (at, fault)))?;
    if span == "*" {
        // Seven is Sunday again: a star covers the days of one week.
        let most = if kind.most == 7 { 6 } else { kind.most };
        return Ok(range(kind.least, most, step));
    }
    let Some((from, to)) = span.split_once('-') else {
        let from = value(span, kind).map_err(|fault| (0, fault))?;
        return Ok(range(from, if stepped { kind.most } else { from }, step));
    };
    let to_at = from.len() + 1;
    let (from, to) =
        (value(from, kind).map_err(|fault| (0, fault))?, value(to, kind).map_err(|fault| (to_at, fault))?);
    let to = if kind.most == 7 && to == 0 && from > 0 { 7 } else { to };
    if from > to {
        return Err((0, CronErrorKind::Backwards(kind.name, from, to)));
    }
    Ok(range(from, to, step))
}

fn step(text: &str, kind: &'static Kind) -> Result<u8, CronErrorKind> {
    match number(text) {
        Some(step) if (1..=kind.most).contains(&step) => Ok(step),
        _ => Err(CronErrorKind::Step(kind.name, CronErrorKind::shown(text), kind.most)),
    }
}

fn value(text: &str, kind: &'static Kind) -> Result<u8, CronErrorKind> {
    let outside = || CronErrorKind::Value {
        field: kind.name,
        found: CronErrorKind::shown(text),
        least: kind.least,
        most: kind.most,
        meant: meant(text, kind),
    };
    let lower = text.to_ascii_lowercase();
    let named = kind.words.iter().position(|word| *word == lower);
    let named = named.and_then(|index| u8::try_from(index).ok()).map(|index| index + kind.least);
    named
        .or_else(|| number(text).filter(|value| (kind.least..=kind.most).contains(value)))
        .ok_or_else(outside)
}

fn number(text: &str) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// A longer form of a word, or a misspelling of it.
fn meant(text: &str, kind: &'static Kind) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    let longer = kind.words.iter().find(|word| lower.starts_with(**word));
    let near = || kind.words.iter().find(|word| text.len() <= 4 && slips(&lower, word) == 1);
    longer.or_else(near).copied()
}
