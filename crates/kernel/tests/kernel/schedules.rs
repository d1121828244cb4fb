//! Schedules: one job for each tick, whatever happens, and never two.

use std::sync::Arc;

use crate::rig::{Hall, job, keyed, passed};
use jobhall_core::schedule::{CatchUp, Overlap};
use jobhall_core::{
    Cron, Job, JobId, Key, NewJob, OnDuplicate, Rhythm, Schedule, ScheduleName, StateName, Time, TypeConfig,
    TypeName, Windows, Zone,
};
use jobhall_kernel::{
    Answer, Config, IdempotencyKey, Mono, Now, Rejected, Request, ScheduleConfig, ShownSchedule, Why,
};
use jobhall_store::CommitError;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// 2026-01-15, midnight.
fn midnight() -> Time {
    Time::from_ms(1_768_435_200_000).unwrap()
}

fn at(hours: u64) -> Time {
    midnight().plus_ms(hours * HOUR)
}

fn hall() -> Hall {
    hall_with(Config::default())
}

/// A hall at a quarter past midnight.
fn hall_with(config: Config) -> Hall {
    let mut hall = Hall::with(config);
    hall.now = Now { wall: midnight().plus_ms(15 * MINUTE), ..hall.now };
    hall.pass(0);
    hall
}

pub fn hourly() -> Schedule {
    Schedule {
        when: Rhythm::Cron(Cron::parse("@hourly").unwrap()),
        zone: Zone::default(),
        jitter_ms: 0,
        catch_up: CatchUp::All,
        overlap: Overlap::Allow,
        paused: false,
    }
}

fn name(text: &str) -> ScheduleName {
    ScheduleName::new(text).unwrap()
}

fn set_as(
    hall: &mut Hall,
    schedule: Schedule,
    job: NewJob,
    expected: Option<u32>,
) -> Result<Answer, Rejected> {
    let config = Some(Arc::new(ScheduleConfig { schedule, job }));
    hall.ask(Request::SetSchedule { name: name("s"), config, expected, by: None })
}

fn set(hall: &mut Hall, schedule: Schedule) -> u32 {
    match set_as(hall, schedule, job("t"), None).unwrap() {
        Answer::Rev(version) => version,
        other => panic!("{other:?}"),
    }
}

fn shown(hall: &mut Hall) -> ShownSchedule {
    match hall.ask(Request::Schedule { name: name("s") }).unwrap() {
        Answer::Schedule(shown) => shown.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn made(hall: &Hall) -> Vec<Job> {
    hall.store.all_jobs().into_iter().filter(|job| job.spec.schedule == Some(name("s"))).collect()
}

/// The ticks that have jobs, as their starts tell.
fn starts(hall: &Hall) -> Vec<Time> {
    made(hall).iter().map(|job| job.status.run_at).collect()
}

fn down(hall: Hall, ms: u64) -> Hall {
    let mut hall = hall;
    hall.now = Now { wall: hall.now.wall.plus_ms(ms), mono: Mono(hall.now.mono.0 + ms) };
    let mut hall = hall.restart(Config::default());
    hall.pass(0);
    hall
}

#[test]
fn every_tick_has_one_job() {
    let mut hall = hall();
    assert_eq!(set(&mut hall, hourly()), 1);
    assert_eq!(shown(&mut hall).next_tick, Some(at(1)));
    assert!(made(&hall).is_empty(), "ticks of the past are not its own");
    hall.pass(45 * MINUTE - 1);
    assert!(made(&hall).is_empty());
    hall.pass(1);
    assert_eq!(starts(&hall), [at(1)]);
    hall.pass(3 * HOUR);
    assert_eq!(starts(&hall), [at(1), at(2), at(3), at(4)]);
    let shown = shown(&mut hall);
    assert_eq!((shown.last.unwrap().0, shown.next_tick, shown.version), (at(4), Some(at(5)), 1));
    assert_eq!(shown.last.unwrap().1, made(&hall)[3].id);
}

#[test]
fn ticks_that_were_missed_are_caught_up_with_once() {
    for (catch_up, expected) in [
        (CatchUp::None, vec![at(1), at(8)]),
        (CatchUp::One, vec![at(1), at(7), at(8)]),
        (CatchUp::All, (1..=8).map(at).collect()),
    ] {
        let mut hall = hall();
        set(&mut hall, Schedule { catch_up, ..hourly() });
        hall.pass(HOUR);
        let mut hall = down(hall, 6 * HOUR);
        hall.pass(45 * MINUTE);
        assert_eq!(starts(&hall), expected, "{catch_up:?}");
        let hall = down(hall, 1);
        assert_eq!(starts(&hall), expected, "a restart repeats nothing");
    }
}

#[test]
fn a_clock_that_is_set_back_repeats_nothing() {
    let mut hall = hall();
    set(&mut hall, hourly());
    hall.pass(3 * HOUR);
    assert_eq!(starts(&hall), [at(1), at(2), at(3)]);
    hall.now = Now { wall: at(1).minus_ms(1), ..hall.now };
    hall.pass(HOUR);
    let mut hall = hall.restart(Config::default());
    hall.pass(HOUR);
    assert_eq!(starts(&hall), [at(1), at(2), at(3)]);
    hall.pass(2 * HOUR);
    assert_eq!(starts(&hall), [at(1), at(2), at(3), at(4)]);
}

#[test]
fn a_tick_stays_seen_to_after_its_job_was_removed() {
    let mut hall = hall();
    set(&mut hall, hourly());
    let config = TypeConfig {
        keep_count: Some(0),
        reuse_window_ms: 0,
        ..TypeConfig::of(&TypeName::new("t").unwrap())
    };
    let job_type = TypeName::new("t").unwrap();
    hall.ask(Request::SetType { job_type, config: Some(config), expected: None }).unwrap();
    hall.pass(HOUR);
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    hall.pass(40 * MINUTE);
    hall.now = Now { mono: Mono(hall.now.mono.0 + 2 * HOUR), ..hall.now };
    hall.pass(0);
    assert!(made(&hall).is_empty(), "removed by retention");
    let mut hall = hall.restart(Config::default());
    hall.now = Now { wall: at(1), ..hall.now };
    hall.pass(59 * MINUTE);
    assert!(made(&hall).is_empty(), "and not made again");
}

#[test]
fn overlap_is_skipped_or_allowed() {
    let mut hall = hall();
    set(&mut hall, Schedule { overlap: Overlap::Skip, ..hourly() });
    hall.pass(2 * HOUR);
    assert_eq!(starts(&hall), [at(1)], "the job of one o'clock is still there at two");
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    // What passed because of it is not made up for, not even after a restart.
    let mut hall = hall.restart(Config::default());
    hall.pass(30 * MINUTE);
    assert_eq!(made(&hall).len(), 1);
    hall.pass(30 * MINUTE);
    assert_eq!(made(&hall).len(), 2);
    assert_eq!(shown(&mut hall).last.unwrap().0, at(3));
    // Of several that come together the newest is made.
    let mut hall = down(hall, 6 * HOUR);
    assert_eq!(made(&hall).len(), 2, "its job is still open");
    hall.cancel(JobId::new(made(&hall)[1].id.get()).unwrap()).unwrap();
    let mut hall = down(hall, 5 * HOUR);
    assert_eq!((made(&hall).len(), shown(&mut hall).last.unwrap().0), (3, at(14)));
}

#[test]
fn a_paused_schedule_makes_nothing_and_nothing_is_made_up_for() {
    let mut hall = hall();
    set(&mut hall, hourly());
    hall.pass(HOUR);
    set(&mut hall, Schedule { paused: true, ..hourly() });
    assert_eq!(shown(&mut hall).next_tick, None);
    let mut hall = down(hall, 3 * HOUR);
    hall.pass(3 * HOUR);
    assert_eq!(starts(&hall), [at(1)]);
    assert_eq!(set(&mut hall, hourly()), 3);
    hall.pass(45 * MINUTE);
    assert_eq!(starts(&hall), [at(1), at(8)]);
}

#[test]
fn another_rhythm_begins_now_and_the_same_goes_on() {
    let mut hall = hall();
    set(&mut hall, hourly());
    hall.pass(HOUR);
    // Only the jitter is another: what is missed meanwhile is still its own.
    set(&mut hall, Schedule { jitter_ms: 1, ..hourly() });
    let mut hall = down(hall, HOUR);
    assert_eq!(made(&hall).len(), 2);
    let every = Rhythm::Every { ms: 10 * MINUTE, anchor: Time::EPOCH };
    set(&mut hall, Schedule { when: every, ..hourly() });
    hall.pass(5 * MINUTE);
    assert_eq!(made(&hall).len(), 3, "none of the hours before");
    assert_eq!(shown(&mut hall).last.unwrap().0, midnight().plus_ms(2 * HOUR + 20 * MINUTE));
}

#[test]
fn jitter_starts_a_job_later_and_is_explained() {
    let mut hall = hall();
    let schedule = Schedule { jitter_ms: 10 * MINUTE, ..hourly() };
    set(&mut hall, schedule.clone());
    hall.pass(45 * MINUTE);
    let start = schedule.start_of(&name("s"), at(1));
    assert!(start > at(1) && start <= at(1).plus_ms(10 * MINUTE));
    assert_eq!(starts(&hall), [start]);
    let id = made(&hall)[0].id;
    assert_eq!(hall.state(id), StateName::Scheduled);
    let why = hall.explain(id).why;
    assert_eq!(why, [Why::Jitter { schedule: name("s"), run_at: start }]);
    assert!(why[0].to_string().starts_with("schedule s spreads its jobs"));
}

#[test]
fn a_job_of_a_tick_keeps_to_its_windows() {
    let mut hall = hall();
    let windows = Windows::parse("12:00-13:00").unwrap();
    set_as(&mut hall, hourly(), NewJob { windows, ..job("t") }, None).unwrap();
    hall.pass(HOUR);
    assert_eq!(starts(&hall), [at(12)]);
}

#[test]
fn a_key_lets_ticks_join_and_reject_lets_them_pass() {
    for (on_duplicate, jobs) in
        [(OnDuplicate::Join, 1), (OnDuplicate::Reject, 1), (OnDuplicate::Supersede, 4)]
    {
        let mut hall = hall();
        set_as(&mut hall, hourly(), NewJob { on_duplicate, ..keyed("t", "k") }, None).unwrap();
        hall.pass(4 * HOUR);
        assert_eq!(made(&hall).len(), jobs, "{on_duplicate:?}");
        let mut hall = down(hall, 4 * HOUR);
        assert_eq!(shown(&mut hall).next_tick, Some(at(9)), "each was seen to: {on_duplicate:?}");
        let open = made(&hall).iter().filter(|job| !job.status.state.is_terminal()).count();
        assert_eq!(open, 1, "{on_duplicate:?}");
    }
}

#[test]
fn a_run_by_hand_is_no_tick() {
    let mut hall = hall();
    set(&mut hall, hourly());
    let before = shown(&mut hall);
    let run = |schedule: &str, key: Option<&str>| {
        let key = key.map(|key| IdempotencyKey { scope: "a".to_owned(), key: key.to_owned(), body: 1 });
        Request::RunSchedule { name: name(schedule), key }
    };
    let Answer::Submitted(submitted) = hall.ask(run("s", Some("once"))).unwrap() else { panic!() };
    assert_eq!(hall.ask(run("s", Some("once"))).unwrap(), Answer::Submitted(submitted.clone()), "repeated");
    assert_eq!(hall.stored(submitted[0].id).spec.schedule, Some(name("s")));
    assert_eq!(shown(&mut hall), before);
    let refused = hall.ask(run("other", None)).unwrap_err();
    assert_eq!(refused.to_string(), "there is no schedule other");
}

#[test]
fn versions_guard_changes_and_ticks_make_none() {
    let mut hall = hall();
    assert_eq!(
        set_as(&mut hall, hourly(), job("t"), Some(3)),
        Err(Rejected::ScheduleChanged { name: name("s"), version: 0 })
    );
    assert_eq!(set_as(&mut hall, hourly(), job("t"), Some(0)), Ok(Answer::Rev(1)));
    hall.pass(3 * HOUR);
    let paused = Schedule { paused: true, ..hourly() };
    assert_eq!(set_as(&mut hall, paused.clone(), job("t"), Some(1)), Ok(Answer::Rev(2)));
    assert_eq!(
        set_as(&mut hall, paused, job("t"), Some(1)),
        Err(Rejected::ScheduleChanged { name: name("s"), version: 2 })
    );
    let remove = |expected| Request::SetSchedule { name: name("s"), config: None, expected, by: None };
    assert!(hall.ask(remove(Some(1))).is_err());
    assert_eq!(hall.ask(remove(Some(2))), Ok(Answer::Rev(0)));
    let all = Request::Schedules { after: None, limit: 9 };
    assert_eq!(hall.ask(all), Ok(Answer::Schedules(Vec::new())));
    assert_eq!(hall.ask(Request::Schedule { name: name("s") }), Ok(Answer::Schedule(None)));
    assert_eq!(hall.ask(remove(None)), Ok(Answer::Rev(0)));
    hall.pass(3 * HOUR);
    assert_eq!(made(&hall).len(), 3, "the jobs stay, and no more come");
}

#[test]
fn what_a_schedule_cannot_have_is_refused_by_name_and_nothing_is_written() {
    let mut hall = hall();
    let every = |ms| Schedule { when: Rhythm::Every { ms, anchor: Time::EPOCH }, ..hourly() };
    let other = made_job(&mut hall);
    for (schedule, wanted, text) in [
        (every(1), job("t"), "every 1 ms is outside 1000 to 31536000000"),
        (
            Schedule { jitter_ms: u64::MAX, ..hourly() },
            job("t"),
            "jitter of 18446744073709551615 ms is outside 0",
        ),
        (hourly(), NewJob { run_at: Some(at(1)), ..job("t") }, "the job of a schedule cannot have run_at"),
        (
            hourly(),
            NewJob { after: vec![jobhall_core::After::Job(other)], ..job("t") },
            "the job of a schedule cannot have after",
        ),
        (
            hourly(),
            NewJob { retry_of: Some(other), ..job("t") },
            "the job of a schedule cannot have retry_of",
        ),
        (
            hourly(),
            NewJob { reuse: Some(jobhall_core::Reuse::MaxAge(u64::MAX)), ..job("t") },
            "reuse max_age of",
        ),
    ] {
        let refused = set_as(&mut hall, schedule, wanted, None).unwrap_err();
        assert!(refused.to_string().starts_with(text), "{refused}");
    }
    assert!(hall.store.settings_now().iter().all(|setting| setting.name != "s"));
}

fn made_job(hall: &mut Hall) -> JobId {
    hall.submit(job("other")).unwrap().id
}

#[test]
fn a_tick_that_could_not_be_stored_is_made_when_the_store_is_back() {
    let mut hall = hall();
    set(&mut hall, hourly());
    hall.pass(45 * MINUTE - 1);
    hall.fail = Some(CommitError::NotCommitted { full: true, message: "disk full".to_owned() });
    hall.pass(1);
    assert!(made(&hall).is_empty());
    hall.pass(2_000);
    assert_eq!(starts(&hall), [at(1)]);
    hall.pass(HOUR);
    assert_eq!(starts(&hall), [at(1), at(2)]);
}

#[test]
fn a_change_and_a_tick_on_their_way_together_both_come_to_be() {
    for change_first in [false, true] {
        let mut hall = hall();
        set(&mut hall, hourly());
        hall.pass(45 * MINUTE - 1);
        hall.hold = true;
        let config = ScheduleConfig { schedule: Schedule { jitter_ms: 1, ..hourly() }, job: job("t") };
        let request = Request::SetSchedule {
            name: name("s"),
            config: Some(Arc::new(config)),
            expected: None,
            by: None,
        };
        let mut ticket = None;
        if change_first {
            ticket = Some(hall.ask_later(request.clone()));
        }
        hall.pass(1);
        let ticket = ticket.unwrap_or_else(|| hall.ask_later(request));
        hall.let_through();
        hall.pass(0);
        assert_eq!(hall.answers.remove(&ticket), Some(Ok(Answer::Rev(2))));
        assert_eq!(made(&hall).len(), 1, "change first: {change_first}");
        hall.pass(HOUR);
        assert_eq!(made(&hall).len(), 2, "change first: {change_first}");
        assert_eq!(shown(&mut hall).config.schedule.jitter_ms, 1);
    }
}

#[test]
fn another_node_that_saw_to_a_tick_first_leaves_nothing_to_do() {
    let mut hall = hall();
    set(&mut hall, hourly());
    // Another kernel on the same store sees to the tick of one o'clock.
    let stored = hall.store.settings_now();
    let mut other = hall.restart(Config::default());
    other.pass(45 * MINUTE);
    assert_eq!(starts(&other), [at(1)]);
    // This one was there before it and looks now.
    let Hall { store, now, .. } = other;
    let mut late = Hall::new();
    late.kernel.restore_settings(stored).unwrap();
    late.store = store;
    late.now = now;
    late.pass(0);
    late.pass(2_000);
    assert_eq!(starts(&late), [at(1)]);
    late.pass(HOUR);
    assert_eq!(made(&late).len(), 2);
}

#[test]
fn ticks_wait_for_ids() {
    let mut hall = hall_with(Config { block: 1, ..Config::default() });
    set(&mut hall, Schedule { when: Rhythm::Every { ms: 1_000, anchor: Time::EPOCH }, ..hourly() });
    hall.pass(20_000);
    assert_eq!(made(&hall).len(), 20);
    let mut hall = down(hall, 30_000);
    hall.pass(0);
    assert_eq!(made(&hall).len(), 50);
}

#[test]
fn everything_about_the_job_of_a_schedule_comes_back_from_the_store() {
    let mut hall = hall();
    let wanted = NewJob {
        key: Some(Key::new("k § 1").unwrap()),
        queue: jobhall_core::QueueName::new("night").unwrap(),
        params: jobhall_core::Json::params(r#"{"n": 1.50, "text": "ä\"b"}"#).unwrap(),
        needs: jobhall_core::needs::Needs::parse("gpu>=1, os=linux").unwrap(),
        uses: jobhall_core::needs::Uses::parse("gpu=1").unwrap(),
        avoid: true,
        windows: Windows::parse("mon-fri 22:00-06:00 Europe/Berlin").unwrap(),
        throttle_factor: 7,
        timeouts: jobhall_core::Timeouts { total_ms: Some(9_000), silence_ms: Some(5_000) },
        owner: Some(jobhall_core::Owner::new("anna").unwrap()),
        tags: vec![jobhall_core::Tag::new("nightly").unwrap()],
        priority: -5,
        retry: crate::rig::tries(3),
        on_duplicate: OnDuplicate::RunAgain,
        reuse: Some(jobhall_core::Reuse::MaxAge(60_000)),
        ..job("report")
    };
    let when = Rhythm::Every { ms: 90_000, anchor: at(3) };
    let schedule = Schedule { when, zone: Zone::new("Asia/Tokyo").unwrap(), ..hourly() };
    set_as(&mut hall, schedule.clone(), wanted.clone(), None).unwrap();
    let before = shown(&mut hall);
    assert_eq!(*before.config, ScheduleConfig { schedule, job: wanted });
    let mut hall = hall.restart(Config::default());
    assert_eq!(shown(&mut hall), before);
}
