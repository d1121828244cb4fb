//! Time zones, from the built-in database.
//!
//! The rules are part of the binary and are never read from the machine, so two nodes, a test and a restart agree on
//! every hour. A new release brings new rules.

use std::fmt;
use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use crate::bounds::ZONE_BYTES;
use crate::needs::slips;
use crate::time::Time;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A time zone, such as `Europe/Berlin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// Why a text is not a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneError {
    /// The text, cut to a length that can be printed.
    pub found: String,
    /// The zone that was probably meant.
    pub meant: Option<String>,
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a time zone", self.found)?;
        match &self.meant {
            Some(zone) => write!(f, "; did you mean {zone}?"),
            None => f.write_str("; zones are named as in Europe/Berlin or UTC"),
        }
    }
}

impl std::error::Error for ZoneError {}

impl Default for Zone {
    fn default() -> Zone {
        Zone(TimeZone::UTC)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Zone {
    /// The zone of this name, regardless of case.
    pub fn new(name: &str) -> Result<Zone, ZoneError> {
        let named = (name.len() <= ZONE_BYTES).then(|| DATABASE.get(name).ok()).flatten();
        match named.filter(|zone| zone.iana_name().is_some()) {
            Some(zone) => Ok(Zone(zone)),
            None => Err(ZoneError { found: name.chars().take(ZONE_BYTES).collect(), meant: meant(name) }),
        }
    }

    /// Its name, in the database's case.
    pub fn as_str(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The local time of the zone at this time.
    pub(crate) fn civil(&self, at: Time) -> DateTime {
        self.0.to_datetime(stamp(at))
    }

    /// The first and the last time at which the clocks of the zone show this local time. They differ if a clock change
    /// repeats it. For a local time that a clock change skips, both are the time of the change.
    pub(crate) fn moments(&self, civil: DateTime) -> (Time, Time) {
        let found = self.0.to_ambiguous_timestamp(civil);
        let (gap, earlier, later) = match found.offset() {
            AmbiguousOffset::Unambiguous { offset } => (false, offset, offset),
            AmbiguousOffset::Fold { before, after } => (false, before, after),
            AmbiguousOffset::Gap { before, after } => (true, after, before),
        };
        let first = earlier.to_timestamp(civil).map_or(Time::END, time);
        let last = later.to_timestamp(civil).map_or(Time::END, time);
        match gap.then(|| self.changes(first).next()).flatten() {
            Some(change) => (change, change),
            None => (first, last),
        }
    }

    /// The times after this one at which the clocks of the zone change.
    pub(crate) fn changes(&self, after: Time) -> impl Iterator<Item = Time> + '_ {
        self.0.following(stamp(after)).map(|change| time(change.timestamp()))
    }
}

/// The zone database ends a day before the range of `Time` does.
fn stamp(at: Time) -> Timestamp {
    Timestamp::from_millisecond(at.as_ms()).unwrap_or(Timestamp::MAX)
}

fn time(stamp: Timestamp) -> Time {
    Time::from_ms(stamp.as_millisecond().max(0)).unwrap_or(Time::END)
}

/// A zone of which only the city was given, or one within two wrong letters of the name.
fn meant(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > ZONE_BYTES {
        return None;
    }
    let wanted = name.to_ascii_lowercase().replace(' ', "_");
    let known: Vec<String> = DATABASE.available().map(|zone| zone.as_str().to_owned()).collect();
    let city = |zone: &&String| zone.to_ascii_lowercase().rsplit('/').next() == Some(wanted.as_str());
    let near = |zone: &String| (slips(&wanted, &zone.to_ascii_lowercase()), zone.clone());
    let nearest = known.iter().map(near).min().filter(|(slips, _)| *slips <= 2).map(|(_, zone)| zone);
    known.iter().find(city).cloned().or(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn at(text: &str) -> Time {
        time(text.parse().unwrap())
    }

    #[test]
    fn zones_are_found_in_any_case_and_named_in_one() {
        assert_eq!(Zone::new("europe/BERLIN").unwrap().as_str(), "Europe/Berlin");
        assert_eq!(Zone::new("utc").unwrap(), Zone::default());
        assert_eq!(Zone::default().to_string(), "UTC");
    }

    #[test]
    fn an_unknown_zone_is_refused_with_what_may_be_meant() {
        for (wrong, text) in [
            ("Berlin", "\"Berlin\" is not a time zone; did you mean Europe/Berlin?"),
            ("Europe/Berln", "\"Europe/Berln\" is not a time zone; did you mean Europe/Berlin?"),
            ("new york", "\"new york\" is not a time zone; did you mean America/New_York?"),
            ("", "\"\" is not a time zone; zones are named as in Europe/Berlin or UTC"),
            ("Middle-earth/Shire", "\"Middle-earth/Shire\" is not a time zone; zones are named as in"),
        ] {
            assert!(Zone::new(wrong).unwrap_err().to_string().starts_with(text), "{wrong}");
        }
        assert_eq!(Zone::new(&"x".repeat(9_000)).unwrap_err().found.len(), ZONE_BYTES);
    }

    #[test]
    fn a_repeated_hour_has_two_moments_and_a_left_out_one_ends_at_the_change() {
        let berlin = Zone::new("Europe/Berlin").unwrap();
        assert_eq!(
            berlin.moments(date(2026, 10, 25).at(2, 30, 0, 0)),
            (at("2026-10-25T00:30:00Z"), at("2026-10-25T01:30:00Z"))
        );
        let change = at("2026-03-29T01:00:00Z");
        assert_eq!(berlin.moments(date(2026, 3, 29).at(2, 30, 0, 0)), (change, change));
        assert_eq!(berlin.changes(at("2026-03-29T00:59:59Z")).next(), Some(change));
        assert_eq!(berlin.civil(change), date(2026, 3, 29).at(3, 0, 0, 0));
        let noon = at("2026-07-01T10:00:00Z");
        assert_eq!(berlin.moments(date(2026, 7, 1).at(12, 0, 0, 0)), (noon, noon));
    }

    #[test]
    fn both_ends_of_time_bear_being_asked() {
        let apia = Zone::new("Pacific/Apia").unwrap();
        for edge in [Time::EPOCH, Time::END] {
            let (first, last) = apia.moments(apia.civil(edge));
            assert!(first <= last);
        }
    }
}
