//! What time and trouble do: retention, residency, blocks of ids, settings, and a store that cannot write.

use crate::rig::{Hall, failed, job, keyed, passed, tries};
use jobhall_core::{After, JobId, NewJob, StateName, TypeConfig, TypeName};
use jobhall_kernel::{
    Answer, Config, Effect, GroupCreated, NewGroup, Rejected, Request, StoreReply, StoreRequest, Submit,
    TypedAnswer, Why,
};
use jobhall_store::CommitError;

fn type_name(name: &str) -> TypeName {
    TypeName::new(name).unwrap()
}

fn complete(hall: &mut Hall, wanted: NewJob) -> JobId {
    let id = hall.submit(wanted).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, passed()).unwrap();
    id
}

fn set(hall: &mut Hall, name: &str, change: impl Fn(&mut TypeConfig)) {
    let mut config = (*hall.kernel.type_config(&type_name(name))).clone();
    change(&mut config);
    hall.ask(Request::SetType { job_type: type_name(name), config: Some(config), expected: None }).unwrap();
}

fn names(hall: &Hall) -> Vec<TypeName> {
    hall.kernel.types(None, usize::MAX).into_iter().map(|(name, ..)| name).collect()
}

#[test]
fn audit_m5_a_submit_stores_no_types_and_they_are_listed_in_pages() {
    let mut hall = Hall::new();
    set(&mut hall, "m", |config| config.keep_count = Some(1));
    for name in ["z", "b", "a", "q"] {
        hall.submit(job(name)).unwrap();
    }
    assert_eq!(hall.store.settings_now().len(), 1, "the configured one");
    let page = |after: Option<&str>| {
        let after = after.map(type_name);
        let page = hall.kernel.types(after.as_ref(), 2).into_iter();
        page.map(|(name, rev, _)| format!("{name} {rev}")).collect::<Vec<_>>()
    };
    assert_eq!(page(None), ["a 0", "b 0"]);
    assert_eq!(page(Some("b")), ["m 1", "q 0"]);
    assert_eq!(page(Some("q")), ["z 0"]);
    assert!(page(Some("z")).is_empty());
}

#[test]
fn audit_m5_a_type_is_forgotten_when_it_is_unused_and_unconfigured() {
    let mut hall = Hall::new();
    hall.submit(job("open")).unwrap();
    hall.submit(job("done")).unwrap();
    hall.submit(job("kept")).unwrap();
    set(&mut hall, "kept", |config| config.keep_count = Some(1));
    for _ in 0..2 {
        let held = hall.take_one("w");
        if held.attempt.job.get() > 1 {
            hall.report("w", &held, passed()).unwrap();
        }
    }
    let hall = hall.restart(Config::default());
    assert!(names(&hall).contains(&type_name("open")) && names(&hall).contains(&type_name("kept")));
    assert!(!names(&hall).contains(&type_name("done")), "{:?}", names(&hall));
}

#[test]
fn audit_m5_the_number_of_configured_types_is_bounded() {
    let mut hall = Hall::new();
    for n in 0..10_000 {
        set(&mut hall, &format!("t{n}"), |config| config.paused = true);
    }
    let config = (*hall.kernel.type_config(&type_name("more"))).clone();
    let refused =
        hall.ask(Request::SetType { job_type: type_name("more"), config: Some(config), expected: None });
    assert_eq!(refused.unwrap_err().to_string(), "configured types of 10001 is outside 0 to 10000");
    set(&mut hall, "t7", |config| config.paused = false);
}

#[test]
fn audit_m5_types_that_an_earlier_version_stored_without_configuration_are_removed() {
    let mut hall = Hall::new();
    set(&mut hall, "plain", |_| {});
    set(&mut hall, "kept", |config| config.keep_count = Some(1));
    let mut hall = hall.restart(Config::default());
    let removed: Vec<_> = hall.kernel.forget_default_types().into_iter().map(|write| write.name).collect();
    assert_eq!(removed, ["plain"]);
    assert_eq!(names(&hall), [type_name("kept"), type_name("plain")], "it was used");
    assert!(hall.kernel.forget_default_types().is_empty());
}

#[test]
fn h17_a_type_registers_itself_on_first_use_and_keeps_its_configuration() {
    let mut hall = Hall::new();
    assert!(names(&hall).is_empty());
    let id = hall.submit(job("mail")).unwrap().id;
    assert_eq!(names(&hall), [type_name("mail")]);
    assert_eq!(hall.show(id).job.spec.retry.max_attempts, 5);
    set(&mut hall, "mail", |config| config.retry.max_attempts = 9);
    let mut hall = hall.restart(Config::default());
    assert_eq!(names(&hall), [type_name("mail")]);
    let id = hall.submit(job("mail")).unwrap().id;
    assert_eq!(hall.show(id).job.spec.retry.max_attempts, 9);
    let mut wrong = (*hall.kernel.type_config(&type_name("mail"))).clone();
    wrong.retry.max_attempts = 0;
    let refused =
        hall.ask(Request::SetType { job_type: type_name("mail"), config: Some(wrong), expected: None });
    assert_eq!(refused.unwrap_err().to_string(), "max_attempts of 0 is outside 1 to 1000");
}

#[test]
fn retention_removes_old_and_surplus_jobs_and_never_an_open_one() {
    let mut hall = Hall::with(Config { retention_step: 3, cached: 5, ..Config::default() });
    let open = hall.submit(NewJob { run_at: Some(hall.now.wall.plus_ms(1 << 40)), ..job("t") }).unwrap().id;
    let old: Vec<_> = (0..7).map(|_| complete(&mut hall, job("t"))).collect();
    let counted: Vec<_> = (0..7).map(|_| complete(&mut hall, job("c"))).collect();
    let kept = complete(&mut hall, job("kept"));
    set(&mut hall, "t", |config| config.keep_ms = Some(1_000));
    set(&mut hall, "c", |config| config.keep_count = Some(2));
    hall.pass(3_600_000);
    for id in old.iter().chain(&counted[..5]) {
        assert_eq!(hall.ask(Request::Show { id: *id }), Err(Rejected::NoSuchJob(*id)));
    }
    assert_eq!(hall.kernel.removed_count(), 12);
    for id in [open, kept, counted[5], counted[6]] {
        hall.show(id);
    }
}

#[test]
fn a_job_that_is_read_while_retention_removes_it_is_gone_afterwards() {
    let mut hall = Hall::new();
    let id = complete(&mut hall, job("t"));
    set(&mut hall, "t", |config| config.keep_ms = Some(1_000));
    hall.now.wall = hall.now.wall.plus_ms(3_600_000);
    hall.now.mono = hall.now.mono.plus_ms(3_600_000);
    hall.kernel.tick(hall.now);
    let removes =
        |request: &StoreRequest| matches!(request, StoreRequest::Prune(prune) if !prune.jobs.is_empty());
    let prune = loop {
        let requests = hall.kernel.take_store_requests();
        assert!(!requests.is_empty(), "retention removes the job");
        let (mut prune, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(removes);
        for request in others {
            let reply = hall.serve(request);
            hall.kernel.store_replied(hall.now, reply);
        }
        if let Some(prune) = prune.pop() {
            break prune;
        }
    };
    // The request comes after the decision to remove the job and before the removal.
    hall.kernel.ask(hall.now, Request::Show { id }.typed(1_000));
    for request in hall.kernel.take_store_requests() {
        let reply = hall.serve(request);
        hall.kernel.store_replied(hall.now, reply);
    }
    let reply = hall.serve(prune);
    hall.kernel.store_replied(hall.now, reply);
    hall.pump();
    assert_eq!(hall.ask(Request::Show { id }), Err(Rejected::NoSuchJob(id)));
}

#[test]
fn retention_spares_the_newest_success_of_a_key() {
    let mut hall = Hall::new();
    let ids: Vec<_> = (0..3).map(|_| complete(&mut hall, keyed("t", "k"))).collect();
    set(&mut hall, "t", |config| config.keep_count = Some(0));
    hall.pass(3_600_000);
    let left: Vec<_> = hall.store.all_jobs().iter().map(|job| job.id).collect();
    assert_eq!(left, [ids[2]]);
    hall.pass(24 * 3_600_000);
    assert!(hall.store.all_jobs().is_empty(), "until its reuse window is over");
}

#[test]
fn the_feed_and_idempotency_keys_are_pruned_by_age() {
    let mut hall = Hall::new();
    complete(&mut hall, job("t"));
    let rows = hall.store.feed_now(0, 100).rows.len() as u64;
    assert!(rows > 0);
    hall.pass(25 * 3_600_000);
    let page = hall.store.feed_now(0, 100);
    assert_eq!((page.rows.len(), page.pruned_to), (0, rows));
}

#[test]
fn a_completed_job_is_cached_and_an_evicted_one_is_read_again() {
    let mut hall = Hall::with(Config { cached: 2, ..Config::default() });
    let ids: Vec<_> = (0..3).map(|_| complete(&mut hall, job("t"))).collect();
    assert!(!hall.show(ids[0]).cached, "evicted: only stored");
    assert!(hall.show(ids[0]).cached, "and read into the cache");
    assert!(hall.show(ids[2]).cached);
    assert!(!hall.show(ids[1]).cached);
    let before = hall.store.all_jobs();
    assert_eq!(hall.show(ids[1]).job, before[1]);
}

#[test]
fn audit_m4_an_open_job_is_shown_without_reading_its_history() {
    let mut hall = Hall::new();
    let id = hall.submit(NewJob { retry: tries(2), ..job("t") }).unwrap().id;
    let held = hall.take_one("w");
    hall.report("w", &held, failed("x")).unwrap();
    assert_eq!(hall.past(id).len(), 1);
    hall.kernel.ask(hall.now, Request::Show { id }.typed(77));
    let answered = |effect: &Effect| matches!(effect, Effect::Answer(TypedAnswer::Shown(..)));
    assert!(hall.kernel.take_effects().iter().any(answered));
    assert!(hall.kernel.take_store_requests().is_empty());
}

#[test]
fn blocks_close_when_all_their_jobs_are_completed_and_list_the_few_that_are_not() {
    let mut hall = Hall::with(Config { block: 10, ..Config::default() });
    let slow = NewJob { run_at: Some(hall.now.wall.plus_ms(1 << 40)), ..job("t") };
    let stays = hall.submit(slow).unwrap().id;
    for _ in 0..40 {
        complete(&mut hall, job("t"));
        hall.pass(1_100);
    }
    let blocks = hall.store.blocks_now();
    assert!(blocks.len() <= 3, "{blocks:?}");
    assert_eq!(blocks[0].live, Some(vec![stays]));
    let mut hall = hall.restart(Config { block: 10, ..Config::default() });
    assert_eq!(hall.kernel.open_count(), 1);
    let highest = hall.store.all_jobs().last().unwrap().id;
    assert!(hall.submit(job("t")).unwrap().id > highest, "ids are never used again");
}

#[test]
fn a_block_is_not_closed_under_a_job_that_is_on_its_way() {
    let mut hall = Hall::with(Config { block: 1, ..Config::default() });
    hall.hold = true;
    hall.ask_later(Request::Submit { submit: Submit { jobs: vec![job("t")], ..Submit::default() } });
    hall.pass(10_000);
    hall.let_through();
    assert_eq!(hall.store.all_jobs().len(), 1);
    let hall = hall.restart(Config::default());
    assert_eq!(hall.kernel.open_count(), 1, "a start finds it");
}

fn full() -> CommitError {
    CommitError::NotCommitted { full: true, message: "disk full".to_owned() }
}

#[test]
fn a_store_that_cannot_write_acknowledges_nothing_and_the_hall_goes_on() {
    let mut hall = Hall::new();
    hall.fail = Some(full());
    let refused = hall.submit(job("t")).unwrap_err();
    assert_eq!(refused, Rejected::Storage { full: true, message: "disk full".to_owned() });
    assert!(hall.store.all_jobs().is_empty());
    let id = hall.submit(job("t")).unwrap().id;
    let session = hall.worker("w", "");
    hall.vacancy(session, 1);
    assert!(hall.assignments().is_empty(), "matching rests");
    assert_eq!(hall.explain(id).why, [Why::StorageUnavailable]);
    hall.pass(1_000);
    let held = hall.assignments().remove(0).1;
    hall.fail = Some(full());
    assert!(matches!(hall.report("w", &held, passed()), Err(Rejected::Storage { .. })));
    assert_eq!(hall.state(id), StateName::Assigned, "as before");
    assert_eq!(
        hall.report("w", &held, passed()),
        Ok(Answer::State(StateName::Succeeded)),
        "the worker tries again"
    );
}

#[test]
fn a_claim_that_cannot_be_stored_is_made_later() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let session = hall.worker("w", "");
    hall.fail = Some(full());
    hall.vacancy(session, 1);
    assert!(hall.assignments().is_empty());
    hall.pass(999);
    assert!(hall.assignments().is_empty());
    hall.pass(1);
    assert_eq!(hall.assignments()[0].1.attempt.job, id);
    assert_eq!(hall.stored(id).status.claim, 1);
}

#[test]
fn what_the_hall_itself_must_do_is_tried_again() {
    let mut hall = Hall::new();
    let id = hall.submit(job("t")).unwrap().id;
    let held = hall.take_one("w");
    hall.accept("w", &held).unwrap();
    hall.pass(29_500);
    hall.fail = Some(full());
    hall.pass(600);
    assert_eq!(hall.state(id), StateName::Accepted, "its lease end could not be stored");
    hall.pass(1_000);
    assert_eq!(hall.state(id), StateName::Retrying);
}

#[test]
fn an_unknown_outcome_stops_the_hall_and_a_restart_tells() {
    for applied in [false, true] {
        let mut hall = Hall::new();
        hall.hold = true;
        let submit = || Request::Submit { submit: Submit { jobs: vec![job("t")], ..Submit::default() } };
        let first = hall.ask_later(submit());
        if applied {
            let units = hall.held[0].1.clone();
            hall.store.commit_now(units);
        }
        let second = hall.ask_later(submit());
        hall.fail = Some(CommitError::Unknown { message: "fsync failed".to_owned() });
        hall.let_through();
        let refused = hall.answers.remove(&first).unwrap().unwrap_err();
        assert_eq!(refused, Rejected::Unknown("fsync failed".to_owned()));
        assert!(hall.answers.remove(&second).is_some(), "nobody is left waiting");
        assert!(hall.effects.iter().any(|effect| matches!(effect, Effect::Stop(_))));
        assert_eq!(hall.submit(job("t")), Err(Rejected::Stopped("fsync failed".to_owned())));
        let stored = hall.store.all_jobs().len();
        let hall = hall.restart(Config::default());
        assert_eq!(hall.kernel.open_count(), stored);
    }
}

#[test]
fn a_stopped_hall_hands_out_nothing_and_answers_everyone() {
    let mut hall = Hall::new();
    for _ in 0..3 {
        hall.submit(job("t")).unwrap();
    }
    let session = hall.worker("w", "");
    hall.hold = true;
    hall.ask_later(Request::Vacancy { session, slots: 2, wait_ms: 30_000 });
    hall.fail = Some(CommitError::Unknown { message: "fsync failed".to_owned() });
    hall.let_through();
    assert!(hall.assignments().is_empty());
    assert_eq!(hall.kernel.stopped(), Some("fsync failed"));
    let refused = hall.ask(Request::Vacancy { session, slots: 1, wait_ms: 1 });
    assert_eq!(refused, Err(Rejected::Stopped("fsync failed".to_owned())));
}

#[test]
fn a_type_is_changed_only_from_the_rev_that_was_meant() {
    let mut hall = Hall::new();
    let set = |hall: &mut Hall, config: Option<&TypeConfig>, expected| {
        let config = config.cloned();
        hall.ask(Request::SetType { job_type: type_name("mail"), config, expected })
    };
    let config = hall.kernel.type_config(&type_name("mail"));
    let config = Some(&*config);
    assert_eq!(set(&mut hall, config, Some(0)), Ok(Answer::Rev(1)));
    let changed = |rev| Err(Rejected::Changed { job_type: type_name("mail"), rev });
    assert_eq!(set(&mut hall, config, Some(0)), changed(1));
    assert_eq!(set(&mut hall, config, Some(1)), Ok(Answer::Rev(2)));
    assert_eq!(set(&mut hall, None, Some(1)), changed(2));
    assert_eq!(set(&mut hall, None, Some(2)), Ok(Answer::Rev(0)));
    assert!(names(&hall).is_empty() && hall.store.settings_now().is_empty());
    assert_eq!(set(&mut hall, None, None), Ok(Answer::Rev(0)), "again is the same");
    assert_eq!(set(&mut hall, config, Some(2)), changed(0));
}

#[test]
fn completed_jobs_are_removed_on_request_and_open_ones_are_not() {
    let mut hall = Hall::new();
    let done = complete(&mut hall, job("t"));
    let open = hall.submit(job("t")).unwrap().id;
    assert_eq!(hall.show(done).job.id, done, "it is in the cache");
    assert_eq!(hall.ask(Request::Remove { ids: vec![done, open] }), Ok(Answer::Removed(1)));
    assert_eq!(hall.ask(Request::Show { id: done }), Err(Rejected::NoSuchJob(done)));
    assert_eq!(hall.show(open).job.id, open);
    assert_eq!(hall.ask(Request::Remove { ids: vec![done] }), Ok(Answer::Removed(0)), "again is the same");
    assert_eq!(hall.ask(Request::Remove { ids: vec![open] }), Ok(Answer::Removed(0)));
}

#[test]
fn a_retry_under_a_name_is_made_once() {
    let mut hall = Hall::new();
    let done = complete(&mut hall, job("t"));
    let name = jobhall_kernel::IdempotencyKey { scope: "s".to_owned(), key: "k".to_owned(), body: 7 };
    let retry = Request::Retry { id: done, name: Some(name) };
    let first = hall.ask(retry.clone());
    assert!(matches!(first, Ok(Answer::Submitted(_))), "{first:?}");
    assert_eq!(hall.ask(retry.clone()), first);
    let mut hall = hall.restart(Config::default());
    assert_eq!(hall.ask(retry), first, "after a restart too");
}

#[test]
fn a_read_that_began_before_a_removal_does_not_bring_the_job_back() {
    let mut hall = Hall::with(Config { cached: 1, ..Config::default() });
    let done = complete(&mut hall, job("t"));
    complete(&mut hall, job("t"));
    let (now, row) = (hall.now, hall.store.jobs_now(&[done]).remove(0));
    assert!(row.is_some());
    hall.kernel.ask(now, Request::Show { id: done }.typed(901));
    assert_eq!(hall.kernel.take_store_requests(), [StoreRequest::Job(done)], "it is not in the cache");
    hall.ask(Request::Remove { ids: vec![done] }).unwrap();
    hall.kernel.store_replied(now, StoreReply::Job(done, Ok((row, Vec::new()))));
    hall.pump();
    assert_eq!(hall.answers.remove(&901), Some(Err(Rejected::NoSuchJob(done))));
    assert_eq!(hall.ask(Request::Show { id: done }), Err(Rejected::NoSuchJob(done)));
}

#[test]
fn an_ended_group_is_removed_after_its_jobs_and_after_a_day() {
    let mut hall = Hall::new();
    set(&mut hall, "kept", |_| {});
    set(&mut hall, "t", |config| (config.keep_ms, config.reuse_window_ms) = (Some(1_000), 0));
    let create = |hall: &mut Hall, closed, jobs: Vec<NewJob>| {
        let group = NewGroup { closed, ..NewGroup::default() };
        let submit = Submit { jobs, ..Submit::default() };
        match hall.ask(Request::CreateGroup { group, submit }).unwrap() {
            Answer::GroupCreated(GroupCreated { id, .. }) => id,
            other => panic!("{other:?}"),
        }
    };
    let open = create(&mut hall, false, vec![job("t")]);
    let ended = create(&mut hall, true, vec![job("t")]);
    let kept = create(&mut hall, true, vec![job("kept")]);
    let empty = create(&mut hall, true, Vec::new());
    for _ in 0..3 {
        let held = hall.take_one("w");
        hall.report("w", &held, passed()).unwrap();
    }
    let is_there = |hall: &Hall, id| hall.store.group_now(id).map(|(_, members)| members.len());
    hall.pass(3 * 3_600_000);
    assert_eq!(is_there(&hall, open), Some(1), "a member of an open group is not removed");
    assert_eq!((is_there(&hall, ended), is_there(&hall, empty)), (Some(0), Some(0)), "answers may name them");
    hall.pass(24 * 3_600_000);
    assert_eq!((is_there(&hall, ended), is_there(&hall, empty)), (None, None));
    assert_eq!((is_there(&hall, open), is_there(&hall, kept)), (Some(1), Some(1)), "jobs of them are left");
    hall.ask(Request::CloseGroup { id: open }).unwrap();
    hall.pass(50 * 3_600_000);
    assert_eq!((is_there(&hall, open), is_there(&hall, kept)), (None, Some(1)));
}

#[test]
fn retention_spares_a_job_whose_end_is_stored_but_not_known_yet() {
    let mut hall = Hall::with(Config { retention_ms: 1_000, ..Config::default() });
    hall.set_type("c", |config| config.keep_count = Some(0));
    let first = hall.submit(NewJob { retry: tries(1), ..job("c") }).unwrap().id;
    let after = vec![After::Job(first)];
    let dependent = hall.submit(NewJob { after, ..job("d") }).unwrap().id;
    let held = hall.take_one("w");
    hall.hold = true;
    hall.report_later("w", &held, failed("no"));
    let (number, units) = hall.held.remove(0);
    let committed = hall.store.commit_now(units);
    hall.pass(3_000);
    assert_eq!(hall.stored(first).status.state.name(), StateName::Failed, "it is not removed");
    hall.hold = false;
    hall.kernel.store_replied(hall.now, StoreReply::Committed(number, Ok(committed)));
    hall.pump();
    assert_eq!(hall.state(dependent), StateName::Failed, "because of its dependency");
    hall.pass(3_000);
    assert_eq!(hall.store.jobs_now(&[first]), [None], "now it is");
}
