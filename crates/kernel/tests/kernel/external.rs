//! Work that goes on outside, and its outcome in every order of arrival.

use crate::rig::{Hall, failed, keyed, passed, tries};
use jobhall_core::{IllegalTransition, JobId, Json, NewJob, Outcome, Report, StateName, Timeouts};
use jobhall_kernel::{Answer, Assignment, Config, Rejected, Request, Why};

fn outside() -> NewJob {
    NewJob { retry: tries(2), ..keyed("ext", "k") }
}

fn hall() -> (Hall, JobId) {
    let mut hall = Hall::new();
    hall.set_type("ext", |config| {
        config.external = true;
        config.timeouts = Timeouts { total_ms: Some(60_000), silence_ms: None };
    });
    let id = hall.submit(outside()).unwrap().id;
    (hall, id)
}

fn finish(hall: &mut Hall, id: JobId, attempt: Option<u32>, report: Report) -> Result<Answer, Rejected> {
    hall.ask(Request::Complete { id, attempt, report })
}

fn value(text: &str) -> Report {
    Report::Succeeded(Json::trusted(text))
}

fn refusal(answer: Result<Answer, Rejected>) -> IllegalTransition {
    match answer {
        Err(Rejected::Event(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// A worker that has taken it.
fn assigned(hall: &mut Hall) -> Assignment {
    hall.take_one("w")
}

#[test]
fn h10_the_worker_starts_it_and_someone_else_ends_it() {
    let (mut hall, id) = hall();
    let held = assigned(&mut hall);
    assert_eq!(hall.started("w", &held).unwrap(), Answer::State(StateName::Waiting));
    assert_eq!(hall.started("w", &held).unwrap(), Answer::State(StateName::Waiting), "said twice");
    let Why::WaitsExternal { attempt: 1, until } = hall.explain(id).why[0] else {
        panic!("explained otherwise")
    };
    assert_eq!(until, hall.now.wall.plus_ms(60_000));
    assert_eq!(hall.report("w", &held, passed()), Err(Rejected::LeaseLost(held.attempt)), "it let it go");
    finish(&mut hall, id, Some(1), value("7")).unwrap();
    let status = hall.show(id).job.status;
    assert_eq!(
        (status.state.name(), status.state.outcome()),
        (StateName::Succeeded, Some(Outcome::Succeeded))
    );
    finish(&mut hall, id, None, value("7")).expect("the same said again");
    assert!(matches!(refusal(finish(&mut hall, id, None, value("8"))), IllegalTransition::Illegal { .. }));
    assert!(hall.started("w", &held).is_ok(), "the handler that says it again is answered as at first");
}

#[test]
fn h10_an_outcome_before_the_handler_returns_is_kept_durably() {
    for accepted in [false, true] {
        let (mut hall, id) = hall();
        let held = assigned(&mut hall);
        if accepted {
            hall.accept("w", &held).unwrap();
        }
        finish(&mut hall, id, None, value("7")).unwrap();
        finish(&mut hall, id, Some(1), value("7")).expect("twice the same");
        assert_eq!(refusal(finish(&mut hall, id, None, value("8"))), IllegalTransition::ToldOtherwise);
        let mut hall = hall.restart(Config::default());
        hall.come_back("w", &[&held]);
        assert_eq!(hall.started("w", &held).unwrap(), Answer::State(StateName::Succeeded));
        assert_eq!(hall.stored(id).status.attempt, 1);
    }
}

#[test]
fn h10_an_outcome_that_was_kept_counts_though_the_worker_vanishes() {
    for (report, state) in [(value("7"), StateName::Succeeded), (failed("no"), StateName::Retrying)] {
        let (mut hall, id) = hall();
        let held = assigned(&mut hall);
        hall.accept("w", &held).unwrap();
        finish(&mut hall, id, None, report.clone()).unwrap();
        hall.pass(31_000);
        assert_eq!(hall.state(id), state);
        assert_eq!(hall.stored(id).status.lost, 0, "it was not lost: its outcome is known");
        let (mut hall, id) = self::hall();
        assigned(&mut hall);
        finish(&mut hall, id, None, report).unwrap();
        hall.pass(5_000);
        assert_eq!((hall.state(id), hall.stored(id).status.attempt), (state, 1), "nobody accepted it");
    }
}

#[test]
fn h10_a_failure_from_outside_is_tried_again_and_said_again_answers_as_at_first() {
    let (mut hall, id) = hall();
    let held = assigned(&mut hall);
    hall.started("w", &held).unwrap();
    finish(&mut hall, id, Some(1), failed("no")).unwrap();
    assert_eq!(hall.state(id), StateName::Retrying);
    finish(&mut hall, id, Some(1), failed("no")).expect("said again");
    finish(&mut hall, id, None, failed("no")).expect("said again");
    assert!(matches!(
        refusal(finish(&mut hall, id, None, failed("other"))),
        IllegalTransition::Illegal { .. }
    ));
    hall.pass(60_000);
    let second = assigned(&mut hall);
    hall.started("w", &second).unwrap();
    assert_eq!(
        refusal(finish(&mut hall, id, Some(1), value("1"))),
        IllegalTransition::OtherAttempt { current: 2 }
    );
    finish(&mut hall, id, Some(1), failed("no")).expect("of the old attempt, and known");
    finish(&mut hall, id, Some(2), value("1")).unwrap();
    assert_eq!(hall.state(id), StateName::Succeeded);
}

#[test]
fn h10_a_cancel_ends_it_at_once_and_no_outcome_is_taken_after() {
    let (mut hall, id) = hall();
    let held = assigned(&mut hall);
    hall.started("w", &held).unwrap();
    hall.cancel(id).unwrap();
    assert_eq!(hall.state(id), StateName::Cancelled);
    assert!(matches!(refusal(finish(&mut hall, id, None, value("7"))), IllegalTransition::Illegal { .. }));
}

#[test]
fn h10_nobody_telling_in_time_is_a_time_out_over_restarts_too() {
    let (mut hall, id) = hall();
    let held = assigned(&mut hall);
    hall.started("w", &held).unwrap();
    hall.pass(30_000);
    let mut hall = hall.restart(Config::default());
    hall.pass(29_999);
    assert_eq!(hall.state(id), StateName::Waiting);
    hall.pass(1);
    assert_eq!(hall.state(id), StateName::Retrying);
    let past = &hall.past(id)[0];
    assert_eq!((past.outcome, past.failure.reason.as_str()), (Outcome::TimedOut, "timed_out"));
}

#[test]
fn h10_only_types_that_are_external_have_it() {
    let mut hall = Hall::new();
    let id = hall.submit(keyed("t", "k")).unwrap().id;
    let held = hall.take_one("w");
    let not_external = |answer| matches!(answer, Err(Rejected::NotExternal(_)));
    assert!(not_external(hall.started("w", &held)));
    assert!(not_external(finish(&mut hall, id, None, value("1"))));
    assert_eq!(hall.stored(id).status.state.name(), StateName::Assigned, "nothing was written");
}

#[test]
fn before_any_worker_has_it_no_outcome_is_taken() {
    let (mut hall, id) = hall();
    assert!(matches!(refusal(finish(&mut hall, id, None, value("7"))), IllegalTransition::Illegal { .. }));
    assert_eq!(
        refusal(finish(&mut hall, id, Some(1), value("7"))),
        IllegalTransition::OtherAttempt { current: 0 }
    );
}
