use super::*;
use proptest::prelude::*;

fn at(text: &str) -> Time {
    let stamp: jiff::Timestamp = text.parse().unwrap();
    Time::from_ms(stamp.as_millisecond()).unwrap()
}

fn schedule(when: Rhythm, zone: &str) -> Schedule {
    Schedule {
        when,
        zone: Zone::new(zone).unwrap(),
        jitter_ms: 0,
        catch_up: CatchUp::One,
        overlap: Overlap::Skip,
        paused: false,
    }
}

fn cron(line: &str, zone: &str) -> Schedule {
    schedule(Rhythm::Cron(Cron::parse(line).unwrap()), zone)
}

fn every(ms: u64) -> Schedule {
    schedule(Rhythm::Every { ms, anchor: Time::EPOCH }, "UTC")
}

#[track_caller]
fn ticks(schedule: &Schedule, after: &str, expected: &[&str]) {
    let found = std::iter::successors(Some(at(after)), |&last| schedule.next_tick(last));
    let found: Vec<Time> = found.skip(1).take(expected.len()).collect();
    let expected: Vec<Time> = expected.iter().map(|text| at(text)).collect();
    assert_eq!(found, expected);
}

#[test]
fn lines_come_when_they_say() {
    let from = "2026-01-15T10:07:30Z";
    for (line, expected) in [
        ("30 2 * * *", ["2026-01-16T02:30:00Z", "2026-01-17T02:30:00Z"]),
        ("7 10 * * *", ["2026-01-16T10:07:00Z", "2026-01-17T10:07:00Z"]),
        ("8 10 * * *", ["2026-01-15T10:08:00Z", "2026-01-16T10:08:00Z"]),
        ("*/15 9-10 * * *", ["2026-01-15T10:15:00Z", "2026-01-15T10:30:00Z"]),
        ("5/20 10 * * *", ["2026-01-15T10:25:00Z", "2026-01-15T10:45:00Z"]),
        ("0 0 1,15 * *", ["2026-02-01T00:00:00Z", "2026-02-15T00:00:00Z"]),
        ("0 0 31 * *", ["2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"]),
        ("0 9 * * mon-fri", ["2026-01-16T09:00:00Z", "2026-01-19T09:00:00Z"]),
        ("0 9 * * 7", ["2026-01-18T09:00:00Z", "2026-01-25T09:00:00Z"]),
        ("0 9 * * fri-sun", ["2026-01-16T09:00:00Z", "2026-01-17T09:00:00Z"]),
        ("0 9 20 * sat", ["2026-01-17T09:00:00Z", "2026-01-20T09:00:00Z"]),
        ("0 9 */2 * sat", ["2026-01-17T09:00:00Z", "2026-01-31T09:00:00Z"]),
        ("0 0 1 FEB,may *", ["2026-02-01T00:00:00Z", "2026-05-01T00:00:00Z"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        ("@hourly", ["2026-01-15T11:00:00Z", "2026-01-15T12:00:00Z"]),
        ("@daily", ["2026-01-16T00:00:00Z", "2026-01-17T00:00:00Z"]),
        ("@midnight", ["2026-01-16T00:00:00Z", "2026-01-17T00:00:00Z"]),
        ("@weekly", ["2026-01-18T00:00:00Z", "2026-01-25T00:00:00Z"]),
        ("@monthly", ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"]),
        ("@Yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
        ("@annually", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
    ] {
        ticks(&cron(line, "UTC"), from, &expected);
    }
}

#[test]
fn the_rarest_line_is_found() {
    let rarest = cron("0 0 29 2 */6", "UTC");
    ticks(&rarest, "2072-03-01T00:00:00Z", &["2076-02-29T00:00:00Z", "2088-02-29T00:00:00Z"]);
    assert!(Cron::parse("0 0 29 2 */7").is_ok());
}

#[test]
fn a_zone_moves_the_ticks() {
    ticks(
        &cron("0 9 * * *", "America/New_York"),
        "2026-01-15T14:00:00Z",
        &["2026-01-16T14:00:00Z", "2026-01-17T14:00:00Z"],
    );
}

#[test]
fn a_time_that_is_left_out_comes_once_at_its_end() {
    let line = cron("15,30 2 * * *", "Europe/Berlin");
    ticks(&line, "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T00:15:00Z"]);
    // Together with what comes at the end anyway.
    let line = cron("0 2,3 * * *", "Europe/Berlin");
    ticks(&line, "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]);
}

#[test]
fn a_time_that_comes_twice_comes_once() {
    let line = cron("30 2 * * *", "Europe/Berlin");
    ticks(&line, "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
    // Asked in the second pass.
    ticks(&line, "2026-10-25T01:10:00Z", &["2026-10-26T01:30:00Z"]);
}

#[test]
fn every_hour_is_every_real_hour() {
    let line = cron("30 * * * *", "Europe/Berlin");
    ticks(
        &line,
        "2026-10-24T23:45:00Z",
        &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"],
    );
    ticks(&line, "2026-03-29T00:00:00Z", &["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"]);
    let line = cron("0 * * * *", "Europe/Berlin");
    ticks(&line, "2026-10-25T00:30:00Z", &["2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]);
}

#[test]
fn what_is_wrong_with_a_line_is_said_with_its_place() {
    for (line, message) in [
        ("", "a cron expression has 5 fields (minute hour day month weekday), not 0; for example 30 2 * * *"),
        ("* * * *", "a cron expression has 5 fields (minute hour day month weekday), not 4"),
        ("0 0 * * * *", "a cron expression has 5 fields (minute hour day month weekday), not 6"),
        (
            "60 * * * *",
            "\"60\" is not a valid minute at column 1; write a number from 0 to 59, a list, a range or *",
        ),
        ("0 24 * * *", "\"24\" is not a valid hour at column 3"),
        ("0 1, * * *", "\"\" is not a valid hour at column 5"),
        ("0 0 0 * *", "\"0\" is not a valid day of the month at column 5; write a number from 1 to 31"),
        ("0 0 L * *", "\"L\" is not a valid day of the month at column 5"),
        ("0 0 * january *", "\"january\" is not a valid month at column 7; did you mean jan?"),
        ("0 0 * * mon-fry", "\"fry\" is not a valid day of the week at column 13; did you mean fri?"),
        (
            "*/0 * * * *",
            "\"0\" is not a valid step of the minute at column 3; write a number from 1 to 59, as in */15",
        ),
        ("*/x * * * *", "\"x\" is not a valid step of the minute at column 3"),
        ("0 22-2 * * *", "the hour goes from 22 back to 2 at column 3; write two ranges with a comma"),
        ("+1 * * * *", "\"+1\" is not a valid minute at column 1"),
        ("@dayly", "\"@dayly\" is not a cron expression at column 1; did you mean @daily?"),
        ("@reboot", "\"@reboot\" is not a cron expression at column 1; there are @hourly"),
        ("0 0 30 2 *", "no date matches this cron expression; check its day and month"),
        ("0 0 31 4,6,9,11 *", "no date matches this cron expression"),
    ] {
        let error = Cron::parse(line).unwrap_err().to_string();
        assert!(error.starts_with(message), "{line}: {error}");
    }
    assert_eq!(
        Cron::parse(&"* ".repeat(129)).unwrap_err().to_string(),
        "the cron expression has 258 bytes, the limit is 256"
    );
}

#[test]
fn a_line_has_one_form() {
    assert_eq!(Cron::parse(" 0  9 * *  MON ").unwrap().as_str(), "0 9 * * mon");
    assert_eq!(Cron::parse("@Daily").unwrap().to_string(), "@daily");
}

#[test]
fn every_keeps_to_its_anchor() {
    ticks(&every(300_000), "2026-01-15T10:07:30Z", &["2026-01-15T10:10:00Z", "2026-01-15T10:15:00Z"]);
    ticks(&every(300_000), "2026-01-15T10:10:00Z", &["2026-01-15T10:15:00Z"]);
    let anchor = at("2026-01-15T10:00:07Z");
    let anchored = schedule(Rhythm::Every { ms: 3_600_000, anchor }, "UTC");
    ticks(&anchored, "2026-01-15T08:30:00Z", &["2026-01-15T09:00:07Z", "2026-01-15T10:00:07Z"]);
    assert_eq!(every(1_000).next_tick(Time::END), None);
    assert_eq!(cron("@yearly", "UTC").next_tick(Time::END), None);
    assert_eq!(cron("@hourly", "Europe/Berlin").next_tick(Time::END), None);
}

#[test]
fn numbers_beyond_the_limits_are_refused() {
    assert_eq!(every(1_000).check(), Ok(()));
    assert_eq!(every(999).check().unwrap_err().to_string(), "every 999 ms is outside 1000 to 31536000000");
    assert_eq!(every(DELAY_MS + 1).check(), Err(ScheduleError::Every(DELAY_MS + 1)));
    let late = Schedule { jitter_ms: DELAY_MS + 1, ..every(1_000) };
    assert_eq!(late.check().unwrap_err().to_string(), "jitter of 31536000001 ms is outside 0 to 31536000000");
}

#[test]
fn missed_ticks_are_caught_up_with_as_told() {
    let last = at("2026-01-15T00:00:00Z");
    let now = at("2026-01-15T03:00:30Z");
    let due = |catch_up| Schedule { catch_up, ..cron("@hourly", "UTC") }.due(last, now);
    let hours = |hours: &[i64]| -> Vec<Time> {
        hours.iter().map(|hour| Time::from_ms(last.as_ms() + hour * 3_600_000).unwrap()).collect()
    };
    assert_eq!(due(CatchUp::None), hours(&[3]));
    assert_eq!(due(CatchUp::One), hours(&[2, 3]));
    assert_eq!(due(CatchUp::All), hours(&[1, 2, 3]));
    assert_eq!(cron("@hourly", "UTC").due(now, now), []);
    assert_eq!(cron("@hourly", "UTC").due(now, last), [], "a clock that was set back repeats nothing");
    let later = at("2026-01-15T03:01:00Z");
    assert_eq!(Schedule { catch_up: CatchUp::None, ..cron("@hourly", "UTC") }.due(last, later), []);
}

#[test]
fn catching_up_is_bounded() {
    let now = at("2026-01-15T00:00:00Z");
    let all = |schedule| Schedule { catch_up: CatchUp::All, ..schedule };
    let due = all(cron("* * * * *", "Europe/Berlin")).due(Time::EPOCH, now);
    assert_eq!(due.len(), CATCH_UP_TICKS + 1);
    assert!(due.windows(2).all(|pair| pair[1].since(pair[0]) == 60_000));
    assert_eq!(due.last(), Some(&now));
    assert_eq!(all(every(1_000)).due(Time::EPOCH, now).len(), CATCH_UP_TICKS + 60);
}

#[test]
fn a_job_starts_at_the_same_moment_after_its_tick_on_every_node() {
    let name = ScheduleName::new("nightly").unwrap();
    let spread = Schedule { jitter_ms: 60_000, ..cron("@hourly", "UTC") };
    let tick = at("2026-01-15T03:00:00Z");
    // Written out: another number would start jobs at other moments after an update.
    assert_eq!(spread.start_of(&name, tick).since(tick), 40_379);
    assert_eq!(cron("@hourly", "UTC").start_of(&name, tick), tick);
    let starts: Vec<u64> = (0..1_000)
        .map(|hour| tick.plus_ms(hour * 3_600_000))
        .map(|tick| spread.start_of(&name, tick).since(tick))
        .collect();
    assert!(starts.iter().all(|&ms| ms <= 60_000));
    for tenth in 0..10 {
        let within = starts.iter().filter(|&&ms| (tenth * 6_000..(tenth + 1) * 6_000).contains(&ms)).count();
        assert!((60..=140).contains(&within), "{within} of 1000 in tenth {tenth}");
    }
}

proptest! {
    #[test]
    fn ticks_go_forward_and_none_is_left_out(line in "[0-5]?[0-9]|\\*|\\*/7", hour in "1?[0-9]|\\*|\\*/5", ms in 0i64..4_102_444_800_000) {
        let schedule = cron(&format!("{line} {hour} * * *"), "Australia/Lord_Howe");
        let after = Time::from_ms(ms).unwrap();
        let tick = schedule.next_tick(after).unwrap();
        prop_assert!(tick > after && tick.since(after) <= 48 * 3_600_000);
        prop_assert_eq!(schedule.last_tick(after, tick), Some(tick));
        prop_assert_eq!(schedule.last_tick(after, tick.minus_ms(1)), None);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-zA-Z*/,@ -]{0,40}") {
        let _ = Cron::parse(&text);
        let _ = crate::Windows::parse(&text);
    }
}
