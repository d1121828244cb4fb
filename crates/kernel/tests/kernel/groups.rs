//! Groups: one verdict for many jobs, counts that always sum, cancel and retry as one, over restarts too.

use crate::rig::{Hall, failed, job, keyed, passed, tries};
use jobhall_core::{
    After, Failure, GroupCounts, GroupId, GroupState, GroupVerdict, JobId, NewJob, OnDuplicate, Report,
    StateName, Submitted, TypeName,
};
use jobhall_kernel::{
    Answer, Config, GroupCreated, IdempotencyKey, NewGroup, Rejected, Request, ShownGroup, StoreReply,
    Submit, Why,
};
use jobhall_store::{CommitError, Unit};

fn create(hall: &mut Hall, closed: bool, jobs: Vec<NewJob>) -> (GroupId, Vec<Submitted>) {
    let group = NewGroup { closed, ..NewGroup::default() };
    match hall.ask(Request::CreateGroup { group, submit: Submit { jobs, ..Submit::default() } }).unwrap() {
        Answer::GroupCreated(GroupCreated { id, jobs, .. }) => (id, jobs),
        other => panic!("{other:?}"),
    }
}

/// What an open group is, or an ended one from the store.
fn group(hall: &mut Hall, id: GroupId) -> ShownGroup {
    match hall.ask(Request::ShowGroup { id }) {
        Ok(Answer::Group(shown)) => *shown,
        Err(Rejected::NoSuchGroup(_)) => {
            let (group, _) = hall.store.group_now(id).expect("a stored group");
            assert!(group.end.is_some(), "an open group is in memory");
            ShownGroup::new(group, GroupCounts::default())
        }
        other => panic!("{other:?}"),
    }
}

fn counts(numbers: [u64; 6]) -> GroupCounts {
    let [pending, active, succeeded, failed, crashed, cancelled] = numbers;
    GroupCounts { pending, active, succeeded, failed, crashed, cancelled }
}

fn in_group(group: GroupId) -> NewJob {
    NewJob { group: Some(group), retry: tries(1), ..job("t") }
}

fn once() -> NewJob {
    NewJob { retry: tries(1), ..job("t") }
}

fn end(hall: &mut Hall, report: Report) -> JobId {
    let held = hall.take_one("w");
    hall.report("w", &held, report).unwrap();
    held.attempt.job
}

fn retry(hall: &mut Hall, id: GroupId) -> Result<GroupId, Rejected> {
    match hall.ask(Request::RetryGroup { id, name: None })? {
        Answer::GroupCreated(GroupCreated { id, .. }) => Ok(id),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_counts_its_members_and_has_one_verdict() {
    let mut hall = Hall::new();
    let (id, jobs) = create(&mut hall, false, vec![once(), once()]);
    assert_eq!(jobs.len(), 2);
    assert_eq!(hall.stored(jobs[0].id).spec.group, Some(id));
    let shown = group(&mut hall, id);
    assert_eq!((shown.state, shown.counts), (GroupState::New, counts([2, 0, 0, 0, 0, 0])));
    let held = hall.take_one("w");
    let shown = group(&mut hall, id);
    assert_eq!((shown.state, shown.counts), (GroupState::Running, counts([1, 1, 0, 0, 0, 0])));
    hall.report("w", &held, passed()).unwrap();
    hall.submit(in_group(id)).unwrap();
    assert_eq!(group(&mut hall, id).counts, counts([2, 0, 1, 0, 0, 0]));
    end(&mut hall, passed());
    end(&mut hall, failed("no"));
    let shown = group(&mut hall, id);
    assert_eq!(
        (shown.state, shown.counts),
        (GroupState::Running, counts([0, 0, 2, 1, 0, 0])),
        "it takes more"
    );
    let closed = hall.ask(Request::CloseGroup { id }).unwrap();
    assert!(matches!(closed, Answer::Group(shown) if shown.group.closed));
    let shown = group(&mut hall, id);
    assert_eq!((shown.state, shown.counts), (GroupState::Failed, counts([0, 0, 2, 1, 0, 0])));
    assert_eq!(shown.group.end.unwrap().verdict, GroupVerdict::Failed);
}

#[test]
fn an_empty_group_that_is_closed_has_succeeded() {
    let mut hall = Hall::new();
    let (id, _) = create(&mut hall, true, Vec::new());
    assert_eq!(group(&mut hall, id).state, GroupState::Succeeded);
    let (later, _) = create(&mut hall, false, Vec::new());
    assert_eq!(group(&mut hall, later).state, GroupState::New);
    hall.ask(Request::CloseGroup { id: later }).unwrap();
    assert_eq!(group(&mut hall, later).state, GroupState::Succeeded);
}

#[test]
fn a_closed_or_unknown_group_takes_nothing_and_nothing_is_written() {
    let mut hall = Hall::new();
    let (id, _) = create(&mut hall, true, vec![once()]);
    let before = hall.store.all_jobs().len();
    assert_eq!(hall.submit(in_group(id)).unwrap_err(), Rejected::GroupClosed(id));
    let nowhere = GroupId::new(999).unwrap();
    assert_eq!(hall.submit(in_group(nowhere)).unwrap_err().to_string(), "there is no group 999");
    let attached = NewJob { attached: true, ..once() };
    assert_eq!(hall.submit(attached).unwrap_err().to_string(), "attached: the job is in no group");
    let submit = Submit { jobs: vec![in_group(id)], ..Submit::default() };
    let refused = hall.ask(Request::CreateGroup { group: NewGroup::default(), submit }).unwrap_err();
    assert_eq!(refused.to_string(), "group: jobs that are made with a group are in that group");
    let tags = (0..33).map(|n| jobhall_core::Tag::new(&format!("t{n}")).unwrap()).collect();
    let submit = Submit { jobs: Vec::new(), ..Submit::default() };
    let refused = hall.ask(Request::CreateGroup { group: NewGroup { tags, ..NewGroup::default() }, submit });
    assert_eq!(refused.unwrap_err().to_string(), "tags of 33 is outside 0 to 32");
    assert_eq!(hall.store.all_jobs().len(), before);
    assert_eq!(hall.store.groups_now(false).len(), 1);
}

#[test]
fn a_close_that_is_on_its_way_goes_before_a_submit_that_comes_later() {
    let mut hall = Hall::new();
    let (id, _) = create(&mut hall, false, Vec::new());
    hall.hold = true;
    let early =
        hall.ask_later(Request::Submit { submit: Submit { jobs: vec![in_group(id)], ..Submit::default() } });
    let close = hall.ask_later(Request::CloseGroup { id });
    let late =
        hall.ask_later(Request::Submit { submit: Submit { jobs: vec![in_group(id)], ..Submit::default() } });
    hall.let_through();
    assert!(hall.answers[&early].is_ok() && hall.answers[&close].is_ok());
    assert_eq!(hall.answers[&late], Err(Rejected::GroupClosed(id)));
    assert_eq!(group(&mut hall, id).counts, counts([1, 0, 0, 0, 0, 0]));
    end(&mut hall, passed());
    assert_eq!(group(&mut hall, id).state, GroupState::Succeeded);
}

#[test]
fn making_a_group_again_under_the_same_key_gives_the_same_group() {
    let mut hall = Hall::new();
    let ask = |body| {
        let name = IdempotencyKey { scope: "me".to_owned(), key: "k".to_owned(), body };
        let submit = Submit { jobs: vec![once(), once()], name: Some(name), ..Submit::default() };
        Request::CreateGroup { group: NewGroup::default(), submit }
    };
    let made = |answer| match answer {
        Ok(Answer::GroupCreated(GroupCreated { id, jobs, repeated })) => ((id, jobs), repeated),
        other => panic!("{other:?}"),
    };
    let (first, second) = (made(hall.ask(ask(1))), made(hall.ask(ask(1))));
    assert_eq!((first.1, second.1), (false, true));
    assert_eq!(second.0, first.0);
    assert_eq!(hall.ask(ask(2)), Err(Rejected::IdempotencyKeyReused));
    assert_eq!((hall.store.groups_now(false).len(), hall.store.all_jobs().len()), (1, 2));
}

#[test]
fn copies_are_one_member_and_the_first_success_ends_the_others() {
    let mut hall = Hall::new();
    let (id, jobs) = create(&mut hall, false, vec![once()]);
    let original = jobs[0].id;
    let copy = NewJob { copy_of: Some(original), ..in_group(id) };
    let second = hall.submit(copy.clone()).unwrap().id;
    let of_copy = NewJob { copy_of: Some(second), ..in_group(id) };
    assert_eq!(hall.submit(of_copy).unwrap_err().to_string(), "copy_of: the job is a copy itself");
    let loose = hall.submit(once()).unwrap().id;
    let of_loose = NewJob { copy_of: Some(loose), ..in_group(id) };
    assert_eq!(hall.submit(of_loose).unwrap_err().to_string(), "copy_of: the job is in no group");
    hall.cancel(loose).unwrap();
    let third = hall.submit(copy).unwrap().id;
    assert_eq!(group(&mut hall, id).counts, counts([1, 0, 0, 0, 0, 0]), "one member");
    let mut hall = hall.restart(Config::default());
    assert_eq!(group(&mut hall, id).counts, counts([1, 0, 0, 0, 0, 0]));
    let first = loop {
        let held = hall.take_one("w");
        if held.attempt.job == original {
            break held;
        }
        if held.attempt.job == second {
            hall.report("w", &held, failed("no")).unwrap();
            assert_eq!(group(&mut hall, id).counts.open(), 1, "others may still succeed");
        }
    };
    hall.report("w", &first, passed()).unwrap();
    assert_eq!(group(&mut hall, id).counts, counts([0, 0, 1, 0, 0, 0]));
    let shown = hall.show(third).job;
    assert_eq!(shown.status.state.name(), StateName::Cancelled);
    let text = format!("job {original}, a copy of it, has succeeded");
    assert_eq!(shown.status.state.error().unwrap().explanation, text);
}

#[test]
fn a_member_whose_copy_succeeded_is_not_retried_after_the_copy_was_removed() {
    let mut hall = Hall::new();
    let (id, jobs) = create(&mut hall, false, vec![once(), once()]);
    let (original, failing) = (jobs[0].id, jobs[1].id);
    let copy = hall.submit(NewJob { copy_of: Some(original), ..in_group(id) }).unwrap().id;
    hall.ask(Request::CloseGroup { id }).unwrap();
    let held = [hall.take_one("w"), hall.take_one("w"), hall.take_one("w")];
    let of = |job| held.iter().find(|held| held.attempt.job == job).unwrap();
    hall.report("w", of(failing), failed("no")).unwrap();
    hall.report("w", of(copy), passed()).unwrap();
    hall.report("w", of(original), passed()).unwrap();
    assert_eq!(hall.show(original).job.status.state.name(), StateName::Cancelled);
    assert_eq!(hall.ask(Request::Remove { ids: vec![copy] }), Ok(Answer::Removed(1)));
    let new = retry(&mut hall, id).unwrap();
    let made = hall.store.all_jobs().into_iter().filter(|job| job.spec.group == Some(new));
    assert_eq!(made.map(|job| job.spec.retry_of).collect::<Vec<_>>(), [Some(failing)]);
}

#[test]
fn attached_jobs_do_not_count_and_a_group_ends_without_them() {
    let mut hall = Hall::new();
    let (id, _) = create(&mut hall, false, vec![once()]);
    let host = NewJob { attached: true, priority: 200, ..in_group(id) };
    let host = hall.submit(host).unwrap().id;
    assert_eq!(group(&mut hall, id).counts, counts([1, 0, 0, 0, 0, 0]));
    hall.ask(Request::CloseGroup { id }).unwrap();
    end(&mut hall, passed());
    assert_eq!(group(&mut hall, id).state, GroupState::Succeeded);
    assert_eq!(hall.state(host), StateName::Queued, "it is left alone");
    let mut hall = hall.restart(Config::default());
    assert_eq!(hall.state(host), StateName::Queued);
    end(&mut hall, passed());
}

#[test]
fn a_cancelled_group_ends_every_job_of_it_and_says_why() {
    let mut hall = Hall::new();
    let (id, jobs) = create(&mut hall, false, vec![once(); 3]);
    let host = hall.submit(NewJob { attached: true, ..in_group(id) }).unwrap().id;
    let held = hall.take_one("w");
    let failure = Failure::new("no_longer_wanted", "the branch is gone");
    hall.ask(Request::CancelGroup { id, failure: failure.clone(), fails: false }).unwrap();
    for id in [jobs[1].id, jobs[2].id, host] {
        assert_eq!(hall.show(id).job.status.state.error(), Some(&failure));
    }
    assert_eq!(group(&mut hall, id).counts, counts([0, 1, 0, 0, 0, 2]));
    assert_eq!(hall.submit(in_group(id)).unwrap_err(), Rejected::GroupClosed(id));
    let again =
        hall.ask(Request::CancelGroup { id, failure: Failure::new("other", ""), fails: false }).unwrap();
    assert!(
        matches!(again, Answer::Group(shown) if shown.group.cancel == Some(failure)),
        "the first word counts"
    );
    hall.report("w", &held, passed()).unwrap();
    let shown = group(&mut hall, id);
    assert_eq!((shown.state, shown.counts), (GroupState::Cancelled, counts([0, 0, 0, 0, 0, 3])));
}

#[test]
fn a_cancel_of_many_goes_on_after_a_crash_and_explain_says_so_meanwhile() {
    let mut hall = Hall::new();
    let (id, jobs) = create(&mut hall, false, vec![once(); 1_200]);
    hall.hold = true;
    hall.ask_later(Request::CancelGroup { id, failure: Failure::new("cancelled", ""), fails: false });
    // The mark and one slice are stored.
    for _ in 0..2 {
        let (number, units) = hall.held.remove(0);
        let committed = hall.store.commit_now(units);
        let now = hall.now;
        hall.kernel.store_replied(now, StoreReply::Committed(number, Ok(committed)));
        hall.pump();
    }
    let cancelled = |hall: &Hall| {
        hall.store.all_jobs().iter().filter(|job| job.status.state.name() == StateName::Cancelled).count()
    };
    assert_eq!(cancelled(&hall), 500);
    let last = jobs[1_199].id;
    assert_eq!(hall.explain(last).why, [Why::GroupCancelled(id)]);
    assert!(hall.explain(last).to_string().ends_with(&format!("its group {id} is being cancelled")));
    hall.hold = false;
    let mut hall = hall.restart(Config::default());
    hall.pass(1_000);
    assert_eq!(cancelled(&hall), 1_200);
    assert_eq!(group(&mut hall, id).state, GroupState::Cancelled);
}

#[test]
fn a_restart_counts_the_same_and_ends_a_group_whose_end_was_not_stored() {
    let mut hall = Hall::new();
    let (id, _) = create(&mut hall, true, vec![once(); 3]);
    end(&mut hall, passed());
    end(&mut hall, failed("no"));
    let held = hall.take_one("w");
    let before = group(&mut hall, id).counts;
    let mut hall = hall.restart(Config::default());
    assert_eq!(group(&mut hall, id).counts, before);
    assert_eq!(before, counts([0, 1, 1, 1, 0, 0]));
    let session = Request::OpenSession {
        worker: crate::rig::worker("w"),
        abilities: Default::default(),
        accepts: Default::default(),
        attempts: vec![(held.attempt, held.lease)],
        lease_ms: None,
        fresh: false,
    };
    hall.ask(session).unwrap();
    hall.report_slowly("w", &held, passed());
    assert_eq!(hall.store.groups_now(true).len(), 1, "its end is on its way");
    hall.hold = false;
    let mut hall = hall.restart(Config::default());
    assert_eq!(group(&mut hall, id).state, GroupState::Failed);
    assert_eq!(hall.store.groups_now(true).len(), 0);
}

#[test]
fn the_end_of_a_group_is_written_later_if_the_store_could_not() {
    let mut hall = Hall::new();
    let (id, _) = create(&mut hall, true, vec![once()]);
    let held = hall.take_one("w");
    hall.report_slowly("w", &held, passed());
    hall.fail = Some(CommitError::NotCommitted { full: true, message: "full".to_owned() });
    hall.let_through();
    assert_eq!(hall.store.groups_now(true).len(), 1);
    hall.pass(2_000);
    assert_eq!(group(&mut hall, id).state, GroupState::Succeeded);
}

#[test]
fn a_retry_makes_a_new_group_of_what_failed_with_its_dependencies() {
    let mut hall = Hall::new();
    let after = |at: usize| NewJob { after: vec![After::Position(at)], ..once() };
    let both = NewJob { after: vec![After::Position(0), After::Position(2)], ..once() };
    let jobs = vec![once(), once(), after(1), both, once()];
    let (id, jobs) = create(&mut hall, false, jobs);
    hall.submit(NewJob { attached: true, ..in_group(id) }).map(|host| hall.cancel(host.id)).unwrap().unwrap();
    assert_eq!(retry(&mut hall, id), Err(Rejected::GroupOpen(id)));
    hall.ask(Request::CloseGroup { id }).unwrap();
    end(&mut hall, passed());
    end(&mut hall, failed("no"));
    hall.cancel(jobs[4].id).unwrap();
    assert_eq!(group(&mut hall, id).counts, counts([0, 0, 1, 3, 0, 1]));
    let new = retry(&mut hall, id).unwrap();
    let shown = group(&mut hall, new);
    assert_eq!((shown.group.retry_of, shown.group.closed), (Some(id), true));
    assert_eq!(shown.counts, counts([4, 0, 0, 0, 0, 0]));
    let (_, members) = hall.store.group_now(new).unwrap();
    let made: Vec<_> = members.iter().map(|member| hall.stored(member.id)).collect();
    let of: Vec<_> = made.iter().map(|job| job.spec.retry_of.unwrap()).collect();
    assert_eq!(of, [jobs[1].id, jobs[2].id, jobs[3].id, jobs[4].id]);
    let after: Vec<_> = made.iter().map(|job| job.spec.after.to_vec()).collect();
    let both = vec![jobs[0].id, made[1].id];
    assert_eq!(after, [vec![], vec![made[0].id], both, vec![]], "what succeeded stays as an input");
    for _ in 0..4 {
        end(&mut hall, passed());
    }
    assert_eq!(group(&mut hall, new).state, GroupState::Succeeded);
    assert_eq!(retry(&mut hall, new), Err(Rejected::NothingToRetry(new)));
    let nowhere = GroupId::new(99_999).unwrap();
    assert_eq!(retry(&mut hall, nowhere), Err(Rejected::NoSuchGroup(nowhere)));
}

#[test]
fn a_retried_group_is_closed_also_when_the_store_fails_just_then() {
    let mut hall = Hall::new();
    let (id, _) = create(&mut hall, true, vec![once()]);
    end(&mut hall, failed("no"));
    hall.hold = true;
    let ticket = hall.ask_later(Request::RetryGroup { id, name: None });
    let mut refused = false;
    while let Some((number, units)) = hall.held.pop() {
        let mut new = units.iter().flat_map(|unit| &unit.groups).filter(|write| write.expected == 0);
        assert!(new.all(|write| write.group.rev == 1), "a new group begins with its first rev");
        let closes =
            |unit: &Unit| unit.inserts.is_empty() && unit.groups.iter().any(|write| write.group.closed);
        let result = match units.iter().any(closes) && !refused {
            true => Err(CommitError::NotCommitted { full: false, message: "busy".to_owned() }),
            false => Ok(hall.store.commit_now(units)),
        };
        refused |= result.is_err();
        hall.kernel.store_replied(hall.now, StoreReply::Committed(number, result));
        hall.pump();
    }
    assert!(refused, "the group was closed by a write");
    hall.hold = false;
    let Some(Ok(Answer::GroupCreated(GroupCreated { id: new, .. }))) = hall.answers.remove(&ticket) else {
        panic!("the retry was answered");
    };
    hall.pass(60_000);
    end(&mut hall, passed());
    assert!(group(&mut hall, new).group.end.is_some(), "its only member has ended");
}

#[test]
fn a_retry_of_many_goes_on_after_a_crash_and_makes_each_once() {
    let mut hall = Hall::new();
    // A chain, so that what is made later comes after what was made before the crash.
    let chain =
        |n: usize| if n == 0 { once() } else { NewJob { after: vec![After::Position(n - 1)], ..once() } };
    let (id, jobs) = create(&mut hall, true, (0..1_300).map(chain).collect());
    end(&mut hall, failed("no"));
    hall.pass(1_000);
    assert_eq!(group(&mut hall, id).counts.failed, 1_300);
    hall.hold = true;
    hall.ask_later(Request::RetryGroup { id, name: None });
    // The new group and two slices are stored.
    for _ in 0..3 {
        let (number, units) = hall.held.remove(0);
        let committed = hall.store.commit_now(units);
        let now = hall.now;
        hall.kernel.store_replied(now, StoreReply::Committed(number, Ok(committed)));
        hall.pump();
    }
    let new = hall.store.groups_now(true)[0].id;
    assert_eq!(hall.store.group_now(new).unwrap().1.len(), 1_000);
    assert_eq!(
        hall.submit(in_group(new)).unwrap_err(),
        Rejected::GroupClosed(new),
        "the hall alone fills it"
    );
    hall.hold = false;
    let mut hall = hall.restart(Config::default());
    hall.pass(1_000);
    let shown = group(&mut hall, new);
    assert_eq!((shown.counts, shown.group.closed), (counts([1_300, 0, 0, 0, 0, 0]), true));
    let (_, members) = hall.store.group_now(new).unwrap();
    let made: Vec<_> = members.iter().map(|member| hall.stored(member.id)).collect();
    let of: Vec<_> = made.iter().map(|job| job.spec.retry_of.unwrap()).collect();
    assert_eq!(of, jobs.iter().map(|job| job.id).collect::<Vec<_>>(), "each once");
    for (before, job) in made.iter().zip(&made[1..]) {
        assert_eq!(job.spec.after[..], [before.id]);
    }
}

#[test]
fn what_is_made_anew_falls_with_what_it_comes_after_even_if_that_is_faster() {
    let mut hall = Hall::new();
    let behind = |_| NewJob { after: vec![After::Position(0)], ..once() };
    let (id, _) = create(&mut hall, true, std::iter::once(once()).chain((1..700).map(behind)).collect());
    end(&mut hall, failed("no"));
    hall.pass(1_000);
    hall.hold = true;
    hall.ask_later(Request::RetryGroup { id, name: None });
    for _ in 0..2 {
        let (number, units) = hall.held.remove(0);
        let committed = hall.store.commit_now(units);
        let now = hall.now;
        hall.kernel.store_replied(now, StoreReply::Committed(number, Ok(committed)));
        hall.pump();
    }
    // The first fails again before the second slice is made.
    let waiting = std::mem::take(&mut hall.held);
    hall.hold = false;
    end(&mut hall, failed("again"));
    hall.held = waiting;
    hall.let_through();
    hall.pass(1_000);
    let new = hall.store.groups_now(false).last().unwrap().id;
    let shown = group(&mut hall, new);
    assert_eq!((shown.state, shown.counts), (GroupState::Failed, counts([0, 0, 0, 700, 0, 0])));
}

#[test]
fn a_member_that_is_joined_elsewhere_is_no_member() {
    let mut hall = Hall::new();
    let live = hall.submit(keyed("k", "k")).unwrap().id;
    let (id, jobs) = create(&mut hall, true, vec![keyed("k", "k")]);
    assert_eq!(jobs[0].id, live);
    assert_eq!(group(&mut hall, id).counts.total(), 0);
    let again = NewJob { on_duplicate: OnDuplicate::RunAgain, ..keyed("k", "k") };
    let (other, _) = create(&mut hall, false, vec![keyed("m", "m")]);
    hall.submit(NewJob { job_type: TypeName::new("m").unwrap(), ..keyed("m", "m") }).unwrap();
    let marked =
        NewJob { group: Some(other), ..NewJob { on_duplicate: OnDuplicate::RunAgain, ..keyed("m", "m") } };
    hall.submit(marked).unwrap();
    hall.submit(again).unwrap();
    hall.ask(Request::CloseGroup { id: other }).unwrap();
    for _ in 0..4 {
        end(&mut hall, passed());
    }
    let shown = group(&mut hall, other);
    assert_eq!(
        (shown.state, shown.counts.total()),
        (GroupState::Succeeded, 1),
        "a follow-up stands for itself"
    );
}

#[test]
fn retention_spares_members_of_an_open_group() {
    let mut hall = Hall::new();
    let (id, jobs) = create(&mut hall, false, vec![once()]);
    end(&mut hall, passed());
    let name = TypeName::new("t").unwrap();
    let mut config = (*hall.kernel.type_config(&name)).clone();
    config.keep_count = Some(0);
    hall.ask(Request::SetType { job_type: name, config: Some(config), expected: None }).unwrap();
    hall.pass(3_700_000);
    hall.show(jobs[0].id);
    hall.ask(Request::CloseGroup { id }).unwrap();
    hall.pass(3_700_000);
    assert_eq!(hall.ask(Request::Show { id: jobs[0].id }), Err(Rejected::NoSuchJob(jobs[0].id)));
    assert_eq!(group(&mut hall, id).counts, counts([0, 0, 1, 0, 0, 0]), "its end is kept");
}

#[test]
fn a_copy_that_supersedes_its_original_is_the_same_member() {
    let mut hall = Hall::new();
    let (id, made) = create(&mut hall, true, vec![keyed("t", "k")]);
    let (other, _) = create(&mut hall, false, Vec::new());
    let original = hall.submit(NewJob { group: Some(other), ..keyed("t", "j") }).unwrap().id;
    let on_duplicate = OnDuplicate::Supersede;
    let copy = NewJob { copy_of: Some(original), group: Some(other), on_duplicate, ..keyed("t", "j") };
    hall.submit(copy).unwrap();
    let one = counts([1, 0, 0, 0, 0, 0]);
    assert_eq!(group(&mut hall, other).counts, one, "one of the two is open, and so is their member");
    let mut hall = hall.restart(Config::default());
    assert_eq!(group(&mut hall, other).counts, one);
    assert_eq!((group(&mut hall, id).counts, made.len()), (one, 1));
}

#[test]
fn ground_6_a_retried_group_keeps_inputs_from_outside_in_their_order() {
    let mut hall = Hall::new();
    let [good, bad] = [0, 1].map(|_| hall.submit(NewJob { priority: 1, ..once() }).unwrap().id);
    end(&mut hall, passed());
    end(&mut hall, failed("no"));
    let open = hall.submit(NewJob { priority: 200, ..once() }).unwrap().id;
    let after = vec![After::Position(0), After::Job(open), After::Job(good), After::Position(1)];
    let merge = NewJob { after, ..once() };
    let any = NewJob { after: vec![After::Job(bad), After::Job(good)], after_any: true, ..once() };
    let (id, jobs) = create(&mut hall, true, vec![once(), once(), merge, any]);
    end(&mut hall, passed());
    end(&mut hall, failed("no"));
    end(&mut hall, failed("no"));
    let new = retry(&mut hall, id).unwrap();
    let (_, members) = hall.store.group_now(new).unwrap();
    let made: Vec<_> = members.iter().map(|member| hall.stored(member.id)).collect();
    let after: Vec<_> = made.iter().map(|job| job.spec.after.to_vec()).collect();
    assert_eq!(after, [vec![], vec![jobs[0].id, open, good, made[0].id], vec![bad, good]]);
    for _ in 0..4 {
        end(&mut hall, passed());
    }
    assert_eq!(group(&mut hall, new).state, GroupState::Succeeded);
}
