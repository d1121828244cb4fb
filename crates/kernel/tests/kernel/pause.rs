//! Workers that an operator has paused or drains.

use crate::rig::{Hall, failed, job, passed, tries, worker};
use crate::slots::{Slots, over};
use jobhall_core::needs::{Needs, Uses};
use jobhall_core::{Backoff, JobId, NewJob, QueueName, RetryPolicy};
use jobhall_kernel::{
    Answer, Config, Effect, Noted, Rejected, Request, SessionId, Why, WorkerChange, WorkerConfig,
};
use jobhall_store::{CommitError, SettingKind, SettingWrite, Unit};

fn change(hall: &mut Hall, name: &str, change: WorkerChange) -> Result<Answer, Rejected> {
    hall.ask(Request::ChangeWorker { worker: worker(name), change })
}

fn pause(hall: &mut Hall, name: &str) {
    assert_eq!(change(hall, name, WorkerChange::Pause), Ok(Answer::Noted(Noted)));
}

fn resume(hall: &mut Hall, name: &str) {
    assert_eq!(change(hall, name, WorkerChange::Resume), Ok(Answer::Noted(Noted)));
}

fn config(hall: &mut Hall, name: &str) -> WorkerConfig {
    match hall.ask(Request::WorkerConfigs { worker: Some(worker(name)) }).unwrap() {
        Answer::WorkerConfigs(configs) => configs.into_iter().next().map(|(_, it)| it).unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

fn with_credit(hall: &mut Hall, name: &str) -> SessionId {
    let session = hall.worker(name, "");
    hall.credit(session, 1_000);
    session
}

fn submit(hall: &mut Hall) -> JobId {
    hall.submit(job("t")).unwrap().id
}

fn given(hall: &mut Hall) -> Vec<JobId> {
    hall.assignments().iter().map(|(_, assignment)| assignment.attempt.job).collect()
}

fn free_slots(hall: &mut Hall) -> (u64, u64) {
    match hall.ask(Request::Queue { name: QueueName::new("default").unwrap() }).unwrap() {
        Answer::Queue(Some((_, takers))) => (takers.workers, takers.free_slots),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_paused_worker_takes_no_new_jobs_until_it_is_resumed() {
    let mut hall = Hall::new();
    let session = with_credit(&mut hall, "w");
    let first = submit(&mut hall);
    let running = hall.assignments().remove(0).1;
    assert_eq!(running.attempt.job, first);
    pause(&mut hall, "w");
    let second = submit(&mut hall);
    hall.vacancy(session, 3);
    hall.credit(session, 2_000);
    assert!(given(&mut hall).is_empty());
    assert_eq!(free_slots(&mut hall), (0, 0));
    hall.report("w", &running, passed()).unwrap();
    assert!(given(&mut hall).is_empty(), "what ends makes no room");
    let paused = Why::WorkersPaused { paused: vec![worker("w")], draining: Vec::new() };
    assert_eq!(hall.explain(second).why, [paused]);
    resume(&mut hall, "w");
    assert_eq!(given(&mut hall), [second], "at once, without another word of the worker");
}

#[test]
fn a_paused_worker_leaves_its_jobs_to_others() {
    let mut hall = Hall::new();
    with_credit(&mut hall, "w");
    pause(&mut hall, "w");
    let other = with_credit(&mut hall, "other");
    for _ in 0..3 {
        submit(&mut hall);
    }
    assert!(hall.assignments().iter().all(|(session, _)| *session == other));
    assert_eq!(config(&mut hall, "other"), WorkerConfig::default());
}

#[test]
fn a_pause_outlives_sessions_and_restarts() {
    let mut hall = Hall::new();
    pause(&mut hall, "w");
    with_credit(&mut hall, "w");
    submit(&mut hall);
    assert!(given(&mut hall).is_empty(), "a worker that was paused before it connected");
    let mut hall = hall.restart(Config::default());
    let session = with_credit(&mut hall, "w");
    hall.vacancy(session, 1);
    assert!(given(&mut hall).is_empty());
    resume(&mut hall, "w");
    assert_eq!(given(&mut hall).len(), 1);
    assert!(hall.store.settings_now().iter().all(|setting| setting.kind != SettingKind::Worker), "removed");
    let mut hall = hall.restart(Config::default());
    assert_eq!(config(&mut hall, "w"), WorkerConfig::default());
}

#[test]
fn a_long_poll_of_a_paused_worker_waits_for_its_time() {
    let mut hall = Hall::new();
    pause(&mut hall, "w");
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    hall.pass(10_000);
    let ended = |hall: &Hall| hall.effects.iter().any(|effect| matches!(effect, Effect::VacancyEnded(..)));
    assert!(!ended(&hall), "it is not answered as if it were filled");
    hall.ask(Request::Renew { session }).unwrap();
    hall.pass(20_000);
    assert!(ended(&hall));
}

#[test]
fn an_attempt_that_waited_for_sub_jobs_goes_on_on_a_paused_worker() {
    let mut hall = Hall::new();
    let mut slots = Slots::new(&mut hall, 1);
    let parent = submit(&mut hall);
    slots.look(&mut hall);
    let held = slots.busy[&parent].clone();
    let child = hall.call("w", &held, "a", job("t")).unwrap().id;
    pause(&mut hall, "w");
    let waiting = hall.wait("w", &held);
    assert!(given(&mut hall).is_empty(), "a sub-job is a new job");
    let other = with_credit(&mut hall, "other");
    let (session, sub_job) = hall.assignments().remove(0);
    assert_eq!((session, sub_job.attempt.job), (other, child));
    hall.accept("other", &sub_job).unwrap();
    hall.report("other", &sub_job, passed()).unwrap();
    assert_eq!(over(&mut hall, waiting), Some(vec![child]));
}

#[test]
fn a_job_does_not_wait_for_a_paused_worker_instead_of_one_that_it_avoids() {
    let mut hall = Hall::new();
    with_credit(&mut hall, "had");
    let retry = RetryPolicy { backoff: Backoff::Constant { ms: 0 }, ..tries(5).unwrap() };
    let id = hall.submit(NewJob { avoid: true, retry: Some(retry), ..job("t") }).unwrap().id;
    let first = hall.assignments().remove(0).1;
    hall.worker("other", "");
    hall.accept("had", &first).unwrap();
    hall.report("had", &first, failed("no")).unwrap();
    assert!(given(&mut hall).is_empty(), "the other worker is preferred");
    pause(&mut hall, "other");
    assert_eq!(given(&mut hall), [id]);
}

#[test]
fn a_reservation_moves_away_from_a_paused_worker() {
    let mut hall = Hall::new();
    let using = |uses: &str| NewJob { uses: Uses::parse(uses).unwrap(), ..job("t") };
    for name in ["a", "b"] {
        let session = hall.worker(name, &format!("gpu=2, name={name}"));
        hall.credit(session, 100);
        hall.submit(NewJob { needs: Needs::parse(&format!("name={name}")).unwrap(), ..using("gpu=1") })
            .unwrap();
        let held = hall.assignments().remove(0).1;
        hall.accept(name, &held).unwrap();
    }
    let large = hall.submit(using("gpu=2")).unwrap().id;
    let reserved = |hall: &mut Hall| match hall.ask(Request::Workers {}).unwrap() {
        Answer::Workers(all) => {
            let kept = all.into_iter().find(|one| one.reserved_for == Some(large));
            kept.map(|one| one.worker.as_str().to_owned())
        }
        other => panic!("{other:?}"),
    };
    for _ in 0..4 {
        for session in hall.sessions.clone() {
            hall.ask(Request::Renew { session }).unwrap();
        }
        hall.pass(10_000);
    }
    let first = reserved(&mut hall).expect("a reservation");
    pause(&mut hall, &first);
    let second = reserved(&mut hall).expect("a reservation elsewhere");
    assert_ne!(second, first);
}

#[test]
fn a_draining_worker_decides_itself_what_it_still_takes() {
    let mut hall = Hall::new();
    let session = with_credit(&mut hall, "w");
    change(&mut hall, "w", WorkerChange::Drain("7-a".to_owned())).unwrap();
    hall.credit(session, 0);
    let id = submit(&mut hall);
    assert!(given(&mut hall).is_empty());
    let drains = Why::WorkersPaused { paused: Vec::new(), draining: vec![worker("w")] };
    assert_eq!(hall.explain(id).why, [drains]);
    assert!(hall.explain(id).to_string().contains("worker w drains"), "{}", hall.explain(id));
    let mut hall = hall.restart(Config::default());
    assert_eq!(config(&mut hall, "w").draining.as_deref(), Some("7-a"));
    change(&mut hall, "w", WorkerChange::Drained("8-b".to_owned())).unwrap();
    assert_eq!(config(&mut hall, "w").draining.as_deref(), Some("7-a"), "another process");
    pause(&mut hall, "w");
    change(&mut hall, "w", WorkerChange::Drained("7-a".to_owned())).unwrap();
    assert_eq!(config(&mut hall, "w"), WorkerConfig { paused: true, draining: None });
}

#[test]
fn changes_at_the_same_time_are_all_applied() {
    let mut hall = Hall::new();
    hall.hold = true;
    let one = hall.ask_later(Request::ChangeWorker { worker: worker("w"), change: WorkerChange::Pause });
    let change = WorkerChange::Drain("7-a".to_owned());
    let other = hall.ask_later(Request::ChangeWorker { worker: worker("w"), change });
    hall.let_through();
    for ticket in [one, other] {
        assert_eq!(hall.answers.remove(&ticket), Some(Ok(Answer::Noted(Noted))));
    }
    let both = WorkerConfig { paused: true, draining: Some("7-a".to_owned()) };
    assert_eq!(config(&mut hall, "w"), both);
    // Another writer removed it.
    let (kind, name) = (SettingKind::Worker, "w".to_owned());
    let removal = SettingWrite { kind, name, expected: 2, value: None };
    hall.store.commit_now(vec![Unit { settings: vec![removal], ..Unit::default() }]);
    resume(&mut hall, "w");
    assert_eq!(config(&mut hall, "w"), WorkerConfig::default());
}

#[test]
fn a_pause_that_is_not_stored_is_refused_and_not_applied() {
    let mut hall = Hall::new();
    with_credit(&mut hall, "w");
    hall.fail = Some(CommitError::NotCommitted { full: true, message: "no space".to_owned() });
    let refused = change(&mut hall, "w", WorkerChange::Pause);
    assert!(matches!(refused, Err(Rejected::Storage { full: true, .. })), "{refused:?}");
    hall.pass(10_000);
    submit(&mut hall);
    assert_eq!(given(&mut hall).len(), 1);
}

#[test]
fn the_number_of_paused_workers_is_bounded() {
    let mut hall = Hall::new();
    for n in 0..10_000 {
        pause(&mut hall, &format!("w{n}"));
    }
    let refused = change(&mut hall, "one-more", WorkerChange::Pause);
    assert!(matches!(refused, Err(Rejected::Bound { most: 10_000, .. })), "{refused:?}");
    resume(&mut hall, "w7");
    pause(&mut hall, "one-more");
}
