//! Sub-jobs: attempts that ask for jobs, wait for them, and give back their slot meanwhile.

use crate::rig::{Hall, failed, job, keyed, passed, tries, worker};
use crate::slots::{Slots, answered, over, running};
use jobhall_core::{After, Disposition, JobId, NewJob, Scope, StateName, Submitted, Timeouts};
use jobhall_kernel::{Answer, Assignment, AttemptRef, Config, Effect, Rejected, Request, Waited, Why};

#[test]
fn a_waiting_attempt_gives_its_slot_to_its_sub_job_and_goes_on_after_it() {
    let mut hall = Hall::new();
    let parent = hall.submit(job("p")).unwrap().id;
    let mut slots = Slots::new(&mut hall, 1);
    let held = slots.busy[&parent].clone();
    let child = hall.call("w", &held, "one", job("c")).unwrap();
    assert_eq!(child.disposition, Disposition::Created);
    assert_eq!(hall.show(child.id).job.spec.parent, Some(parent));
    let other = hall.submit(job("x")).unwrap().id;
    assert_eq!(hall.assignments().len(), 0, "the only slot is taken");
    let ticket = hall.wait("w", &held);
    assert_eq!(hall.stored(parent).status.state.name(), StateName::Waiting, "durably");
    slots.look(&mut hall);
    assert_eq!(slots.has(), [parent, child.id]);
    let Why::WaitsForJobs { jobs, open: 1 } = &hall.explain(parent).why[0] else {
        panic!("{:?}", hall.explain(parent))
    };
    assert_eq!(*jobs, [(child.id, StateName::Accepted)]);
    assert_eq!(answered(&mut hall, ticket), None);
    slots.end(&mut hall, child.id);
    assert_eq!(over(&mut hall, ticket), Some(vec![child.id]));
    assert!(
        hall.effects
            .iter()
            .any(|effect| matches!(effect, Effect::Resumed(_, attempt, _) if *attempt == held.attempt))
    );
    assert_eq!((hall.state(parent), slots.has()), (StateName::Running, vec![parent]), "before any new job");
    assert_eq!(hall.state(other), StateName::Queued);
    slots.end(&mut hall, parent);
    assert_eq!((hall.state(parent), slots.has()), (StateName::Succeeded, vec![other]));
    assert_eq!(hall.store.links_now(None, 9), [], "its links are gone with it");
}

#[test]
fn an_attempt_waits_for_room_when_its_jobs_are_over() {
    let mut hall = Hall::new();
    let parent = hall.submit(job("p")).unwrap().id;
    let mut slots = Slots::new(&mut hall, 1);
    let held = slots.busy[&parent].clone();
    let child = hall.call("w", &held, "one", NewJob { needs: needs("gpu"), ..job("c") }).unwrap().id;
    let other = hall.submit(job("x")).unwrap().id;
    let ticket = hall.wait("w", &held);
    slots.look(&mut hall);
    assert_eq!(slots.has(), [parent, other], "another job runs in its place");
    let gpu = hall.worker("gpu", "gpu=1");
    hall.vacancy(gpu, 1);
    let done = hall.assignments().remove(0).1;
    hall.report("gpu", &done, passed()).unwrap();
    assert_eq!(hall.state(child), StateName::Succeeded);
    assert_eq!((hall.state(parent), answered(&mut hall, ticket)), (StateName::Waiting, None));
    assert_eq!(hall.explain(parent).why, [Why::WaitsForRoom(worker("w"))]);
    let third = hall.submit(job("x")).unwrap().id;
    slots.end(&mut hall, other);
    assert_eq!(over(&mut hall, ticket), Some(vec![child]));
    assert_eq!(slots.has(), [parent], "it goes before job {third}");
    assert_eq!(hall.state(third), StateName::Queued);
}

fn needs(text: &str) -> jobhall_core::needs::Needs {
    jobhall_core::needs::Needs::parse(text).unwrap()
}

#[test]
fn capacity_one_with_fifty_levels_finishes() {
    let mut hall = Hall::new();
    let first = hall.submit(job("p")).unwrap().id;
    let mut slots = Slots::new(&mut hall, 1);
    let (mut line, mut tickets) = (vec![first], Vec::new());
    for level in 0..50 {
        let parent = line[level];
        let held = slots.busy[&parent].clone();
        line.push(hall.call("w", &held, "next", job("p")).unwrap().id);
        tickets.push(hall.wait("w", &held));
        slots.look(&mut hall);
        assert_eq!(running(&mut hall, &slots), 1, "never more than the one slot");
    }
    while let Some(last) = line.pop() {
        slots.end(&mut hall, last);
        assert_eq!(hall.state(last), StateName::Succeeded);
        if let Some(ticket) = tickets.pop() {
            assert!(over(&mut hall, ticket).is_some());
            assert_eq!(running(&mut hall, &slots), 1);
        }
    }
    assert!(slots.busy.is_empty());
}

#[test]
fn a_retried_parent_joins_what_is_pending_or_succeeded_and_runs_the_others_anew() {
    let mut hall = Hall::new();
    let parent = hall.submit(NewJob { retry: tries(3), ..job("p") }).unwrap().id;
    let held = hall.take_one("a");
    hall.accept("a", &held).unwrap();
    let calls = ["good", "bad", "open"].map(|call| {
        let job = NewJob { retry: tries(1), ..job("c") };
        hall.call("a", &held, call, job).unwrap().id
    });
    for (n, report) in [passed(), failed("no")].into_iter().enumerate() {
        let child = hall.take_one("b");
        assert_eq!(child.attempt.job, calls[n]);
        hall.report("b", &child, report).unwrap();
    }
    hall.report("a", &held, failed("again")).unwrap();
    hall.pass(60_000);
    let mut hall = hall.restart(Config { cached: 1, ..Config::default() });
    let (again, open) = (hall.take_one("a"), hall.take_one("a"));
    let (again, _) = if again.attempt.job == parent { (again, open) } else { (open, again) };
    assert_eq!(again.attempt.job, parent);
    let asked = ["good", "bad", "open"].map(|call| hall.call("a", &again, call, job("c")).unwrap());
    let dispositions = asked.map(|made| made.disposition);
    assert_eq!(dispositions, [Disposition::Reused, Disposition::Created, Disposition::Joined]);
    assert_eq!((asked[0].id, asked[2].id), (calls[0], calls[2]));
    let links: Vec<_> = hall.store.links_now(None, 9).into_iter().map(|link| (link.call, link.job)).collect();
    let expected = [("bad", asked[1].id), ("good", calls[0]), ("open", calls[2])];
    assert_eq!(links, expected.map(|(call, id)| (call.to_owned(), id)));
}

#[test]
fn the_end_of_a_parent_cancels_what_nobody_else_wants() {
    let mut hall = Hall::new();
    let mine = hall.submit(keyed("c", "outside")).unwrap().id;
    let [one, two] = ["1", "2"].map(|_| hall.submit(job("p")).unwrap().id);
    let held = |hall: &mut Hall| {
        let session = hall.worker_with("w", "", "type=p");
        hall.vacancy(session, 1);
        let held = hall.assignments().remove(0).1;
        hall.accept("w", &held).unwrap();
        held
    };
    let (first, second) = (held(&mut hall), held(&mut hall));
    let own = hall.call("w", &first, "own", job("c")).unwrap().id;
    let shared = hall.call("w", &first, "shared", keyed("c", "shared")).unwrap().id;
    let wanted = hall.call("w", &first, "wanted", keyed("c", "wanted")).unwrap().id;
    assert_eq!(hall.call("w", &first, "joined", keyed("c", "outside")).unwrap().id, mine);
    assert_eq!(hall.call("w", &second, "other", keyed("c", "shared")).unwrap().id, shared);
    assert_eq!(hall.submit(keyed("c", "wanted")).unwrap().id, wanted, "someone outside joins it");
    let mut hall = hall.restart(Config::default());
    hall.come_back("w", &[&first, &second]);
    hall.report("w", &first, passed()).unwrap();
    assert_eq!(hall.state(one), StateName::Succeeded);
    assert_eq!(hall.state(own), StateName::Cancelled);
    let error = hall.show(own).job.status.state.error().unwrap().clone();
    assert_eq!(
        (error.reason.as_str(), error.explanation),
        ("parent_ended", format!("job {one}, which requested it, has ended"))
    );
    for id in [mine, shared, wanted] {
        assert_eq!(hall.state(id), StateName::Queued, "job {id}");
    }
    hall.report("w", &second, passed()).unwrap();
    assert_eq!((hall.state(two), hall.state(shared)), (StateName::Succeeded, StateName::Cancelled));
    for id in [mine, wanted] {
        assert_eq!(hall.state(id), StateName::Queued, "job {id}");
    }
}

#[test]
fn a_hall_that_died_between_a_parents_end_and_the_cancels_makes_up_for_them() {
    let mut hall = Hall::new();
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    let child = hall.call("w", &held, "one", job("c")).unwrap().id;
    hall.hold = true;
    hall.report_later("w", &held, passed());
    let (_, units) = hall.held.remove(0);
    assert!(hall.store.commit_now(units).results[0].is_ok());
    let mut hall = hall.restart(Config::default());
    hall.let_through();
    assert_eq!(hall.state(child), StateName::Cancelled);
}

#[test]
fn both_clocks_stand_still_while_an_attempt_waits() {
    let mut hall = Hall::new();
    let timeouts = Timeouts { total_ms: Some(20_000), silence_ms: Some(15_000) };
    let parent = hall.submit(NewJob { timeouts, ..job("p") }).unwrap().id;
    let mut slots = Slots::new(&mut hall, 1);
    let held = slots.busy[&parent].clone();
    hall.pass(10_000);
    hall.ask(Request::Renew { session: slots.session }).unwrap();
    let child = hall.call("w", &held, "one", job("c")).unwrap().id;
    hall.wait("w", &held);
    slots.look(&mut hall);
    for _ in 0..20 {
        hall.pass(25_000);
        hall.ask(Request::Renew { session: slots.session }).unwrap();
    }
    slots.end(&mut hall, child);
    assert_eq!(hall.state(parent), StateName::Running);
    hall.pass(9_999);
    let stopped = |hall: &Hall| hall.effects.iter().any(|effect| matches!(effect, Effect::TimeOut(..)));
    assert!(!stopped(&hall));
    hall.pass(1);
    assert!(stopped(&hall), "ten seconds before, and ten after");
}

#[test]
fn who_asks_for_what_is_over_does_not_wait_and_who_asks_for_long_is_told() {
    let mut hall = Hall::new();
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    let ticket = hall.wait("w", &held);
    assert_eq!(over(&mut hall, ticket), Some(Vec::new()), "it asked for nothing");
    let child = hall.call("w", &held, "one", job("c")).unwrap().id;
    hall.pass(4_000);
    hall.ask(Request::Renew { session: hall.sessions[0] }).unwrap();
    let ticket = hall.wait("w", &held);
    hall.pass(20_000);
    hall.ask(Request::Renew { session: hall.sessions[0] }).unwrap();
    hall.pass(9_999);
    assert_eq!(answered(&mut hall, ticket), None);
    hall.pass(1);
    let still = Answer::Waited(Waited { jobs: vec![child], over: false });
    assert_eq!(answered(&mut hall, ticket), Some(Ok(still)));
    let done = hall.take_one("v");
    hall.report("v", &done, passed()).unwrap();
    let ticket = hall.wait("w", &held);
    assert_eq!(over(&mut hall, ticket), Some(vec![child]), "asked again");
    let Assignment { attempt, lease, .. } = held;
    let foreign = hall.submit(job("x")).unwrap().id;
    let jobs = Some(vec![foreign]);
    let answer =
        hall.ask(Request::Wait { of: AttemptRef { worker: worker("w"), attempt, lease }, jobs, wait_ms: 1 });
    assert_eq!(answer, Err(Rejected::NotSubJob { parent: attempt.job, job: foreign }));
}

#[test]
fn a_waiting_attempt_survives_a_restart_and_goes_on_once_its_worker_is_back() {
    let mut hall = Hall::new();
    let parent = hall.submit(job("p")).unwrap().id;
    let mut slots = Slots::new(&mut hall, 1);
    let held = slots.busy[&parent].clone();
    let child = hall.call("w", &held, "one", job("c")).unwrap().id;
    hall.wait("w", &held);
    slots.look(&mut hall);
    let running = slots.busy[&child].clone();
    let mut hall = hall.restart(Config::default());
    let session = hall.come_back("w", &[&held, &running]);
    hall.credit(session, -1);
    let other = hall.submit(job("x")).unwrap().id;
    assert_eq!(hall.assignments().len(), 0, "its one slot is taken by the sub-job");
    hall.report("w", &running, passed()).unwrap();
    hall.credit(session, 0);
    assert_eq!((hall.state(parent), hall.state(other)), (StateName::Running, StateName::Queued));
    let ticket = hall.wait("w", &held);
    assert_eq!(over(&mut hall, ticket), Some(vec![child]));
}

#[test]
fn a_worker_that_is_lost_while_its_attempt_waits_loses_it() {
    let mut hall = Hall::new();
    let parent = hall.submit(job("p")).unwrap().id;
    let held = hall.take_one("w");
    let child = hall.call("w", &held, "one", job("c")).unwrap().id;
    let ticket = hall.wait("w", &held);
    hall.pass(29_000);
    hall.answers.remove(&ticket);
    let ticket = hall.wait("w", &held);
    hall.pass(2_000);
    assert_eq!(answered(&mut hall, ticket), Some(Err(Rejected::LeaseLost(held.attempt))));
    let states = [parent, child].map(|id| hall.state(id));
    assert!(states[0] == StateName::Retrying && states[1] == StateName::Queued, "{states:?}");
}

#[test]
fn an_attempt_that_comes_to_wait_for_itself_while_it_waits_fails() {
    let mut hall = Hall::new();
    let own = hall.submit(keyed("p", "own")).unwrap().id;
    let held = hall.take_one("w");
    hall.call("w", &held, "one", job("c")).unwrap();
    hall.wait("w", &held);
    assert_eq!(hall.state(own), StateName::Waiting);
    assert_eq!(hall.call("w", &held, "two", keyed("p", "own")).unwrap().id, own, "it joins itself");
    hall.wait("w", &held);
    let status = hall.show(own).job.status;
    let error = status.state.error().unwrap();
    assert_eq!((status.state.name(), error.reason.as_str()), (StateName::Failed, "wait_cycle"));
}

#[test]
fn jobs_that_wait_for_each_other_are_found_and_the_youngest_fails() {
    let mut hall = Hall::new();
    let one = hall.submit(keyed("p", "one")).unwrap().id;
    let two = hall.submit(keyed("p", "two")).unwrap().id;
    let (first, second) = (hall.take_one("w"), hall.take_one("w"));
    assert_eq!(hall.call("w", &first, "two", keyed("p", "two")).unwrap().id, two);
    assert_eq!(hall.call("w", &second, "one", keyed("p", "one")).unwrap().id, one);
    let waiting = hall.wait("w", &first);
    assert_eq!(hall.state(one), StateName::Waiting);
    let lost = hall.wait("w", &second);
    let status = hall.show(two).job.status;
    let error = status.state.error().unwrap();
    assert_eq!((status.state.name(), error.reason.as_str()), (StateName::Failed, "wait_cycle"));
    assert_eq!(error.explanation, format!("job {two} waits for job {one} waits for job {two}"));
    assert_eq!(answered(&mut hall, lost), Some(Err(Rejected::LeaseLost(second.attempt))));
    assert!(
        hall.effects.iter().any(|e| matches!(e, Effect::Revoke(_, attempt) if *attempt == second.attempt))
    );
    assert_eq!(over(&mut hall, waiting), Some(vec![two]), "the other goes on");
    assert_eq!(hall.state(one), StateName::Running);
}

#[test]
fn an_attempt_that_waits_for_a_job_that_depends_on_its_own_fails() {
    let mut hall = Hall::new();
    let parent = hall.submit(job("p")).unwrap().id;
    let held = hall.take_one("w");
    let dependent = NewJob { after: vec![After::Job(parent)], ..job("c") };
    let child = hall.call("w", &held, "one", dependent).unwrap().id;
    hall.wait("w", &held);
    let status = hall.show(parent).job.status;
    let error = status.state.error().unwrap();
    assert_eq!((status.state.name(), error.reason.as_str()), (StateName::Failed, "wait_cycle"));
    assert_eq!(error.explanation, format!("job {parent} waits for job {child} waits for job {parent}"));
}

#[test]
fn a_job_that_waits_for_itself_fails() {
    let mut hall = Hall::new();
    let id = hall.submit(keyed("p", "one")).unwrap().id;
    let held = hall.take_one("w");
    assert_eq!(hall.call("w", &held, "me", keyed("p", "one")).unwrap().id, id);
    hall.wait("w", &held);
    assert_eq!(hall.state(id), StateName::Failed);
}

#[test]
fn names_of_sub_jobs_are_bounded_and_only_the_holder_gives_them() {
    let mut hall = Hall::new();
    let id = hall.submit(job("p")).unwrap().id;
    let held = hall.take_one("w");
    for call in ["", &"c".repeat(513)] {
        let answer = hall.call("w", &held, call, job("c"));
        assert!(matches!(answer, Err(Rejected::Bound { field: "call length", .. })), "{answer:?}");
    }
    assert_eq!(hall.call("v", &held, "one", job("c")), Err(Rejected::LeaseLost(held.attempt)));
    hall.cancel(id).unwrap();
    assert!(matches!(hall.call("w", &held, "one", job("c")), Err(Rejected::Event(_))), "it is being stopped");
    assert_eq!(hall.kernel.open_count(), 1, "nothing was made");
}

#[test]
fn the_same_call_twice_at_once_makes_one_job() {
    let mut hall = Hall::new();
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    hall.hold = true;
    let Assignment { attempt, lease, .. } = held;
    let call = |hall: &mut Hall| {
        let (worker, jobs) = (worker("w"), vec![("one".to_owned(), job("c"))]);
        hall.ask_later(Request::Call { of: AttemptRef { worker, attempt, lease }, jobs, by: None })
    };
    let tickets = [call(&mut hall), call(&mut hall)];
    hall.let_through();
    let made = tickets.map(|ticket| match answered(&mut hall, ticket) {
        Some(Ok(Answer::Submitted(made))) => made[0],
        other => panic!("{other:?}"),
    });
    assert_eq!(made.map(|made| made.disposition), [Disposition::Created, Disposition::Joined]);
    assert_eq!(made[0].id, made[1].id);
}

#[test]
fn retention_keeps_the_sub_jobs_of_an_open_parent() {
    let mut hall = Hall::with(Config { retention_ms: 60_000, ..Config::default() });
    hall.set_type("c", |config| config.keep_count = Some(0));
    hall.set_type("p", |config| config.keep_count = Some(0));
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let child = hall.call("w", &held, "one", job("c")).unwrap().id;
    let done = hall.take_one("v");
    hall.report("v", &done, passed()).unwrap();
    for _ in 0..5 {
        hall.pass(20_000);
        hall.ask(Request::Renew { session: hall.sessions[0] }).unwrap();
    }
    assert_eq!(hall.stored(child).status.state.name(), StateName::Succeeded, "its parent may ask again");
    hall.report("w", &held, passed()).unwrap();
    hall.pass(70_000);
    assert_eq!(hall.store.jobs_now(&[child]), [None]);
}

#[test]
fn each_of_two_waits_of_one_attempt_gets_its_own_answer() {
    let mut hall = Hall::new();
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let [x, y] = ["x", "y"].map(|name| hall.call("w", &held, name, job("c")).unwrap().id);
    let wait = |hall: &mut Hall, jobs: &[JobId]| {
        let of = AttemptRef { worker: worker("w"), attempt: held.attempt, lease: held.lease };
        hall.ask_later(Request::Wait { of, jobs: Some(jobs.to_vec()), wait_ms: 30_000 })
    };
    let (first, second) = (wait(&mut hall, &[x]), wait(&mut hall, &[y, y]));
    let children = [hall.take_one("v"), hall.take_one("v")];
    hall.report("v", &children[1], passed()).unwrap();
    assert_eq!(children[1].attempt.job, y);
    assert_eq!(over(&mut hall, second), Some(vec![y]), "once, although it was named twice");
    let still = Answer::Waited(Waited { jobs: vec![x], over: false });
    assert_eq!(answered(&mut hall, first), Some(Ok(still)), "x has not ended: it must wait again");
    let again = wait(&mut hall, &[x]);
    hall.report("v", &children[0], passed()).unwrap();
    assert_eq!(over(&mut hall, again), Some(vec![x]));
}

#[test]
fn ground_7_a_later_wait_does_not_keep_an_attempt_from_resuming_for_an_earlier_one() {
    let mut hall = Hall::new();
    let parent = hall.submit(job("p")).unwrap().id;
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let [x, y] = ["x", "y"].map(|name| hall.call("w", &held, name, job("c")).unwrap().id);
    let wait = |hall: &mut Hall, jobs: &[JobId]| {
        let of = AttemptRef { worker: worker("w"), attempt: held.attempt, lease: held.lease };
        hall.ask_later(Request::Wait { of, jobs: Some(jobs.to_vec()), wait_ms: 30_000 })
    };
    let (first, second) = (wait(&mut hall, &[x]), wait(&mut hall, &[y]));
    let children = [hall.take_one("v"), hall.take_one("v")];
    hall.report("v", &children[0], passed()).unwrap();
    assert_eq!((children[0].attempt.job, over(&mut hall, first)), (x, Some(vec![x])));
    assert_eq!(hall.state(parent), StateName::Running);
    let still = Answer::Waited(Waited { jobs: vec![y], over: false });
    assert_eq!(answered(&mut hall, second), Some(Ok(still)));
    let again = wait(&mut hall, &[y]);
    assert_eq!(hall.state(parent), StateName::Waiting, "the slot is free again");
    hall.report("v", &children[1], passed()).unwrap();
    assert_eq!((hall.state(parent), over(&mut hall, again)), (StateName::Running, Some(vec![y])));
}

#[test]
fn a_call_that_moves_a_name_while_its_attempt_begins_to_wait_ends_no_wait() {
    let mut hall = Hall::new();
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let once = || NewJob { retry: tries(1), ..job("c") };
    let old = hall.call("w", &held, "a", once()).unwrap().id;
    let failing = hall.take_one("v");
    hall.report("v", &failing, failed("no")).unwrap();
    let open = hall.call("w", &held, "b", job("c")).unwrap().id;
    hall.hold = true;
    let of = || AttemptRef { worker: worker("w"), attempt: held.attempt, lease: held.lease };
    let call = Request::Call { of: of(), jobs: vec![("a".to_owned(), once())], by: None };
    let called = hall.ask_later(call);
    let waiting = hall.ask_later(Request::Wait { of: of(), jobs: Some(vec![old, open]), wait_ms: 30_000 });
    hall.let_through();
    hall.hold = false;
    assert!(matches!(answered(&mut hall, called), Some(Ok(Answer::Submitted(_)))));
    assert_eq!(answered(&mut hall, waiting), None, "job b is open");
    let child = hall.take_one("v");
    assert_eq!(child.attempt.job, open);
    hall.report("v", &child, passed()).unwrap();
    assert_eq!(over(&mut hall, waiting), Some(vec![old, open]));
}

#[test]
fn a_sub_job_of_an_open_parent_is_not_removed_on_request() {
    let mut hall = Hall::new();
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    let child = hall.call("w", &held, "one", job("c")).unwrap().id;
    let done = hall.take_one("v");
    hall.report("v", &done, passed()).unwrap();
    assert_eq!(
        hall.ask(Request::Remove { ids: vec![child] }),
        Ok(Answer::Removed(0)),
        "its parent may ask for it"
    );
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(hall.ask(Request::Remove { ids: vec![child] }), Ok(Answer::Removed(1)));
}

/// Requests several sub-jobs at once.
fn call_all(hall: &mut Hall, held: &Assignment, jobs: &[(&str, NewJob)]) -> Result<Vec<Submitted>, Rejected> {
    let of = AttemptRef { worker: worker("w"), attempt: held.attempt, lease: held.lease };
    let jobs = jobs.iter().map(|(name, job)| ((*name).to_owned(), job.clone())).collect();
    match hall.ask(Request::Call { of, jobs, by: None })? {
        Answer::Submitted(made) => Ok(made),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ground_7_one_call_asks_for_several_jobs_all_or_nothing() {
    let mut hall = Hall::new();
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let twice = call_all(&mut hall, &held, &[("a", job("c")), ("a", job("c"))]);
    assert!(matches!(twice, Err(Rejected::CallTwice(_))), "{twice:?}");
    assert!(matches!(call_all(&mut hall, &held, &[]), Err(Rejected::Bound { field: "jobs", .. })));
    let missing = NewJob { after: vec![After::Job(JobId::new(999).unwrap())], ..job("c") };
    call_all(&mut hall, &held, &[("a", job("c")), ("b", missing)]).unwrap_err();
    assert_eq!(hall.kernel.open_count(), 1, "nothing was made");
    let after = |at| NewJob { after: vec![After::Position(at)], ..job("c") };
    let made = call_all(&mut hall, &held, &[("a", job("c")), ("b", after(0))]).unwrap();
    assert_eq!(hall.stored(made[1].id).spec.after[..], [made[0].id]);
    // Known names are answered with their jobs, in their places; positions still mean the same jobs.
    let again = [("c", after(1)), ("a", job("c")), ("d", after(0)), ("b", after(1))];
    let early = call_all(&mut hall, &held, &again);
    assert!(matches!(early, Err(Rejected::NotEarlier { .. })), "{early:?}");
    let again = [("a", job("c")), ("c", after(0)), ("b", after(0)), ("d", after(1))];
    let all = call_all(&mut hall, &held, &again).unwrap();
    assert_eq!((all[0].id, all[2].id), (made[0].id, made[1].id));
    assert_eq!(hall.stored(all[1].id).spec.after[..], [made[0].id]);
    assert_eq!(hall.stored(all[3].id).spec.after[..], [all[1].id]);
    assert_eq!(hall.kernel.open_count(), 5);
}

#[test]
fn ground_7_completed_sub_jobs_are_found_again_after_a_restart() {
    let mut hall = Hall::new();
    hall.submit(job("p")).unwrap();
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    let once = || NewJob { retry: tries(1), ..job("c") };
    let made = call_all(&mut hall, &held, &[("good", once()), ("bad", once()), ("open", once())]).unwrap();
    let good = hall.take_one("v");
    hall.report("v", &good, passed()).unwrap();
    let bad = hall.take_one("v");
    hall.report("v", &bad, failed("no")).unwrap();
    hall.pass(2_000);
    let mut hall = hall.restart(Config::default());
    hall.come_back("w", &[&held]);
    let all = call_all(&mut hall, &held, &[("good", once()), ("bad", once()), ("open", once())]).unwrap();
    assert_eq!((all[0].id, all[0].disposition), (made[0].id, Disposition::Reused));
    assert!(all[1].id > made[2].id, "what failed runs again");
    assert_eq!(all[2].id, made[2].id);
}

#[test]
fn ground_6_a_sub_job_comes_after_jobs_of_its_parent_only() {
    let mut hall = Hall::new();
    let input = hall.submit(job("i")).unwrap().id;
    let foreign = hall.submit(NewJob { priority: 200, ..job("f") }).unwrap().id;
    let held = hall.take_one("v");
    hall.report("v", &held, passed()).unwrap();
    hall.submit(NewJob { after: vec![After::Job(input)], priority: 1, ..job("p") }).unwrap();
    let held = hall.take_one("w");
    let scope = || Scope::new(&["default"]).unwrap();
    let after = |id| NewJob { after: vec![After::Job(id)], scope: scope(), ..job("c") };
    assert_eq!(hall.call("w", &held, "a", after(foreign)), Err(Rejected::NoSuchDependency(foreign)));
    let own = hall.call("w", &held, "b", after(input)).unwrap().id;
    hall.call("w", &held, "c", after(own)).unwrap();
}
