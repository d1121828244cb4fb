//! Pauses, holds, edits and running now: what a person changes about jobs that wait.

use crate::reserved::RESERVED;
use crate::rig::{Hall, failed, job, keyed, passed, tries};
use jobhall_core::limits::Limit;
use jobhall_core::needs::Needs;
use jobhall_core::{
    JobId, Json, NewJob, Owner, QueueConfig, QueueName, StateName, Tag, Timeouts, TypeConfig, TypeName,
};
use jobhall_kernel::{Answer, Config, Edit, LimitOf, Rejected, Request, Why};

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn pause_queue(hall: &mut Hall, name: &str, paused: bool) {
    let config = Some(QueueConfig { paused, ..QueueConfig::default() });
    hall.ask(Request::SetQueue { queue: queue(name), config, expected: None }).unwrap();
}

fn pause_type(hall: &mut Hall, name: &str, paused: bool) {
    let job_type = TypeName::new(name).unwrap();
    let config = Some(TypeConfig { paused, ..TypeConfig::of(&job_type) });
    hall.ask(Request::SetType { job_type, config, expected: None }).unwrap();
}

fn given(hall: &mut Hall) -> Vec<JobId> {
    hall.assignments().into_iter().map(|(_, assignment)| assignment.attempt.job).collect()
}

fn edit(hall: &mut Hall, id: JobId, edit: Edit) -> Result<Answer, Rejected> {
    hall.ask(Request::Edit { id, edit: Box::new(edit) })
}

fn why(hall: &mut Hall, id: JobId) -> Vec<Why> {
    hall.explain(id).why
}

/// Needs with a list of this many entries.
fn wide(entries: usize) -> Needs {
    let names: Vec<_> = (0..entries).map(|n| format!("w{n}")).collect();
    Needs::parse(&format!("host in ({})", names.join(","))).unwrap()
}

#[test]
fn ground_15_only_types_of_applications_have_needs_with_long_lists() {
    let mut hall = Hall::with(Config { reserved: RESERVED, ..Config::default() });
    let needing = |job_type, entries| NewJob { needs: wide(entries), ..job(job_type) };
    let plain = hall.submit(needing("t", 32)).unwrap().id;
    let too_long = |given| Err(Rejected::Bound { field: "needs list length", given, least: 0, most: 32 });
    assert_eq!(hall.submit(needing("t", 33)).map(|made| made.id), too_long(33));
    let own = crate::reserved::submitted(&mut hall, needing("app.step", 256));
    assert_eq!(hall.submit(needing("apples", 40)).map(|made| made.id), too_long(40));
    let padded = (0..10).map(|n| format!("a{n}={}", "v".repeat(110))).collect::<Vec<_>>().join(", ");
    let long = NewJob { needs: Needs::parse(&padded).unwrap(), ..job("t") };
    let given = padded.len() as u64;
    let refused = Err(Rejected::Bound { field: "needs length", given, least: 0, most: 1_024 });
    assert_eq!(hall.submit(long).map(|made| made.id), refused);
    let widen = || Edit { needs: Some(wide(40)), ..Edit::default() };
    assert_eq!(edit(&mut hall, plain, widen()).map(|_| plain), too_long(40));
    let hall = hall.restart(Config::default());
    assert_eq!(hall.stored(own).spec.needs, wide(256), "a stored row is read with the large bounds");
}

#[test]
fn h19_a_paused_queue_gives_out_nothing_and_others_go_on() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    let before = hall.submit(job("t")).unwrap().id;
    hall.vacancy(session, 1);
    let running = hall.assignments().remove(0).1;
    pause_queue(&mut hall, "default", true);
    hall.vacancy(session, 5);
    let waiting = hall.submit(job("t")).unwrap().id;
    let other = hall.submit(NewJob { queue: queue("other"), ..job("t") }).unwrap().id;
    assert_eq!(given(&mut hall), [other]);
    assert_eq!(why(&mut hall, waiting), [Why::Paused(LimitOf::Queue(queue("default")))]);
    assert_eq!(hall.explain(waiting).to_string().lines().last(), Some("queue default is paused; resume it"));
    hall.report("w", &running, passed()).unwrap();
    assert_eq!(hall.state(before), StateName::Succeeded, "what runs goes on");
    let mut hall = hall.restart(Config::default());
    let session = hall.worker("w", "");
    hall.vacancy(session, 5);
    assert_eq!(given(&mut hall), [], "it is stored");
    pause_queue(&mut hall, "default", false);
    assert_eq!(given(&mut hall), [waiting]);
}

#[test]
fn a_paused_type_waits_in_every_queue() {
    let mut hall = Hall::new();
    let session = hall.worker("w", "");
    let jobs: Vec<_> = ["a", "b", "a"].map(|name| hall.submit(job(name)).unwrap().id).into();
    pause_type(&mut hall, "a", true);
    hall.vacancy(session, 5);
    assert_eq!(given(&mut hall), [jobs[1]]);
    let again = hall.submit(NewJob { queue: queue("q"), ..job("a") }).unwrap().id;
    assert_eq!(why(&mut hall, again), [Why::Paused(LimitOf::Type(TypeName::new("a").unwrap()))]);
    pause_queue(&mut hall, "q", true);
    assert_eq!(why(&mut hall, again).len(), 2, "both are named");
    pause_type(&mut hall, "a", false);
    assert_eq!(given(&mut hall), [jobs[0], jobs[2]]);
    pause_queue(&mut hall, "q", false);
    assert_eq!(given(&mut hall), [again]);
}

#[test]
fn a_held_job_waits_until_it_is_released() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    assert_eq!(hall.ask(Request::Hold { id }), Ok(Answer::State(StateName::Queued)));
    assert_eq!(hall.ask(Request::Hold { id }), Ok(Answer::State(StateName::Queued)), "once more is as good");
    let mut hall = hall.restart(Config::default());
    let session = hall.worker("w", "");
    hall.vacancy(session, 5);
    let other = hall.submit(job("t")).unwrap().id;
    assert_eq!(given(&mut hall), [other]);
    assert_eq!(why(&mut hall, id), [Why::OnHold]);
    assert_eq!(hall.explain(id).to_string().lines().last(), Some("it is on hold; release it"));
    hall.ask(Request::Release { id }).unwrap();
    assert_eq!(given(&mut hall), [id]);
}

#[test]
fn a_hold_on_a_running_job_keeps_its_next_attempt() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(3), ..job("t") }).unwrap().id;
    let assignment = hall.take_one("w");
    hall.ask(Request::Hold { id }).unwrap();
    hall.report("w", &assignment, failed("no")).unwrap();
    hall.pass(60_000);
    let session = hall.worker("v", "");
    hall.vacancy(session, 1);
    assert_eq!(given(&mut hall), []);
    hall.ask(Request::Release { id }).unwrap();
    assert_eq!(given(&mut hall), [id]);
    assert!(matches!(hall.ask(Request::Hold { id: JobId::new(99).unwrap() }), Err(Rejected::NoSuchJob(_))));
}

#[test]
fn an_edit_changes_what_is_given_and_nothing_else() {
    let mut hall = Hall::new();
    let id = hall.submit(keyed("t", "k")).unwrap().id;
    let before = hall.show(id).job;
    let change = Edit {
        params: Some(Json::params("{\"new\":1}").unwrap()),
        priority: Some(7),
        tags: Some(vec![Tag::new("b").unwrap(), Tag::new("a").unwrap(), Tag::new("b").unwrap()]),
        owner: Some(Some(Owner::new("ann").unwrap())),
        throttle_factor: Some(3),
        timeouts: Some(Timeouts { total_ms: Some(5_000), silence_ms: None }),
        ..Edit::default()
    };
    edit(&mut hall, id, change).unwrap();
    for job in [hall.show(id).job, hall.stored(id)] {
        let spec = &job.spec;
        assert_eq!((spec.params.as_str(), spec.priority, spec.throttle_factor), ("{\"new\":1}", 7, 3));
        assert_eq!(spec.tags.iter().map(Tag::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((spec.owner.as_ref().unwrap().as_str(), spec.timeouts.total_ms), ("ann", Some(5_000)));
        assert_eq!(
            (&spec.key, &spec.queue, &spec.needs),
            (&before.spec.key, &before.spec.queue, &before.spec.needs)
        );
        assert_eq!((spec.created_at, job.status.run_at), (before.spec.created_at, before.status.run_at));
    }
    let assignment = hall.take_one("w");
    assert_eq!(assignment.spec.params.as_str(), "{\"new\":1}");
}

#[test]
fn an_edit_moves_a_job_in_the_order_and_to_other_workers() {
    let mut hall = Hall::new();
    let jobs: Vec<_> = (0..3).map(|_| hall.submit(job("t")).unwrap().id).collect();
    edit(&mut hall, jobs[2], Edit { priority: Some(1), ..Edit::default() }).unwrap();
    let needs = Some(Needs::parse("gpu>=1").unwrap());
    edit(&mut hall, jobs[0], Edit { needs, ..Edit::default() }).unwrap();
    let session = hall.worker("w", "");
    hall.vacancy(session, 5);
    assert_eq!(given(&mut hall), [jobs[2], jobs[1]]);
    assert!(hall.explain(jobs[0]).to_string().contains("gpu"));
    let later = hall.now.wall.plus_ms(2_000);
    edit(&mut hall, jobs[0], Edit { needs: Some(Needs::default()), run_at: Some(later), ..Edit::default() })
        .unwrap();
    assert_eq!(hall.state(jobs[0]), StateName::Scheduled);
    hall.pass(1_999);
    assert_eq!(given(&mut hall), []);
    let session = hall.worker("v", "");
    hall.vacancy(session, 1);
    hall.pass(1);
    assert_eq!(given(&mut hall), [jobs[0]]);
}

#[test]
fn an_edit_survives_a_restart_and_a_spec_that_is_not_in_memory() {
    let mut hall = Hall::with(Config { spec_bytes: 0, ..Config::default() });
    let jobs: Vec<_> = (0..3).map(|_| hall.submit(job("t")).unwrap().id).collect();
    edit(&mut hall, jobs[2], Edit { priority: Some(1), ..Edit::default() }).unwrap();
    let mut hall = hall.restart(Config::default());
    let session = hall.worker("w", "");
    hall.vacancy(session, 5);
    assert_eq!(given(&mut hall), [jobs[2], jobs[0], jobs[1]]);
}

#[test]
fn a_job_that_a_worker_has_or_that_is_completed_is_not_edited() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let assignment = hall.take_one("w");
    let change = Edit { priority: Some(1), ..Edit::default() };
    for _ in 0..2 {
        let rev = hall.stored(id).status.rev;
        for request in [Request::Edit { id, edit: Box::new(change.clone()) }, Request::RunNow { id }] {
            let refused = hall.ask(request).unwrap_err();
            assert!(
                matches!(refused, Rejected::Event(jobhall_core::IllegalTransition::Illegal { .. })),
                "{refused}"
            );
        }
        assert_eq!(
            (hall.stored(id).status.rev, hall.stored(id).spec.priority),
            (rev, 100),
            "nothing is written"
        );
        let _ = hall.report("w", &assignment, passed());
    }
    assert!(matches!(hall.ask(Request::Hold { id }), Err(Rejected::Event(_))));
    assert!(matches!(hall.ask(Request::Release { id }), Err(Rejected::Event(_))));
}

#[test]
fn an_edit_out_of_bounds_is_refused_by_name() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let tags = (0..33).map(|n| Tag::new(&format!("t{n}")).unwrap()).collect();
    let heavy = Edit { throttle_factor: Some(1_000_001), ..Edit::default() };
    for (change, field) in
        [(Edit { tags: Some(tags), ..Edit::default() }, "tags"), (heavy, "throttle_factor")]
    {
        let Err(Rejected::Bound { field: found, .. }) = edit(&mut hall, id, change) else {
            panic!("{field}")
        };
        assert_eq!(found, field);
    }
    assert_eq!(hall.stored(id).status.rev, 1);
}

#[test]
fn run_now_passes_over_time_and_backoff_but_not_over_a_hold() {
    let mut hall = Hall::new();
    let later = hall.now.wall.plus_ms(3_600_000);
    let id = hall.submit(NewJob { run_at: Some(later), retry: tries(3), ..job("t") }).unwrap().id;
    let session = hall.worker("w", "");
    hall.vacancy(session, 10);
    assert_eq!(given(&mut hall), []);
    hall.ask(Request::RunNow { id }).unwrap();
    let assignment = hall.assignments().remove(0).1;
    hall.report("w", &assignment, failed("no")).unwrap();
    assert_eq!(hall.state(id), StateName::Retrying);
    hall.ask(Request::RunNow { id }).unwrap();
    assert_eq!(given(&mut hall), [id], "before its backoff is over");
    let held = hall.submit(NewJob { run_at: Some(later), ..job("t") }).unwrap().id;
    hall.ask(Request::Hold { id: held }).unwrap();
    hall.ask(Request::RunNow { id: held }).unwrap();
    assert_eq!(given(&mut hall), []);
    assert_eq!(why(&mut hall, held), [Why::OnHold]);
    hall.ask(Request::Release { id: held }).unwrap();
    assert_eq!(given(&mut hall), [held]);
}

#[test]
fn a_pause_that_comes_with_other_limits_lets_nothing_slip_through() {
    let mut hall = Hall::new();
    let limits = |most| vec![Limit { by: None, concurrency: Some(most), rate: None }];
    let set = |hall: &mut Hall, paused, limits| {
        let config = Some(QueueConfig { paused, limits, ..QueueConfig::default() });
        hall.ask(Request::SetQueue { queue: queue("default"), config, expected: None }).unwrap();
    };
    set(&mut hall, false, limits(1));
    let session = hall.worker("w", "");
    hall.vacancy(session, 9);
    let jobs: Vec<_> = (0..4).map(|_| hall.submit(job("t")).unwrap().id).collect();
    assert_eq!(given(&mut hall), jobs[..1]);
    set(&mut hall, true, limits(3));
    assert_eq!(given(&mut hall), []);
    set(&mut hall, false, limits(2));
    assert_eq!(given(&mut hall), jobs[1..2]);
}
