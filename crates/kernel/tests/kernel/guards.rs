//! Guards that hold whatever way a job takes: ends are one commit with their event, memory is only a hint, and a job
//! keeps its whole story.

use crate::rig::{Hall, failed, job, keyed, passed, tries, worker};
use jobhall_core::needs::Needs;
use jobhall_core::{
    Decision, Event, Failure, Indicator, JobId, Json, NewJob, Outcome, StateName, transition,
};
use jobhall_kernel::{AttemptRef, Request};
use jobhall_store::{Change, Unit};

/// Ends one job in every way there is; tells which state each ended in.
fn ends(hall: &mut Hall) -> Vec<(JobId, StateName)> {
    let mut ends = Vec::new();
    let submit = |hall: &mut Hall| hall.submit(NewJob { retry: tries(1), ..job("t") }).unwrap().id;
    for (report, state) in [(passed(), StateName::Succeeded), (failed("x"), StateName::Failed)] {
        ends.push((submit(hall), state));
        let held = hall.take_one("w");
        hall.report("w", &held, report).unwrap();
    }
    let crashed = jobhall_core::Report::Crashed(Failure::new("oom", ""), None);
    ends.push((submit(hall), StateName::Crashed));
    let held = hall.take_one("w");
    hall.report("w", &held, crashed).unwrap();
    let poison = submit(hall);
    ends.push((poison, StateName::Crashed));
    for _ in 0..3 {
        let held = hall.take_one("w");
        hall.accept("w", &held).unwrap();
        hall.pass(30_000);
    }
    ends.push((submit(hall), StateName::Crashed));
    for _ in 0..10 {
        hall.take_one("w");
        hall.pass(5_000);
    }
    let waiting = submit(hall);
    ends.push((waiting, StateName::Cancelled));
    hall.cancel(waiting).unwrap();
    let leased = submit(hall);
    ends.push((leased, StateName::Cancelled));
    let held = hall.take_one("w");
    hall.cancel(leased).unwrap();
    hall.report("w", &held, passed()).unwrap();
    ends
}

#[test]
fn g6_every_way_to_end_is_one_commit_with_its_event() {
    let mut hall = Hall::new();
    let ends = ends(&mut hall);
    let rows = hall.store.feed_now(0, 1_000).rows;
    for (id, state) in ends {
        let told: Vec<_> = rows.iter().flat_map(|row| &row.entries).filter(|entry| entry.id == id).collect();
        let terminal: Vec<_> = told.iter().filter(|entry| entry.state.is_terminal()).collect();
        assert_eq!(terminal.len(), 1, "job {id}: one end");
        let stored = hall.stored(id);
        assert_eq!(
            (terminal[0].state, terminal[0].rev),
            (state, stored.status.rev),
            "the event is of the stored row"
        );
        assert_eq!(told.last().unwrap().rev, stored.status.rev, "nothing follows");
        assert_eq!(
            stored.status.state.ended_at(),
            Some(stored.status.updated_at),
            "with its end in the same write"
        );
        assert_eq!(stored.status.state.error().is_some(), state != StateName::Succeeded);
    }
}

#[test]
fn h18_a_job_is_never_run_from_memory_alone() {
    let mut hall = Hall::new();
    let (first, second) = (hall.submit(job("t")).unwrap().id, hall.submit(job("t")).unwrap().id);
    let stored = hall.stored(first);
    let cancel = Failure::new("cancelled", "behind the kernel's back");
    let Ok(Decision::Step(step)) = transition(&stored.status, &Event::Cancel(&cancel), hall.now.wall) else {
        panic!("not cancelled")
    };
    let change = Change {
        id: first,
        expected: stored.status.rev,
        status: step.status,
        spec: None,
        past: None,
        want_spec: false,
    };
    hall.store.commit_now(vec![Unit { changes: vec![change], ..Unit::default() }]);
    let session = hall.worker("w", "");
    hall.vacancy(session, 2);
    let given: Vec<_> = hall.assignments().iter().map(|(_, held)| held.attempt.job).collect();
    assert_eq!(given, [second], "the write is guarded by what is stored");
    assert_eq!(hall.state(first), StateName::Cancelled, "and the kernel has learned it");
    assert_eq!(hall.kernel.open_count(), 1);
}

#[test]
fn l12_a_job_keeps_its_dates_params_needs_and_every_attempt() {
    let mut hall = Hall::new();
    let wanted = NewJob {
        params: Json::params("{\"size\":3}").unwrap(),
        needs: Needs::parse("gpu>=1").unwrap(),
        retry: tries(3),
        ..keyed("thumb", "a.png")
    };
    let created = hall.now.wall;
    let id = hall.submit(wanted).unwrap().id;
    let session = hall.worker("w", "gpu=1");
    for outcome in ["first", "second"] {
        hall.vacancy(session, 1);
        let held = hall.assignments().remove(0).1;
        hall.pass(1_000);
        let indicators =
            vec![Indicator { name: "rows".to_owned(), step: 3, total: Some(10), message: "half".to_owned() }];
        let (attempt, lease) = (held.attempt, held.lease);
        let progress = Request::Progress {
            of: AttemptRef { worker: worker("w"), attempt, lease },
            indicators: indicators.clone(),
        };
        hall.ask(progress).unwrap();
        assert_eq!(hall.show(id).progress, indicators);
        hall.pass(1_000);
        hall.ask(Request::Renew { session }).unwrap();
        hall.report("w", &held, failed(outcome)).unwrap();
        hall.pass(20_000);
        hall.ask(Request::Renew { session }).unwrap();
    }
    let shown = hall.show(id);
    assert_eq!(shown.job.spec.created_at, created);
    assert_eq!(shown.job.spec.params.as_str(), "{\"size\":3}");
    assert_eq!(shown.job.spec.needs.to_string(), "gpu>=1");
    let past = hall.past(id);
    let told: Vec<_> =
        past.iter().map(|past| (past.claim, past.outcome, past.failure.reason.as_str())).collect();
    assert_eq!(told, [(1, Outcome::Failed, "first"), (2, Outcome::Failed, "second")]);
    for past in &past {
        let (accepted, started) = (past.accepted_at.unwrap(), past.started_at.unwrap());
        assert!(past.assigned_at <= accepted && accepted <= started && started < past.ended_at);
        assert_eq!(past.worker, worker("w"));
    }
    assert_eq!(shown.progress, [], "progress belongs to a live attempt");
}

#[test]
fn l11_the_states_of_a_job_in_order() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(2), ..job("t") }).unwrap().id;
    let mut states = vec![hall.state(id)];
    let held = hall.take_one("w");
    states.push(hall.state(id));
    hall.accept("w", &held).unwrap();
    states.push(hall.state(id));
    hall.progress("w", &held).unwrap();
    states.push(hall.state(id));
    hall.report("w", &held, failed("x")).unwrap();
    states.push(hall.state(id));
    hall.pass(10_000);
    let held = hall.take_one("w");
    states.push(hall.state(id));
    hall.report("w", &held, passed()).unwrap();
    states.push(hall.state(id));
    let names: Vec<_> = states.iter().map(|state| state.as_str()).collect();
    assert_eq!(names, ["queued", "assigned", "accepted", "running", "retrying", "assigned", "succeeded"]);
}

#[test]
fn h01_a_job_has_every_field_of_its_record() {
    let mut hall = Hall::new();
    let run_at = hall.now.wall.minus_ms(7);
    let params = Json::params("[1,2]").unwrap();
    let wanted =
        NewJob { params, priority: -3, run_at: Some(run_at), retry: tries(2), ..keyed("mail", "to bob") };
    let id = hall.submit(wanted).unwrap().id;
    let record = hall.stored(id);
    assert_eq!(record.id.get().to_string(), id.to_string(), "a number");
    assert_eq!(
        (record.spec.job_type.as_str(), record.spec.key.as_ref().unwrap().as_str()),
        ("mail", "to bob")
    );
    assert_eq!((record.spec.params.as_str(), record.spec.priority), ("[1,2]", -3));
    assert_eq!((record.status.state.name(), record.status.state.error()), (StateName::Queued, None));
    assert_eq!((record.status.attempt, record.status.run_at), (0, run_at));
    assert_eq!((record.spec.created_at, record.status.updated_at), (hall.now.wall, hall.now.wall));
    let held = hall.take_one("w");
    hall.report("w", &held, failed("bounced")).unwrap();
    let after = hall.stored(id);
    assert_eq!((after.status.attempt, after.status.state.error().unwrap().reason.as_str()), (1, "bounced"));
    assert!(after.status.updated_at > record.status.updated_at && after.status.run_at > run_at);
    assert_eq!(after.spec.created_at, record.spec.created_at);
}

#[test]
fn an_attempt_has_a_limited_number_of_indicators() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    let tell = |hall: &mut Hall, names: std::ops::Range<u64>| {
        let of = |n: u64| Indicator { name: format!("n{n}"), step: n, total: None, message: String::new() };
        let (attempt, lease, indicators) = (held.attempt, held.lease, names.map(of).collect());
        hall.ask(Request::Progress { of: AttemptRef { worker: worker("w"), attempt, lease }, indicators })
    };
    tell(&mut hall, 0..64).unwrap();
    tell(&mut hall, 10..20).unwrap();
    let refused = tell(&mut hall, 64..65).unwrap_err();
    assert_eq!(refused.to_string(), "indicators of 65 is outside 0 to 64");
    assert_eq!(hall.show(id).progress.len(), 64);
}
