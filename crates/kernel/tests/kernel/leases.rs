//! Claims, leases and reports: who may say what about an attempt, and what silence means.

use crate::rig::{Hall, failed, job, other_lease, passed, tries, worker};
use jobhall_core::needs::{Abilities, Accepts};
use jobhall_core::{AttemptId, Failure, Json, NewJob, Outcome, Report, StateName, Verdict, When};
use jobhall_kernel::{Answer, AttemptRef, Config, Effect, Mono, OpenedSession, Rejected, Request, SessionId};

#[test]
fn h05_attempt_counts_accepted_claims() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    assert_eq!(hall.show(id).job.status.attempt, 0);
    hall.take_one("w1");
    hall.pass(5_000);
    let status = hall.show(id).job.status;
    assert_eq!((status.claim, status.attempt, status.unaccepted), (1, 0, 1), "taken back, not counted");
    let second = hall.take_one("w2");
    hall.accept("w2", &second).unwrap();
    let status = hall.show(id).job.status;
    assert_eq!((status.claim, status.attempt, status.unaccepted), (2, 1, 0));
    assert_eq!(status.state.name(), StateName::Accepted);
    hall.progress("w2", &second).unwrap();
    let status = hall.show(id).job.status;
    assert_eq!((status.claim, status.attempt, status.state.name()), (2, 1, StateName::Running));
}

#[test]
fn not_accepted_in_time_is_taken_back_and_the_worker_told() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    hall.pass(4_999);
    assert_eq!(hall.state(id), StateName::Assigned);
    hall.pass(1);
    assert_eq!(hall.state(id), StateName::Queued);
    assert!(hall.effects.iter().any(|e| matches!(e, Effect::Revoke(_, attempt) if *attempt == held.attempt)));
    assert_eq!(hall.accept("w", &held), Err(Rejected::LeaseLost(held.attempt)));
}

#[test]
fn ten_claims_in_a_row_that_nobody_accepts_crash_the_job() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    for n in 0..10 {
        assert_eq!(hall.state(id), StateName::Queued, "after {n}");
        hall.take_one("w");
        hall.pass(5_000);
    }
    assert_eq!(hall.state(id), StateName::Crashed);
    assert_eq!(hall.show(id).job.status.state.error().unwrap().reason, "unaccepted");
}

#[test]
fn g2_only_the_holder_of_the_current_lease_may_report() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    let before = hall.show(id).job;
    let lost = Err(Rejected::LeaseLost(held.attempt));
    assert_eq!(hall.report("thief", &held, passed()), lost, "another worker with the right lease");
    let mut forged = held.clone();
    forged.lease = other_lease(held.lease);
    assert_eq!(hall.report("w", &forged, passed()), lost, "a wrong lease");
    assert_eq!(hall.progress("w", &forged), lost);
    assert_eq!(hall.accept("w", &forged), lost);
    forged = held.clone();
    forged.attempt = AttemptId { claim: 2, ..held.attempt };
    assert_eq!(
        hall.report("w", &forged, passed()),
        Err(Rejected::LeaseLost(forged.attempt)),
        "a later claim"
    );
    assert_eq!(hall.show(id).job, before, "nothing changed");
    assert_eq!(hall.report("w", &held, passed()), Ok(Answer::State(StateName::Succeeded)));
}

#[test]
fn l18_a_success_of_null_is_final_and_a_repeat_is_answered_alike() {
    let mut hall = Hall::new();
    for value in ["null", "false", "0", "{\"a\":1}"] {
        let id = hall.submit(job("t")).unwrap().id;
        let held = hall.take_one("w");
        let report = Report::Succeeded(Json::value(value).unwrap());
        let first = hall.report("w", &held, report.clone());
        assert_eq!(first, Ok(Answer::State(StateName::Succeeded)));
        assert_eq!(hall.report("w", &held, report), first, "repeated");
        assert_eq!(hall.report("w", &held, failed("no")), Err(Rejected::LeaseLost(held.attempt)));
        let other = Report::Succeeded(Json::value("\"other\"").unwrap());
        assert_eq!(hall.report("w", &held, other), Err(Rejected::LeaseLost(held.attempt)));
        match hall.show(id).job.status.state {
            jobhall_core::State::Succeeded(success) => assert_eq!(success.value.as_str(), value),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_repeated_report_of_a_past_attempt_is_answered_and_changes_nothing() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(3), ..job("t") }).unwrap().id;
    let first = hall.take_one("w");
    hall.report("w", &first, failed("x")).unwrap();
    assert_eq!(hall.report("w", &first, failed("x")), Ok(Answer::State(StateName::Retrying)));
    assert_eq!(hall.report("w", &first, failed("y")), Err(Rejected::LeaseLost(first.attempt)));
    hall.pass(10_000);
    let second = hall.take_one("w2");
    let before = hall.show(id).job;
    assert_eq!(hall.report("w", &first, failed("x")), Ok(Answer::State(StateName::Assigned)));
    assert_eq!(hall.report("w", &first, passed()), Err(Rejected::LeaseLost(first.attempt)));
    assert_eq!(hall.show(id).job, before);
    hall.report("w2", &second, passed()).unwrap();
    let mut hall = hall.restart(Config::default());
    assert_eq!(hall.report("w", &first, failed("x")), Ok(Answer::State(StateName::Succeeded)));
    assert_eq!(hall.report("w2", &second, passed()), Ok(Answer::State(StateName::Succeeded)));
}

#[test]
fn g8_lease_end_and_late_result_in_both_orders() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    hall.progress("w", &held).unwrap();
    hall.pass(30_000);
    assert_eq!(hall.state(id), StateName::Retrying, "the lease ended first");
    assert_eq!(hall.report("w", &held, passed()), Err(Rejected::LeaseLost(held.attempt)));
    assert_eq!(hall.state(id), StateName::Retrying);
    let second = hall.take_one("w2");
    hall.progress("w2", &second).unwrap();
    hall.hold = true;
    let (attempt, lease) = (second.attempt, second.lease);
    let ticket = hall.ask_later(Request::Report {
        of: AttemptRef { worker: worker("w2"), attempt, lease },
        report: passed(),
        records: Vec::new(),
    });
    hall.pass(30_000);
    hall.let_through();
    assert_eq!(
        hall.answers.remove(&ticket),
        Some(Ok(Answer::State(StateName::Succeeded))),
        "the result came first"
    );
    assert_eq!(hall.state(id), StateName::Succeeded);
    assert_eq!(hall.show(id).job.status.lost, 1);
}

#[test]
fn h04_the_error_is_empty_at_first_and_in_work_and_set_while_retrying() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(2), ..job("t") }).unwrap().id;
    let error = |hall: &mut Hall| hall.show(id).job.status.state.error().map(|error| error.reason.clone());
    assert_eq!(error(&mut hall), None);
    let held = hall.take_one("w");
    hall.progress("w", &held).unwrap();
    assert_eq!(error(&mut hall), None);
    hall.report("w", &held, failed("first")).unwrap();
    assert_eq!(error(&mut hall), Some("first".to_owned()));
    hall.pass(10_000);
    let second = hall.take_one("w2");
    assert_eq!(error(&mut hall), None, "in work again");
    hall.pass(5_000);
    assert_eq!(error(&mut hall), Some("first".to_owned()), "taken back: as before");
    let third = hall.take_one("w3");
    assert_ne!(second.lease, third.lease);
    hall.report("w3", &third, failed("second")).unwrap();
    assert_eq!((hall.state(id), error(&mut hall)), (StateName::Failed, Some("second".to_owned())));
}

#[test]
fn three_lost_leases_crash_a_job() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(1), ..job("t") }).unwrap().id;
    for n in 1..=3 {
        let held = hall.take_one(&format!("w{n}"));
        hall.accept(&format!("w{n}"), &held).unwrap();
        hall.pass(30_000);
        let expected = if n < 3 { StateName::Retrying } else { StateName::Crashed };
        assert_eq!(hall.state(id), expected, "after {n}");
    }
    let shown = hall.show(id);
    assert_eq!(shown.job.status.state.error().unwrap().reason, "too_many_lost_leases");
    assert_eq!((shown.job.status.attempt, shown.job.status.lost), (3, 3));
    let outcomes: Vec<_> = hall.past(id).iter().map(|past| past.outcome).collect();
    assert_eq!(outcomes, [Outcome::Lost, Outcome::Lost]);
}

#[test]
fn a_renewed_session_keeps_its_leases_and_a_jump_of_the_wall_clock_takes_none() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    let held = hall.assignments().remove(0).1;
    hall.accept("w", &held).unwrap();
    for _ in 0..6 {
        hall.pass(29_000);
        hall.ask(Request::Renew { session }).unwrap();
    }
    hall.now.wall = hall.now.wall.plus_ms(86_400_000);
    hall.kernel.tick(hall.now);
    hall.pump();
    hall.now.wall = hall.now.wall.minus_ms(3 * 86_400_000);
    hall.pass(29_999);
    assert_eq!(hall.state(id), StateName::Accepted);
    hall.pass(1);
    assert_eq!(hall.state(id), StateName::Retrying);
    assert_eq!(hall.ask(Request::Renew { session }), Err(Rejected::NoSuchSession));
}

#[test]
fn l17_nothing_is_assigned_to_a_vacancy_that_is_gone() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    hall.ask(Request::Disconnect { session }).unwrap();
    let id = hall.submit(job("t")).unwrap().id;
    assert!(hall.assignments().is_empty(), "disconnected");
    assert_eq!(hall.state(id), StateName::Queued);
    let other = hall.worker("w2", "gpu=1");
    hall.ask(Request::Vacancy { session: other, slots: 1, wait_ms: 10 }).unwrap();
    assert_eq!(hall.assignments().len(), 1, "matched: it is over");
    hall.submit(job("t")).unwrap();
    assert!(hall.assignments().is_empty());
    let third = hall.worker_with("w3", "", "type=other");
    hall.ask(Request::Vacancy { session: third, slots: 1, wait_ms: 10 }).unwrap();
    hall.pass(10);
    hall.submit(job("other")).unwrap();
    assert!(hall.assignments().is_empty(), "timed out");
    let ended = hall.effects.iter().filter(|e| matches!(e, Effect::VacancyEnded(..))).count();
    assert_eq!(ended, 3);
}

#[test]
fn a_claim_that_crosses_a_disconnect_returns_uncounted() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    hall.hold = true;
    let ticket = hall.ask_later(Request::Submit {
        submit: jobhall_kernel::Submit { jobs: vec![job("t")], ..jobhall_kernel::Submit::default() },
    });
    hall.ask_later(Request::Disconnect { session });
    hall.let_through();
    let Some(Ok(Answer::Submitted(submitted))) = hall.answers.remove(&ticket) else { panic!("no answer") };
    assert!(hall.assignments().is_empty());
    let status = hall.show(submitted[0].id).job.status;
    assert_eq!((status.state.name(), status.attempt, status.claim), (StateName::Queued, 0, 1));
}

fn reopen(
    hall: &mut Hall,
    name: &str,
    attempts: Vec<(AttemptId, jobhall_core::LeaseId)>,
) -> (SessionId, usize, usize) {
    let (abilities, accepts) = (Abilities::default(), Accepts::default());
    match hall
        .ask(Request::OpenSession {
            worker: worker(name),
            abilities,
            accepts,
            attempts,
            lease_ms: None,
            fresh: false,
        })
        .unwrap()
    {
        Answer::Session(OpenedSession { session, kept, lost, .. }) => (session, kept.len(), lost.len()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn g7_after_a_restart_a_worker_has_one_full_lease_to_come_back() {
    let mut hall = Hall::new();
    let ids: Vec<_> = (0..2).map(|_| hall.submit(job("t")).unwrap().id).collect();
    let held: Vec<_> = (0..2).map(|_| hall.take_one("w")).collect();
    for held in &held {
        hall.progress("w", held).unwrap();
    }
    hall.pass(1_500);
    assert_eq!(hall.stored(ids[0]).status.state.name(), StateName::Running, "stored once it is old enough");
    let mut hall = hall.restart(Config::default());
    hall.pass(29_000);
    assert_eq!(hall.state(ids[0]), StateName::Running, "not lost by the restart");
    let (session, kept, lost) = reopen(
        &mut hall,
        "w",
        vec![(held[0].attempt, held[0].lease), (held[1].attempt, other_lease(held[1].lease))],
    );
    assert_eq!((kept, lost), (1, 1));
    hall.pass(1_000);
    assert_eq!(hall.state(ids[0]), StateName::Running, "kept by the new session");
    assert_eq!(hall.state(ids[1]), StateName::Retrying, "nobody came for it");
    hall.pass(28_000);
    hall.ask(Request::Renew { session }).unwrap();
    assert_eq!(hall.report("w", &held[0], passed()), Ok(Answer::State(StateName::Succeeded)));
}

#[test]
fn a_session_that_moves_takes_its_attempts_along_and_a_stranger_does_not() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let (_, kept, lost) = reopen(&mut hall, "thief", vec![(held.attempt, held.lease)]);
    assert_eq!((kept, lost), (0, 1));
    hall.pass(20_000);
    let (_, kept, _) = reopen(&mut hall, "w", vec![(held.attempt, held.lease)]);
    assert_eq!(kept, 1);
    hall.pass(20_000);
    assert_eq!(hall.state(id), StateName::Accepted, "the old session ended, the attempt had moved");
}

#[test]
fn closing_a_session_ends_its_leases_at_once() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    let held = hall.assignments().remove(0).1;
    hall.accept("w", &held).unwrap();
    hall.ask(Request::CloseSession { session }).unwrap();
    assert_eq!(hall.state(id), StateName::Retrying);
    assert_eq!(hall.show(id).job.status.lost, 1);
}

fn verdict(when: When, params: Option<&str>) -> Report {
    let params = params.map(|params| Json::params(params).unwrap());
    Report::Failed(Failure::new("x", ""), Some(Verdict { when, params }))
}

#[test]
fn h13_the_worker_may_say_when_and_with_which_params_to_try_again() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(3), ..job("t") }).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, verdict(When::Snooze(600_000), Some("[1]"))).unwrap();
    let status = hall.show(id).job.status;
    assert_eq!((status.attempt, status.snoozed, status.tries()), (1, 1, 0));
    assert_eq!(status.run_at, hall.now.wall.plus_ms(600_000));
    hall.pass(600_000);
    let held = hall.take_one("w");
    assert_eq!((held.number, held.spec.params.as_str()), (2, "[1]"));
    hall.report("w", &held, verdict(When::Now, None)).unwrap();
    let held = hall.take_one("w");
    hall.report("w", &held, verdict(When::In(30_000), Some("[2]"))).unwrap();
    hall.pass(30_001);
    let held = hall.take_one("w");
    assert_eq!(held.spec.params.as_str(), "[2]");
    assert_eq!(
        hall.report("w", &held, verdict(When::Now, None)),
        Ok(Answer::State(StateName::Failed)),
        "exhausted"
    );
}

#[test]
fn h13_the_worker_may_end_the_job_with_its_error_though_attempts_are_left() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(3), ..job("t") }).unwrap().id;
    let held = hall.take_one("w");
    let answer = hall.report("w", &held, verdict(When::Never, None));
    assert_eq!(answer, Ok(Answer::State(StateName::Failed)));
    assert_eq!(hall.show(id).job.status.state.error().map(|error| error.reason.as_str()), Some("x"));
    let once = hall.submit(NewJob { retry: tries(1), ..job("t") }).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, failed("no")).unwrap();
    assert_eq!(hall.state(once), StateName::Failed, "without a word the policy decides");
}

#[test]
fn delays_and_cancels_that_make_no_sense_are_refused() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    let before = hall.stored(id);
    let too_long = jobhall_core::bounds::DELAY_MS + 1;
    assert!(matches!(hall.report("w", &held, verdict(When::In(too_long), None)), Err(Rejected::Delay(_))));
    assert!(matches!(hall.report("w", &held, Report::Cancelled), Err(Rejected::Event(_))));
    assert_eq!(hall.stored(id), before);
}

#[test]
fn short_attempts_cost_no_write_for_accept_and_progress() {
    let mut hall = Hall::new();
    hall.submit(job("t")).unwrap();
    let held = hall.take_one("w");
    let commits = hall.store.feed_now(0, 100).rows.len();
    hall.accept("w", &held).unwrap();
    hall.progress("w", &held).unwrap();
    assert_eq!(hall.store.feed_now(0, 100).rows.len(), commits);
    let live: Vec<_> = hall.effects.iter().filter(|e| matches!(e, Effect::Live(..))).collect();
    assert_eq!(live.len(), 2, "watchers see it at once");
    hall.pass(1_000);
    assert_eq!(hall.store.feed_now(0, 100).rows.len(), commits + 1, "stored after a second");
    assert_eq!(hall.now.mono, Mono(2_000));
}

#[test]
fn a_worker_that_comes_back_with_an_assignment_has_accepted_it() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    assert_eq!(hall.state(id), StateName::Assigned);
    let (session, kept, _) = reopen(&mut hall, "w", vec![(held.attempt, held.lease)]);
    assert_eq!((kept, hall.state(id)), (1, StateName::Accepted));
    hall.pass(20_000);
    hall.ask(Request::Renew { session }).unwrap();
    hall.pass(20_000);
    assert_eq!(hall.state(id), StateName::Accepted, "not taken back for want of a word");
}

#[test]
fn a_lease_that_was_kept_is_not_ended_by_a_session_that_lapsed_before() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    hall.pass(29_500);
    let message = "disk full".to_owned();
    hall.fail = Some(jobhall_store::CommitError::NotCommitted { full: true, message });
    hall.pass(500);
    let (_, kept, _) = reopen(&mut hall, "w", vec![(held.attempt, held.lease)]);
    assert_eq!(kept, 1, "its end could not be stored: it is still the current one");
    hall.pass(5_000);
    assert_eq!(hall.state(id), StateName::Accepted);
    assert_eq!(hall.report("w", &held, passed()), Ok(Answer::State(StateName::Succeeded)));
}

#[test]
fn a_job_that_ends_while_it_is_being_read_is_shown_all_the_same() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(3), ..job("t") }).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, failed("x")).unwrap();
    hall.hold = true;
    let cancel = hall.ask_later(Request::Cancel { id, failure: Failure::new("cancelled", "") });
    let show = hall.ask_later(Request::Show { id });
    hall.let_through();
    assert_eq!(hall.answers.remove(&cancel), Some(Ok(Answer::State(StateName::Cancelled))));
    let Some(Ok(Answer::Shown(shown))) = hall.answers.remove(&show) else { panic!("not shown") };
    assert_eq!((shown.job.status.state.name(), hall.past(id).len()), (StateName::Cancelled, 1));
}

#[test]
fn audit_l7_all_leases_of_a_worker_end_at_once() {
    let mut hall = Hall::new();
    for _ in 0..4 {
        hall.submit(job("t")).unwrap();
    }
    let (held, other) = (hall.take_one("w"), hall.take_one("other"));
    hall.accept("w", &held).unwrap();
    let second = hall.take_one("w");
    let mut hall = hall.restart(Config::default());
    // After a restart one lease is known only by its row, and one was brought by the worker.
    hall.come_back("w", &[&second]);
    hall.come_back("other", &[&other]);
    let last = hall.take_one("w");
    hall.ask(Request::EndWorker { worker: worker("w") }).unwrap();
    for lost in [&held, &second, &last] {
        assert_eq!(hall.report("w", lost, passed()), Err(Rejected::LeaseLost(lost.attempt)));
    }
    assert_eq!(hall.state(other.attempt.job), StateName::Accepted, "another worker keeps its lease");
    hall.ask(Request::EndWorker { worker: worker("unknown") }).unwrap();
}
