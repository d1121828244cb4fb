//! Attempts that take too long, or say nothing for too long.

use crate::rig::{Hall, failed, job, passed, tries};
use jobhall_core::{JobId, NewJob, Outcome, Report, StateName, Timeouts};
use jobhall_kernel::{Assignment, Config, Effect, Now, Rejected, Request, Why};

fn limited(total_ms: Option<u64>, silence_ms: Option<u64>) -> NewJob {
    NewJob { timeouts: Timeouts { total_ms, silence_ms }, retry: tries(2), ..job("t") }
}

/// A job that a worker has accepted.
fn running(hall: &mut Hall, job: NewJob) -> (JobId, Assignment) {
    let id = hall.submit(job).unwrap().id;
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    (id, held)
}

fn told_to_stop(hall: &Hall, held: &Assignment) -> bool {
    hall.effects
        .iter()
        .any(|effect| matches!(effect, Effect::TimeOut(_, attempt) if *attempt == held.attempt))
}

/// Lets time pass in which the worker is there and says nothing of its attempts.
fn pass(hall: &mut Hall, ms: u64) {
    let sessions: Vec<_> = hall.sessions.clone();
    let mut left = ms;
    while left > 0 {
        let step = left.min(10_000);
        hall.pass(step);
        left -= step;
        for &session in &sessions {
            let _ = hall.ask(Request::Renew { session });
        }
    }
}

#[test]
fn h12_an_attempt_is_stopped_when_its_total_time_is_over_and_not_before() {
    for total_ms in [1, 300, 1_000, 3_600_000] {
        let mut hall = Hall::new();
        let (id, held) = running(&mut hall, limited(Some(total_ms), None));
        pass(&mut hall, total_ms - 1);
        assert!(!told_to_stop(&hall, &held), "{total_ms} ms are not over");
        pass(&mut hall, 1);
        assert!(told_to_stop(&hall, &held), "{total_ms} ms are over");
        assert_eq!(hall.state(id), StateName::Accepted, "its worker has its grace");
        hall.report("w", &held, Report::Cancelled).unwrap();
        assert_eq!(hall.state(id), StateName::Retrying);
        let past = &hall.past(id)[0];
        assert_eq!((past.outcome, past.failure.reason.as_str()), (Outcome::TimedOut, "timed_out"));
        assert_eq!(past.failure.explanation, format!("the attempt took longer than {total_ms} ms"));
        assert!(hall.report("w", &held, Report::Cancelled).is_ok(), "said again it is answered as at first");
    }
}

#[test]
fn h12_a_day_is_the_default_and_a_type_has_its_own() {
    let mut hall = Hall::new();
    let (_, held) = running(&mut hall, job("t"));
    pass(&mut hall, 86_399_999);
    assert!(!told_to_stop(&hall, &held));
    pass(&mut hall, 1);
    assert!(told_to_stop(&hall, &held));
    let mut hall = Hall::new();
    hall.set_type("t", |config| config.timeouts = Timeouts { total_ms: Some(5_000), silence_ms: None });
    let (_, held) = running(&mut hall, limited(None, None));
    pass(&mut hall, 5_000);
    assert!(told_to_stop(&hall, &held), "as the type says");
    let mut hall = Hall::new();
    hall.set_type("t", |config| config.timeouts = Timeouts { total_ms: Some(5_000), silence_ms: None });
    let (_, held) = running(&mut hall, limited(Some(9_000), None));
    pass(&mut hall, 8_999);
    assert!(!told_to_stop(&hall, &held), "as the job says");
}

#[test]
fn l19_an_attempt_that_says_nothing_for_too_long_is_stopped() {
    let mut hall = Hall::new();
    let (id, held) = running(&mut hall, limited(None, Some(10_000)));
    for _ in 0..5 {
        pass(&mut hall, 9_999);
        hall.progress("w", &held).unwrap();
    }
    assert!(!told_to_stop(&hall, &held), "it was heard in time, five times");
    pass(&mut hall, 10_000);
    assert!(told_to_stop(&hall, &held));
    let Why::TimingOut { why, .. } = &hall.explain(id).why[0] else { panic!("{:?}", hall.explain(id)) };
    assert_eq!(why, "there was no output or progress for 10000 ms");
    hall.report("w", &held, failed("killed")).unwrap();
    assert_eq!(hall.past(id)[0].outcome, Outcome::TimedOut);
}

#[test]
fn h12_a_worker_that_does_not_obey_loses_the_attempt_after_its_grace() {
    let mut hall = Hall::new();
    let (id, held) = running(&mut hall, limited(Some(2_000), None));
    pass(&mut hall, 2_000 + 14_999);
    assert_eq!(hall.state(id), StateName::Accepted);
    pass(&mut hall, 1);
    assert_eq!(hall.state(id), StateName::Retrying);
    assert_eq!(hall.past(id)[0].outcome, Outcome::TimedOut);
    assert!(hall.effects.iter().any(|e| matches!(e, Effect::Revoke(_, attempt) if *attempt == held.attempt)));
    assert_eq!(hall.report("w", &held, passed()), Err(Rejected::LeaseLost(held.attempt)), "too late");
}

#[test]
fn h12_the_last_attempt_that_takes_too_long_ends_the_job() {
    let mut hall = Hall::new();
    let (id, held) = running(&mut hall, NewJob { retry: tries(1), ..limited(Some(2_000), None) });
    pass(&mut hall, 2_000);
    hall.report("w", &held, Report::Cancelled).unwrap();
    let status = hall.show(id).job.status;
    assert_eq!((status.state.name(), status.state.outcome()), (StateName::Crashed, Some(Outcome::TimedOut)));
}

#[test]
fn a_success_that_crosses_with_the_time_out_counts_and_a_cancel_goes_over_both() {
    let mut hall = Hall::new();
    let (id, held) = running(&mut hall, limited(Some(2_000), None));
    pass(&mut hall, 2_000);
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.state(id), StateName::Succeeded);
    let (id, held) = running(&mut hall, limited(Some(2_000), None));
    pass(&mut hall, 2_000);
    hall.cancel(id).unwrap();
    pass(&mut hall, 60_000);
    assert_eq!(hall.state(id), StateName::Accepted, "who is cancelled is not forced");
    hall.report("w", &held, failed("killed")).unwrap();
    assert_eq!(hall.state(id), StateName::Cancelled);
}

#[test]
fn h12_the_total_time_is_exact_over_a_restart_and_silence_begins_anew() {
    let mut hall = Hall::new();
    let (id, held) = running(&mut hall, limited(Some(20_000), Some(15_000)));
    pass(&mut hall, 12_000);
    let mut hall = hall.restart(Config::default());
    let come_back = |hall: &mut Hall| hall.come_back("w", &[&held]);
    come_back(&mut hall);
    pass(&mut hall, 7_998);
    assert!(!told_to_stop(&hall, &held), "eight seconds are left, and it may be silent that long");
    // Stored moments are strictly rising, so that of the acceptance may be a step or two behind the clock.
    pass(&mut hall, 4);
    assert!(told_to_stop(&hall, &held));
    let mut hall = hall.restart(Config::default());
    come_back(&mut hall);
    assert!(told_to_stop(&hall, &held), "who comes back hears of it again");
    pass(&mut hall, 15_000);
    assert_eq!(hall.state(id), StateName::Retrying, "and has its grace again");
}

#[test]
fn a_wall_clock_that_jumps_stops_nobody() {
    let mut hall = Hall::new();
    let (_, held) = running(&mut hall, limited(Some(60_000), Some(30_000)));
    pass(&mut hall, 2_000);
    hall.now = Now { wall: hall.now.wall.plus_ms(86_400_000), ..hall.now };
    pass(&mut hall, 10_000);
    assert!(!told_to_stop(&hall, &held));
}

#[test]
fn h12_an_attempt_that_takes_longer_than_expected_is_marked() {
    let mut hall = Hall::new();
    hall.set_type("t", |config| config.expected_ms = Some(5_000));
    let (id, held) = running(&mut hall, job("t"));
    pass(&mut hall, 5_000);
    assert_eq!(hall.show(id).longer_than_ms, None);
    pass(&mut hall, 1);
    assert_eq!(hall.show(id).longer_than_ms, Some(5_000));
    let why = &hall.explain(id).why;
    assert_eq!(why[1], Why::LongerThanExpected { expected_ms: 5_000, worked_ms: 5_001 });
    assert!(why[1].to_string().starts_with("longer than expected"));
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.show(id).longer_than_ms, None);
}
