//! When values expire.

use super::super::Expiry;
use crate::time::Time;

fn at(ms: i64) -> Time {
    Time::from_ms(ms).unwrap()
}

#[test]
fn an_expiry_is_a_duration_or_the_end_of_a_day() {
    for text in ["10m", "1h30m", "EOD UTC", "EOD Europe/Berlin"] {
        assert_eq!(Expiry::new(text).unwrap().to_string(), text);
    }
    assert_eq!(Expiry::new("EOD").unwrap().to_string(), "EOD UTC");
    for (text, message) in [
        ("0s", "a value expires after 1ms to 100 years"),
        ("EOD Berlin", "\"Berlin\" is not a time zone; did you mean Europe/Berlin?"),
        (
            "soon",
            "\"soon\" is neither a duration such as 10m nor the end of a day such as EOD or EOD Europe/Berlin",
        ),
    ] {
        assert_eq!(Expiry::new(text).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_day_ends_at_midnight_of_its_zone() {
    const HOUR: i64 = 3_600_000;
    assert_eq!(Expiry::new("10m").unwrap().at(at(1_000)), at(601_000));
    assert_eq!(Expiry::new("EOD").unwrap().at(at(HOUR)), at(24 * HOUR));
    assert_eq!(Expiry::new("EOD").unwrap().at(at(24 * HOUR)), at(48 * HOUR), "midnight begins the next day");
    assert_eq!(Expiry::new("EOD Europe/Berlin").unwrap().at(at(HOUR)), at(23 * HOUR));
    assert_eq!(Expiry::new("EOD").unwrap().at(Time::END), Time::END);
}
