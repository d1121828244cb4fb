//! Time-of-day windows: when jobs become ready, and what becomes of those that nobody took in time.

use crate::rig::{Hall, failed, job, passed, tries};
use jobhall_core::{After, JobId, NewJob, StateName, Time, Windows};
use jobhall_kernel::{Config, Counts, Edit, Mono, Now, Request, Why};

const HOUR: u64 = 3_600_000;

fn at(hour: u64, minute: u64) -> Time {
    // 2026-01-15, a Thursday.
    Time::from_ms(1_768_435_200_000).unwrap().plus_ms(hour * HOUR + minute * 60_000)
}

/// A hall at this time of the day.
fn hall_at(hour: u64, minute: u64) -> Hall {
    let mut hall = Hall::new();
    set_clock(&mut hall, at(hour, minute));
    hall
}

fn set_clock(hall: &mut Hall, wall: Time) {
    hall.now = Now { wall, ..hall.now };
    hall.pass(0);
}

fn in_windows(text: &str) -> NewJob {
    NewJob { windows: Windows::parse(text).unwrap(), ..job("t") }
}

fn counted(hall: &mut Hall, state: StateName) -> u64 {
    let counts: Counts = hall.kernel.counts(hall.now);
    counts.open.of(state)
}

fn run_at(hall: &mut Hall, id: JobId) -> Time {
    hall.show(id).job.status.run_at
}

#[test]
fn h16_the_first_open_window_is_chosen_a_missed_one_moves_the_job_on_and_a_time_inside_wins() {
    let mut hall = hall_at(8, 0);
    let text = "22:00-23:00, 12:00-13:00";
    // The first that opens from now on.
    let early = hall.submit(in_windows(text)).unwrap().id;
    assert_eq!((run_at(&mut hall, early), hall.state(early)), (at(12, 0), StateName::Scheduled));
    // A time asked for inside of one wins, and one outside waits for the next opening after it.
    let inside = NewJob { run_at: Some(at(22, 30)), ..in_windows(text) };
    let inside = hall.submit(inside).unwrap().id;
    assert_eq!(run_at(&mut hall, inside), at(22, 30));
    let outside = NewJob { run_at: Some(at(12, 0).plus_ms(2 * HOUR)), ..in_windows(text) };
    let outside = hall.submit(outside).unwrap().id;
    assert_eq!(run_at(&mut hall, outside), at(22, 0));
    let past = NewJob { run_at: Some(at(22, 30).minus_ms(24 * HOUR)), ..in_windows(text) };
    let past = hall.submit(past).unwrap().id;
    assert_eq!(run_at(&mut hall, past), at(12, 0), "a window of yesterday is over");
    hall.cancel(past).unwrap();
    // Nobody takes it while it is open: it moves on to the next.
    hall.pass(4 * HOUR);
    assert_eq!((hall.state(early), counted(&mut hall, StateName::Queued)), (StateName::Queued, 1));
    hall.pass(HOUR - 1);
    assert_eq!(hall.state(early), StateName::Queued);
    hall.pass(1);
    assert_eq!((run_at(&mut hall, early), hall.state(early)), (at(22, 0), StateName::Scheduled));
    assert_eq!((counted(&mut hall, StateName::Queued), counted(&mut hall, StateName::Scheduled)), (0, 3));
    // A worker that waits outside of the windows gets nothing; the opening wakes it.
    hall.pass(9 * HOUR - 10_000);
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    hall.pass(9_999);
    assert!(hall.assignments().is_empty());
    hall.pass(1);
    let assigned: Vec<_> = hall.assignments().iter().map(|(_, one)| one.attempt.job).collect();
    assert_eq!((assigned, hall.now.wall), (vec![early], at(22, 0)));
}

#[test]
fn a_job_in_an_open_window_is_born_assigned() {
    let mut hall = hall_at(12, 30);
    let session = hall.worker("w", "");
    hall.vacancy(session, 2);
    let open = hall.submit(in_windows("12:00-13:00")).unwrap().id;
    let closed = hall.submit(in_windows("14:00-15:00")).unwrap().id;
    let assigned: Vec<_> = hall.assignments().iter().map(|(_, one)| one.attempt.job).collect();
    assert_eq!(assigned, [open]);
    assert_eq!(hall.stored(open).status.rev, 2, "one write");
    assert_eq!(hall.state(closed), StateName::Scheduled);
}

#[test]
fn the_passing_of_windows_costs_no_write() {
    let mut hall = hall_at(8, 0);
    let id = hall.submit(in_windows("12:00-13:00")).unwrap().id;
    let stored = hall.stored(id);
    hall.pass(3 * 24 * HOUR);
    assert_eq!(run_at(&mut hall, id), at(12, 0).plus_ms(3 * 24 * HOUR));
    assert_eq!(hall.stored(id), stored);
}

#[test]
fn a_restart_comes_to_the_same() {
    let mut hall = hall_at(12, 30);
    let id = hall.submit(in_windows("12:00-13:00")).unwrap().id;
    assert_eq!(hall.state(id), StateName::Queued);
    // The hall is down when the window closes.
    hall.now = Now { wall: at(14, 0), mono: Mono(hall.now.mono.0 + 5_400_000) };
    let mut hall = hall.restart(Config::default());
    assert_eq!((run_at(&mut hall, id), hall.state(id)), (at(12, 0).plus_ms(24 * HOUR), StateName::Scheduled));
    set_clock(&mut hall, at(12, 0).plus_ms(24 * HOUR));
    let held = hall.take_one("w");
    assert_eq!(held.attempt.job, id);
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.state(id), StateName::Succeeded);
}

#[test]
fn a_retry_waits_for_the_window_too() {
    let mut hall = hall_at(12, 59);
    let id = hall.submit(NewJob { retry: tries(3), ..in_windows("12:00-13:00") }).unwrap().id;
    hall.pass(50_000);
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    hall.pass(9_000);
    hall.report("w", &held, failed("no")).unwrap();
    assert_eq!(hall.state(id), StateName::Retrying);
    let next = at(12, 0).plus_ms(24 * HOUR);
    assert_eq!(run_at(&mut hall, id), next, "its backoff ends when the window is closed");
    hall.pass(60_000);
    assert!(matches!(&hall.explain(id).why[..], [Why::Window { opens, .. }] if *opens == next));
}

#[test]
fn a_clock_that_is_set_takes_jobs_out_of_their_window_and_back() {
    let mut hall = hall_at(12, 30);
    let id = hall.submit(in_windows("12:00-13:00")).unwrap().id;
    // Set back: nobody has looked since, and whoever comes now gets nothing.
    hall.now = Now { wall: at(11, 0), ..hall.now };
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    assert!(hall.assignments().is_empty());
    assert_eq!((run_at(&mut hall, id), hall.state(id)), (at(12, 30), StateName::Scheduled));
    // Set ahead over the whole window.
    set_clock(&mut hall, at(20, 0));
    assert!(hall.assignments().is_empty());
    assert_eq!(run_at(&mut hall, id), at(12, 0).plus_ms(24 * HOUR));
    // And into the next one.
    set_clock(&mut hall, at(12, 15).plus_ms(24 * HOUR));
    assert_eq!(hall.assignments().len(), 1);
}

#[test]
fn a_clock_that_was_wrong_for_a_while_leaves_nothing_behind() {
    let mut hall = hall_at(12, 30);
    let id = hall.submit(in_windows("12:00-13:00")).unwrap().id;
    set_clock(&mut hall, at(14, 0).plus_ms(72 * HOUR));
    assert_eq!(hall.state(id), StateName::Scheduled);
    set_clock(&mut hall, at(12, 40));
    assert_eq!((run_at(&mut hall, id), hall.state(id)), (at(12, 30), StateName::Queued));
}

#[test]
fn the_order_is_the_same_after_a_restart() {
    let mut hall = hall_at(12, 30);
    let missed = hall.submit(in_windows("12:00-13:00")).unwrap().id;
    hall.pass(12 * HOUR);
    let early = NewJob { run_at: Some(at(6, 0).plus_ms(24 * HOUR)), ..job("t") };
    let early = hall.submit(early).unwrap().id;
    let opening = hall.submit(in_windows("12:00-13:00")).unwrap().id;
    hall.pass(12 * HOUR);
    let order = |hall: &mut Hall| {
        let session = hall.worker("w", "");
        hall.vacancy(session, 3);
        hall.assignments().iter().map(|(_, one)| one.attempt.job).collect::<Vec<_>>()
    };
    let mut again = Hall::new();
    (again.store, again.now) = (copy(&hall), hall.now);
    let mut again = again.restart(Config::default());
    assert_eq!(order(&mut hall), [early, missed, opening]);
    assert_eq!(order(&mut again), [early, missed, opening]);
}

/// The same rows in another store.
fn copy(hall: &Hall) -> jobhall_store::Memory {
    let store = jobhall_store::Memory::new();
    let jobs = hall.store.all_jobs();
    store.take_block_now(1_000);
    let inserts = jobs.into_iter().map(|job| jobhall_store::Insert { job, reuse: None }).collect();
    let unit = jobhall_store::Unit { inserts, ..jobhall_store::Unit::default() };
    assert!(store.commit_now(vec![unit]).results[0].is_ok());
    store
}

#[test]
fn an_explanation_names_the_windows_and_the_opening() {
    let mut hall = hall_at(8, 0);
    let id = hall.submit(in_windows("12:00-13:00 Europe/Berlin")).unwrap().id;
    let explanation = hall.explain(id);
    let opens = at(11, 0);
    let windows = Windows::parse("12:00-13:00 Europe/Berlin").unwrap();
    assert_eq!(explanation.why, [Why::Window { windows, opens }]);
    let text = format!("its windows are closed until {} ms: 12:00-13:00 Europe/Berlin", opens.as_ms());
    assert_eq!(explanation.why[0].to_string(), text);
    // A time of its own is another reason, window or not.
    let later = NewJob { run_at: Some(at(12, 30).plus_ms(48 * HOUR)), ..in_windows("12:00-13:00") };
    let later = hall.submit(later).unwrap().id;
    assert_eq!(hall.explain(later).why, [Why::NotDue(at(12, 30).plus_ms(48 * HOUR))]);
}

#[test]
fn an_edit_moves_a_job_to_other_windows_and_run_now_passes_them_over() {
    let mut hall = hall_at(8, 0);
    let id = hall.submit(in_windows("12:00-13:00")).unwrap().id;
    let edit = Edit { windows: Some(Windows::parse("14:00-15:00").unwrap()), ..Edit::default() };
    hall.ask(Request::Edit { id, edit: Box::new(edit) }).unwrap();
    assert_eq!((run_at(&mut hall, id), hall.state(id)), (at(14, 0), StateName::Scheduled));
    hall.pass(5 * HOUR);
    assert_eq!(hall.state(id), StateName::Scheduled, "the old window says nothing any more");
    hall.ask(Request::RunNow { id }).unwrap();
    assert_eq!(hall.state(id), StateName::Queued);
    hall.pass(4 * HOUR);
    assert_eq!(hall.take_one("w").attempt.job, id);
}

#[test]
fn many_jobs_leave_and_enter_a_window_together() {
    let mut hall = Hall::with(Config { spec_bytes: 0, ..Config::default() });
    set_clock(&mut hall, at(12, 59));
    let jobs = (0..500).map(|_| in_windows("12:00-13:00")).collect();
    hall.submit_all(jobs).unwrap();
    assert_eq!(counted(&mut hall, StateName::Queued), 500);
    hall.pass(60_000);
    assert_eq!((counted(&mut hall, StateName::Queued), counted(&mut hall, StateName::Scheduled)), (0, 500));
    hall.pass(23 * HOUR);
    assert_eq!((counted(&mut hall, StateName::Queued), counted(&mut hall, StateName::Scheduled)), (500, 0));
    let session = hall.worker("w", "");
    hall.vacancy(session, 500);
    assert_eq!(hall.assignments().len(), 500, "also those whose specs were forgotten");
}

#[test]
fn a_release_that_is_stored_leaves_the_time_that_was_asked_for() {
    let mut hall = hall_at(8, 0);
    let first = hall.submit(job("first")).unwrap().id;
    let behind = NewJob { after: vec![After::Job(first)], ..in_windows("12:00-13:00") };
    let id = hall.submit(behind).unwrap().id;
    let asked = hall.stored(id).status.run_at;
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    hall.pass(2_000);
    assert_eq!(hall.stored(id).status.state.name(), StateName::Queued, "its release is stored");
    assert_eq!(run_at(&mut hall, id), at(12, 0));
    assert_eq!(hall.stored(id).status.run_at, asked, "the opening follows from it, and is not stored");
}

#[test]
fn hold_release_and_edit_leave_the_time_that_was_stored() {
    let mut hall = hall_at(8, 0);
    let id = hall.submit(in_windows("12:00-13:00")).unwrap().id;
    let stored = hall.stored(id).status.run_at;
    hall.pass(6 * HOUR);
    assert_eq!(run_at(&mut hall, id), at(36, 0), "nobody took it today");
    let edit = |windows: &str| {
        let edit = Edit { windows: Some(Windows::parse(windows).unwrap()), ..Edit::default() };
        Request::Edit { id, edit: Box::new(edit) }
    };
    for request in [Request::Hold { id }, Request::Release { id }, edit("20:00-21:00")] {
        hall.ask(request).unwrap();
        assert_eq!(hall.stored(id).status.run_at, stored, "where its windows moved it is not stored");
    }
    assert_eq!(run_at(&mut hall, id), at(20, 0), "today, although it had been moved to tomorrow");
}

#[test]
fn a_clock_that_went_ahead_and_back_leaves_ready_jobs_in_their_order() {
    let mut hall = hall_at(12, 0);
    let early = hall.submit(in_windows("10:00-09:00")).unwrap().id;
    let late = hall.submit(job("t")).unwrap().id;
    // Three days ahead its window has closed and opened again.
    set_clock(&mut hall, at(12, 0).plus_ms(3 * 24 * HOUR));
    set_clock(&mut hall, at(12, 1));
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    let given = hall.assignments().remove(0).1.attempt.job;
    assert_eq!(given, early, "it was asked for before job {late}");
}
