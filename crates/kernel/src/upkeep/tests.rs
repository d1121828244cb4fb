//! The deadlines without the services that run at them.

use super::*;
use crate::fixtures::{id, time};

fn deadlines() -> Deadlines {
    let now = Now { wall: time(50), mono: Mono(7) };
    Deadlines::new(now, &Config { retention_ms: 100, ..Config::default() })
}

/// One deadline of each kind.
fn all(at: u64) -> [Deadline; 10] {
    let name = ScheduleName::new("nightly").unwrap();
    [
        Deadline::Check(Mono(at), id(1)),
        Deadline::Timeout(Mono(at), id(1)),
        Deadline::External(time(at), id(1)),
        Deadline::Wait(Mono(at), id(1), Ticket::new(1)),
        Deadline::Session(Mono(at), SessionId(1)),
        Deadline::Vacancy(Mono(at), VacancyId(1)),
        Deadline::Avoided(Mono(at), id(1)),
        Deadline::Due(time(at), id(1)),
        Deadline::Closing(time(at), id(1)),
        Deadline::Tick(time(at), name),
    ]
}

/// The first deadline of each kind, in the order of [`all`].
fn first(deadlines: &Deadlines) -> [Option<u64>; 10] {
    let mono = |at: Mono| at.0;
    let wall = |at: Time| at.since(Time::EPOCH);
    [
        deadlines.checks.first().map(|first| mono(first.0)),
        deadlines.timeouts.first().map(|first| mono(first.0)),
        deadlines.external.first().map(|first| wall(first.0)),
        deadlines.waits.first().map(|first| mono(first.0)),
        deadlines.sessions.first().map(|first| mono(first.0)),
        deadlines.vacancies.first().map(|first| mono(first.0)),
        deadlines.avoided.first().map(|first| mono(first.0)),
        deadlines.due.first().map(|first| wall(first.0)),
        deadlines.closing.first().map(|first| wall(first.0)),
        deadlines.ticks.first().map(|first| wall(first.0)),
    ]
}

#[test]
fn each_kind_of_deadline_is_set_and_cleared_without_the_others() {
    for kind in 0..10 {
        let mut deadlines = deadlines();
        deadlines.set(all(5)[kind].clone());
        let expected: [_; 10] = std::array::from_fn(|at| (at == kind).then_some(5));
        assert_eq!(first(&deadlines), expected, "{:?}", all(5)[kind]);
        for (other, deadline) in all(5).into_iter().enumerate().filter(|(other, _)| *other != kind) {
            deadlines.clear(deadline);
            assert_eq!(first(&deadlines), expected, "clearing kind {other}");
        }
        deadlines.clear(all(5)[kind].clone());
        assert_eq!(first(&deadlines), [None; 10]);
    }
}

#[test]
fn the_earliest_deadline_of_each_kind_is_first() {
    let mut deadlines = deadlines();
    [9, 3, 6].into_iter().flat_map(all).for_each(|deadline| deadlines.set(deadline));
    assert_eq!(first(&deadlines), [Some(3); 10]);
    all(3).into_iter().for_each(|deadline| deadlines.clear(deadline));
    assert_eq!(first(&deadlines), [Some(6); 10]);
}

#[test]
fn a_deadline_is_cleared_only_at_its_time() {
    let mut deadlines = deadlines();
    all(5).into_iter().for_each(|deadline| deadlines.set(deadline));
    all(6).into_iter().for_each(|deadline| deadlines.clear(deadline));
    assert_eq!(first(&deadlines), [Some(5); 10]);
}

#[test]
fn requests_that_wait_until_the_same_time_are_kept_apart() {
    let mut deadlines = deadlines();
    [1, 2].into_iter().for_each(|ticket| deadlines.set(Deadline::Wait(Mono(5), id(1), Ticket::new(ticket))));
    deadlines.clear(Deadline::Wait(Mono(5), id(1), Ticket::new(1)));
    assert_eq!(deadlines.waits.first(), Some(&(Mono(5), id(1), Ticket::new(2))));
}

#[test]
fn windowed_jobs_are_those_that_are_not_due_and_those_that_close() {
    let mut deadlines = deadlines();
    all(5).into_iter().for_each(|deadline| deadlines.set(deadline));
    deadlines.set(Deadline::Due(time(9), id(4)));
    deadlines.set(Deadline::Due(time(8), id(3)));
    deadlines.set(Deadline::Closing(time(1), id(2)));
    assert_eq!(deadlines.windowed().collect::<Vec<_>>(), [id(1), id(3), id(4), id(2), id(1)]);
}

#[test]
fn a_wake_is_due_when_its_clock_has_reached_it() {
    let now = Now { wall: time(50), mono: Mono(7) };
    let wakes = [Wake::Mono(Mono(6)), Wake::Mono(Mono(7)), Wake::Mono(Mono(9))];
    assert_eq!(wakes.map(|wake| wake.in_ms(now)), [0, 0, 2]);
    let wakes = [Wake::Wall(time(49)), Wake::Wall(time(50)), Wake::Wall(time(53))];
    assert_eq!(wakes.map(|wake| wake.in_ms(now)), [0, 0, 3]);
}
