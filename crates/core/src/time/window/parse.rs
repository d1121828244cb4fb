//! Parses windows. The grammar is in the module above.

use crate::bounds::{WINDOWS, WINDOWS_BYTES};
use crate::needs::slips;
use crate::time::zone::Zone;

use super::Window;
use super::days::{Days, NAMES};
use super::error::{WindowError, WindowErrorKind as Kind};

/// How much of a word is repeated in an error.
const SHOWN: usize = 40;

/// A word and where it begins.
type Word<'a> = (usize, &'a str);

pub(super) fn windows(text: &str) -> Result<Vec<Window>, WindowError> {
    if text.len() > WINDOWS_BYTES {
        return Err(WindowError::too_long(text.len()));
    }
    let mut windows: Vec<Window> = Vec::new();
    let mut zone: Option<Zone> = None;
    if text.trim().is_empty() {
        return Ok(windows);
    }
    let mut offset = 0;
    for part in text.split(',') {
        let fault = |(at, kind)| WindowError::at(text, at, kind);
        let (window, named) = window(&words(part, offset), offset).map_err(fault)?;
        if windows.len() == WINDOWS {
            return Err(fault((offset, Kind::TooMany)));
        }
        if let Some((at, named)) = named {
            if zone.is_none() && !windows.is_empty() {
                return Err(fault((at, Kind::LateZone(named.as_str().to_owned()))));
            }
            zone = Some(named);
        }
        windows.push(Window { zone: zone.clone().unwrap_or_default(), ..window });
        offset += part.len() + 1;
    }
    Ok(windows)
}

fn words(part: &str, offset: usize) -> Vec<Word<'_>> {
    let begin = |word: &str| word.as_ptr().addr() - part.as_ptr().addr();
    part.split_whitespace().map(|word| (offset + begin(word), word)).collect()
}

type Fault = (usize, Kind);

/// One window, and the zone it names.
fn window(words: &[Word<'_>], offset: usize) -> Result<(Window, Option<(usize, Zone)>), Fault> {
    let Some(&(first, word)) = words.first() else { return Err((offset, Kind::Empty)) };
    let times = words.iter().position(|(_, word)| word.starts_with(|c: char| c.is_ascii_digit()));
    let Some(times) = times else {
        days(&words[..1])?;
        return Err((first, Kind::NoTimes(shown(word))));
    };
    let days = if times == 0 { Days::EVERY } else { days(&words[..times])? };
    let (start, end) = range(words[times])?;
    if let Some(&(at, word)) = words.get(times + 2) {
        return Err((at, Kind::Extra(shown(word))));
    }
    let zone = match words.get(times + 1) {
        Some(&(at, word)) => Some((at, Zone::new(word).map_err(|error| (at, Kind::Zone(error)))?)),
        None => None,
    };
    Ok((Window { days, start, end, zone: Zone::default() }, zone))
}

fn days(words: &[Word<'_>]) -> Result<Days, Fault> {
    words.iter().try_fold(Days::NONE, |days, &(at, word)| {
        let (from, to) = word.split_once('-').unwrap_or((word, word));
        let to_at = at + word.len() - to.len();
        Ok(days.with(day(at, from)?, day(to_at, to)?))
    })
}

fn day(at: usize, word: &str) -> Result<usize, Fault> {
    let lower = word.to_ascii_lowercase();
    NAMES.iter().position(|name| *name == lower).ok_or_else(|| {
        let meant = NAMES.into_iter().find(|name| lower.starts_with(name));
        let near = || NAMES.into_iter().find(|name| word.len() <= 4 && slips(&lower, name) == 1);
        (at, Kind::Day(shown(word), meant.or_else(near)))
    })
}

fn range((at, word): Word<'_>) -> Result<(u16, u16), Fault> {
    let Some((start, end)) = word.split_once('-') else { return Err((at, Kind::Times(shown(word)))) };
    let end_at = at + start.len() + 1;
    let midnight = if end == "24:00" { "00:00" } else { end };
    Ok((clock(at, start)?, clock(end_at, midnight)?))
}

fn clock(at: usize, word: &str) -> Result<u16, Fault> {
    let number = |digits: &str, most: u16| {
        let plain = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse::<u16>().ok()).flatten().filter(|number| *number <= most)
    };
    let parts = word.split_once(':').filter(|(_, minute)| minute.len() == 2);
    let minutes = parts.and_then(|(hour, minute)| Some(number(hour, 23)? * 60 + number(minute, 59)?));
    minutes.ok_or_else(|| (at, Kind::Clock(shown(word))))
}

fn shown(word: &str) -> String {
    word.chars().take(SHOWN).collect()
}
