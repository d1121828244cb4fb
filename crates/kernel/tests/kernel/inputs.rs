//! Jobs that open jobs come after: they stay until then, and a removed one is no success.
use jobhall_core::{After, JobId, NewJob, StateName};
use jobhall_kernel::{Answer, Config, Rejected, Request, Submit};
use jobhall_store::Prune;

use crate::rig::{Hall, failed, job, keyed, passed, tries};

fn behind(job_type: &str, before: &[JobId]) -> NewJob {
    NewJob { after: before.iter().map(|id| After::Job(*id)).collect(), ..job(job_type) }
}

/// Submits a job that a worker completes.
fn done(hall: &mut Hall, worker: &str) -> JobId {
    let id = hall.submit(job("input")).unwrap().id;
    let held = hall.take_one(worker);
    assert_eq!(held.attempt.job, id);
    hall.report(worker, &held, passed()).unwrap();
    id
}

fn removed(hall: &mut Hall, id: JobId) -> u64 {
    match hall.ask(Request::Remove { ids: vec![id] }).unwrap() {
        Answer::Removed(n) => n,
        other => panic!("{other:?}"),
    }
}

/// Lets retention remove whatever it may.
fn retain(hall: &mut Hall) {
    hall.set_type("input", |config| config.keep_ms = Some(1));
    hall.pass(3 * Config::default().retention_ms);
}

fn is_there(hall: &Hall, id: JobId) -> bool {
    hall.store.jobs_now(&[id]).remove(0).is_some()
}

#[test]
fn ground_5_an_input_stays_until_its_dependents_have_ended() {
    for restart in [false, true] {
        let mut hall = Hall::new();
        let input = done(&mut hall, "w");
        let later = Some(hall.now.wall.plus_ms(30 * 24 * 3_600_000));
        let other = hall.submit(NewJob { run_at: later, ..job("other") }).unwrap().id;
        let first = hall.submit(behind("first", &[input])).unwrap().id;
        let last = hall.submit(behind("last", &[input, other])).unwrap().id;
        assert_eq!((hall.state(first), hall.state(last)), (StateName::Queued, StateName::Blocked));
        let mut hall = if restart { hall.restart(Config::default()) } else { hall };
        assert_eq!(removed(&mut hall, input), 0, "restart: {restart}");
        retain(&mut hall);
        assert!(is_there(&hall, input), "restart: {restart}");
        hall.cancel(last).unwrap();
        retain(&mut hall);
        assert!(is_there(&hall, input), "the other one is still queued");
        let held = hall.take_one("v");
        assert_eq!(held.attempt.job, first);
        assert_eq!(removed(&mut hall, input), 0, "the other one runs");
        hall.report("v", &held, passed()).unwrap();
        retain(&mut hall);
        assert!(!is_there(&hall, input), "nothing comes after it any more");
    }
}

#[test]
fn ground_5_a_failed_dependency_is_no_success_if_it_is_removed_after_a_restart() {
    let mut hall = Hall::new();
    let first = hall.submit(NewJob { retry: tries(1), ..job("t") }).unwrap().id;
    let next = hall.submit(behind("next", &[first])).unwrap().id;
    let held = hall.take_one("w");
    hall.report_slowly("w", &held, failed("no"));
    // The end of the first is stored, that of the next is not. The new start has not read yet how the first ended.
    hall.hold = false;
    hall.hold_asks = true;
    let mut hall = hall.restart(Config::default());
    hall.ask_later(Request::Remove { ids: vec![first] });
    hall.let_asks_through();
    hall.pass(1_000);
    assert_eq!(hall.state(next), StateName::Failed);
    assert_eq!(hall.show(next).job.status.state.error().unwrap().reason, "dependency_failed");
}

#[test]
fn ground_5_a_removed_dependency_fails_what_comes_after_it_unless_any_end_will_do() {
    for (after_any, end) in [(false, StateName::Failed), (true, StateName::Queued)] {
        let mut hall = Hall::new();
        let first = hall.submit(job("t")).unwrap().id;
        let next = hall.submit(NewJob { after_any, ..behind("next", &[first]) }).unwrap().id;
        let held = hall.take_one("w");
        hall.report_slowly("w", &held, passed());
        // Someone else deletes the row while no server runs.
        hall.store.prune_now(&Prune { jobs: vec![first], ..Prune::default() });
        hall.hold = false;
        let mut hall = hall.restart(Config::default());
        hall.pass(1_000);
        assert_eq!(hall.state(next), end);
        let error = hall.show(next).job.status.state.error().cloned();
        let explained = error.as_ref().map(|error| (error.reason.as_str(), error.explanation.as_str()));
        let text = format!("it depends on job {first}, which was removed");
        assert_eq!(explained, (!after_any).then_some(("dependency_removed", text.as_str())));
    }
}

#[test]
fn ground_5_a_submit_does_not_come_after_a_job_that_is_being_removed() {
    let mut hall = Hall::new();
    let input = done(&mut hall, "w");
    hall.hold_asks = true;
    let removal = hall.ask_later(Request::Remove { ids: vec![input] });
    let refused = hall.submit(behind("next", &[input])).unwrap_err();
    assert_eq!(refused, Rejected::NoSuchDependency(input));
    hall.let_asks_through();
    assert_eq!(hall.answers[&removal], Ok(Answer::Removed(1)));
}

#[test]
fn ground_5_an_input_stays_from_the_moment_its_submit_is_looked_at() {
    let mut hall = Hall::with(Config { cached: 1, ..Config::default() });
    let input = done(&mut hall, "w");
    done(&mut hall, "v");
    hall.hold_asks = true;
    let submit = Submit { jobs: vec![behind("next", &[input])], ..Submit::default() };
    let submitted = hall.ask_later(Request::Submit { submit });
    let removal = hall.ask_later(Request::Remove { ids: vec![input] });
    assert_eq!(hall.answers[&removal], Ok(Answer::Removed(0)), "the submit reads it");
    hall.hold = true;
    hall.let_asks_through();
    let removal = hall.ask_later(Request::Remove { ids: vec![input] });
    assert_eq!(hall.answers[&removal], Ok(Answer::Removed(0)), "the insert is in flight");
    hall.let_through();
    assert!(matches!(hall.answers[&submitted], Ok(Answer::Submitted(_))));
    assert_eq!(removed(&mut hall, input), 0);
}

#[test]
fn ground_5_a_submit_that_is_refused_keeps_no_input() {
    let mut hall = Hall::new();
    let input = done(&mut hall, "w");
    hall.submit(keyed("t", "k")).unwrap();
    let on_duplicate = jobhall_core::OnDuplicate::Reject;
    let after = vec![After::Job(input)];
    hall.submit(NewJob { on_duplicate, after: after.clone(), ..keyed("t", "k") }).unwrap_err();
    hall.submit(NewJob { after, ..keyed("t", "k") }).unwrap();
    assert_eq!(removed(&mut hall, input), 1, "the second has joined and comes after nothing");
}
