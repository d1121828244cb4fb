use super::*;

fn at(text: &str) -> Time {
    let stamp: jiff::Timestamp = text.parse().unwrap();
    Time::from_ms(stamp.as_millisecond()).unwrap()
}

fn windows(text: &str) -> Windows {
    Windows::parse(text).unwrap()
}

#[track_caller]
fn opens(text: &str, from: &str, expected: &str) {
    let windows = windows(text);
    let next = windows.next_open(at(from));
    assert_eq!(next, at(expected), "{text} from {from}: {}", next.as_ms());
    assert!(windows.open_at(next));
}

#[track_caller]
fn closes(text: &str, from: &str, expected: &str) {
    let windows = windows(text);
    let close = windows.closes_at(at(from)).unwrap();
    assert_eq!(close, at(expected), "{text} from {from}: {}", close.as_ms());
    assert!(!windows.open_at(close));
}

#[test]
fn without_windows_it_is_always_open() {
    let always = Windows::default();
    assert_eq!(Windows::parse(" ").unwrap(), always);
    assert!(always.is_always() && always.open_at(Time::EPOCH));
    assert_eq!(always.next_open(at("2026-01-01T00:00:00Z")), at("2026-01-01T00:00:00Z"));
    assert_eq!(always.closes_at(Time::EPOCH), None);
    assert_eq!(always.as_str(), "");
}

#[test]
fn texts_have_one_form() {
    for (text, canonical) in [
        ("9:00-17:00", "09:00-17:00 UTC"),
        ("22:00-24:00 utc", "22:00-00:00 UTC"),
        (" 22:00-06:00  europe/berlin,12:00-13:00 ", "22:00-06:00 Europe/Berlin, 12:00-13:00"),
        ("MON tue WED 08:00-09:00", "mon-wed 08:00-09:00 UTC"),
        ("sat-sun 08:00-09:00", "sat sun 08:00-09:00 UTC"),
        ("fri-mon 08:00-09:00", "mon fri-sun 08:00-09:00 UTC"),
        ("mon-sun 08:00-09:00", "08:00-09:00 UTC"),
        (
            "08:00-09:00 Asia/Tokyo, 10:00-11:00, 08:00-09:00 UTC",
            "08:00-09:00 Asia/Tokyo, 10:00-11:00, 08:00-09:00 UTC",
        ),
    ] {
        let read = windows(text);
        assert_eq!(read.as_str(), canonical);
        assert_eq!(windows(canonical), read);
        assert_eq!(read.to_string(), canonical);
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, message) in [
        ("09:00", "\"09:00\" is not a window at column 1; write it as in 22:00-06:00"),
        ("09:00-17:00,", "no window at column 13; write windows as in 22:00-06:00, 12:00-13:00"),
        (
            "09:00-25:00",
            "\"25:00\" is not a time of day at column 7; write it from 00:00 to 23:59, or 24:00 as end",
        ),
        ("24:00-01:00", "\"24:00\" is not a time of day at column 1"),
        ("9-17", "\"9\" is not a time of day at column 1"),
        ("09:0-17:00", "\"09:0\" is not a time of day at column 1"),
        ("+9:00-17:00", "\"+9:00\" is not a day at column 1"),
        ("monday 09:00-17:00", "\"monday\" is not a day at column 1; did you mean mon?"),
        ("mon-fry 09:00-17:00", "\"fry\" is not a day at column 5; did you mean fri?"),
        ("often 09:00-17:00", "\"often\" is not a day at column 1; days are mon, mon-fri, sat sun"),
        ("mon", "\"mon\" at column 1 has no times; write a window as in 22:00-06:00"),
        ("09:00-17:00 Berlin", "at column 13 \"Berlin\" is not a time zone; did you mean Europe/Berlin?"),
        ("09:00-17:00 UTC now", "\"now\" at column 17 is not expected; windows are separated by commas"),
        (
            "09:00-10:00, 11:00-12:00 Asia/Tokyo",
            "the zone Asia/Tokyo at column 26 has windows without zone before it; name it after the first window",
        ),
    ] {
        let error = Windows::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
}

#[test]
fn windows_are_bounded() {
    let many = |count: usize| vec!["08:00-09:00"; count].join(",");
    assert!(Windows::parse(&many(16)).is_ok());
    let error = Windows::parse(&many(17)).unwrap_err().to_string();
    assert_eq!(error, "one window too many at column 193, the limit is 16");
    let error = Windows::parse(&" ".repeat(1_025)).unwrap_err().to_string();
    assert_eq!(error, "the windows have 1025 bytes, the limit is 1024");
    let long = format!(
        "08:00-09:00 UTC{}",
        ", mon wed fri 08:00-09:00 America/Argentina/ComodRivadavia, 08:00-09:00 UTC".repeat(7)
    );
    assert!(Windows::parse(&long).is_ok());
}

#[test]
fn the_first_open_one_is_chosen() {
    let both = "22:00-06:00 Europe/Berlin, 12:00-13:00";
    opens(both, "2026-01-15T12:30:00Z", "2026-01-15T21:00:00Z");
    opens(both, "2026-01-15T06:00:00Z", "2026-01-15T11:00:00Z");
    opens(both, "2026-01-15T11:30:00Z", "2026-01-15T11:30:00Z");
    closes(both, "2026-01-15T11:30:00Z", "2026-01-15T12:00:00Z");
}

#[test]
fn the_end_is_no_part_of_a_window() {
    opens("09:00-10:00", "2026-01-15T09:59:59.999Z", "2026-01-15T09:59:59.999Z");
    opens("09:00-10:00", "2026-01-15T10:00:00Z", "2026-01-16T09:00:00Z");
    closes("09:00-10:00", "2026-01-15T09:00:00Z", "2026-01-15T10:00:00Z");
    closes("09:00-10:00", "2026-01-15T08:00:00Z", "2026-01-15T08:00:00Z");
}

#[test]
fn a_window_may_cross_midnight() {
    let night = "22:00-06:00 Asia/Tokyo";
    opens(night, "2026-01-15T20:59:59Z", "2026-01-15T20:59:59Z");
    opens(night, "2026-01-15T21:00:00Z", "2026-01-16T13:00:00Z");
    closes(night, "2026-01-15T13:00:00Z", "2026-01-15T21:00:00Z");
    let friday = "fri 22:00-06:00";
    opens(friday, "2026-01-16T05:00:00Z", "2026-01-16T22:00:00Z");
    opens(friday, "2026-01-17T05:00:00Z", "2026-01-17T05:00:00Z");
    opens(friday, "2026-01-17T06:00:00Z", "2026-01-23T22:00:00Z");
}

#[test]
fn an_opening_is_found_again_from_inside() {
    let check = |text: &str, inside: &str, opened: Option<&str>| {
        assert_eq!(windows(text).opened_at(at(inside)), opened.map(at), "{text} at {inside}");
    };
    check("09:00-12:00, 11:00-15:00", "2026-01-15T14:00:00Z", Some("2026-01-15T09:00:00Z"));
    check("09:00-12:00", "2026-01-15T09:00:00Z", Some("2026-01-15T09:00:00Z"));
    check("09:00-12:00", "2026-01-15T12:00:00Z", None);
    check("fri-mon 22:00-22:00", "2026-01-20T21:00:00Z", Some("2026-01-16T22:00:00Z"));
    check("02:30-06:00 Europe/Berlin", "2026-03-29T02:00:00Z", Some("2026-03-29T01:00:00Z"));
    check("01:30-02:30 Europe/Berlin", "2026-10-25T01:10:00Z", Some("2026-10-25T01:00:00Z"));
    check("00:00-12:00, 12:00-00:00", "2026-01-15T12:00:00Z", None);
    check("", "2026-01-15T12:00:00Z", None);
}

#[test]
fn a_start_is_not_before_its_time_and_not_outside_of_the_windows() {
    let check = |text: &str, asked: &str, now: &str, start: &str| {
        let found = windows(text).start_of(at(asked), at(now));
        assert_eq!(found, at(start), "{text} asked for {asked} at {now}: {}", found.as_ms());
    };
    let (text, now) = ("09:00-12:00", "2026-01-15T10:00:00Z");
    check(text, "2026-01-15T11:00:00Z", now, "2026-01-15T11:00:00Z");
    check(text, "2026-01-15T13:00:00Z", now, "2026-01-16T09:00:00Z");
    check(text, "2026-01-15T09:30:00Z", now, "2026-01-15T09:30:00Z");
    check(text, "2026-01-14T09:30:00Z", now, "2026-01-15T09:00:00Z");
    check(text, "2026-01-15T09:30:00Z", "2026-01-15T12:00:00Z", "2026-01-16T09:00:00Z");
    check("", "2026-01-14T09:30:00Z", now, "2026-01-14T09:30:00Z");
    check("00:00-12:00, 12:00-00:00", "2026-01-14T09:30:00Z", now, "2026-01-14T09:30:00Z");
}

#[test]
fn equal_ends_are_a_whole_day() {
    assert!(windows("09:00-09:00").is_always());
    assert_eq!(windows("00:00-24:00").closes_at(Time::EPOCH), None);
    let monday = "mon 09:00-09:00";
    opens(monday, "2026-01-17T00:00:00Z", "2026-01-19T09:00:00Z");
    closes(monday, "2026-01-19T09:00:00Z", "2026-01-20T09:00:00Z");
}

#[test]
fn windows_that_meet_do_not_close_between() {
    closes("09:00-12:00, 12:00-15:00, 14:00-16:00", "2026-01-15T09:00:00Z", "2026-01-15T16:00:00Z");
    assert_eq!(windows("00:00-12:00, 12:00-00:00").closes_at(Time::EPOCH), None);
}

#[test]
fn a_start_in_the_hour_that_is_left_out_opens_after_it() {
    opens("02:30-06:00 Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z");
    closes("02:30-06:00 Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T04:00:00Z");
    // Nothing of it is left on that day.
    opens("02:15-02:45 Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:15:00Z");
}

#[test]
fn an_hour_that_comes_twice_is_open_twice() {
    let twice = "02:15-02:45 Europe/Berlin";
    opens(twice, "2026-10-24T12:00:00Z", "2026-10-25T00:15:00Z");
    closes(twice, "2026-10-25T00:15:00Z", "2026-10-25T00:45:00Z");
    opens(twice, "2026-10-25T00:45:00Z", "2026-10-25T01:15:00Z");
    closes(twice, "2026-10-25T01:15:00Z", "2026-10-25T01:45:00Z");
    // At 03:00 the clocks go back into the window.
    opens("01:30-02:30 Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z");
}

#[test]
fn a_day_that_was_left_out_is_waited_for_a_week() {
    opens("fri 09:00-17:00 Pacific/Apia", "2011-12-29T00:00:00Z", "2012-01-05T19:00:00Z");
}

#[test]
fn the_end_of_time_ends_the_search() {
    let next = windows("09:00-10:00").next_open(Time::END);
    assert!(next <= Time::END);
}
