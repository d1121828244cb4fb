//! Jobs that belong to a group without being members of their own, and groups that are stopped as failed.

use jobhall_core::{Failure, GroupId, GroupState, JobId, NewJob, Report};
use jobhall_kernel::{Answer, Config, Effect, GroupCreated, NewGroup, Rejected, Request, ShownGroup, Submit};

use crate::rig::{Hall, failed, job, passed, tries};

fn create(hall: &mut Hall, closed: bool, members: usize) -> (GroupId, Vec<JobId>) {
    let group = NewGroup { closed, ..NewGroup::default() };
    let jobs = vec![NewJob { retry: tries(1), ..job("t") }; members];
    match hall.ask(Request::CreateGroup { group, submit: Submit { jobs, ..Submit::default() } }).unwrap() {
        Answer::GroupCreated(GroupCreated { id, jobs, .. }) => {
            (id, jobs.iter().map(|made| made.id).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn member(group: GroupId) -> NewJob {
    NewJob { group: Some(group), ..job("t") }
}

fn attached(group: GroupId) -> NewJob {
    NewJob { attached: true, ..member(group) }
}

fn copy(group: GroupId, of: JobId) -> NewJob {
    NewJob { copy_of: Some(of), ..member(group) }
}

fn cancel(hall: &mut Hall, id: GroupId, fails: bool) -> ShownGroup {
    let failure = Failure::new(if fails { "too_many_failures" } else { "cancelled" }, "");
    match hall.ask(Request::CancelGroup { id, failure, fails }).unwrap() {
        Answer::Group(shown) => *shown,
        other => panic!("{other:?}"),
    }
}

/// The ends of groups that watchers were told.
fn told(hall: &Hall) -> Vec<(GroupId, GroupState)> {
    let ended = |effect: &Effect| match effect {
        Effect::GroupEnded(id, state) => Some((*id, *state)),
        _ => None,
    };
    hall.effects.iter().filter_map(ended).collect()
}

#[test]
fn ground_3_a_closed_group_takes_attached_jobs_and_copies_until_it_is_cancelled() {
    let mut hall = Hall::new();
    let (id, members) = create(&mut hall, true, 2);
    assert_eq!(hall.submit(member(id)).unwrap_err(), Rejected::GroupClosed(id));
    hall.submit(attached(id)).unwrap();
    let held = hall.take_one("w");
    assert_eq!(held.attempt.job, members[0]);
    let copied = hall.submit(copy(id, members[0])).unwrap().id;
    assert_eq!(hall.stored(copied).spec.group, Some(id));
    cancel(&mut hall, id, false);
    for refused in [attached(id), copy(id, members[0])] {
        assert_eq!(hall.submit(refused).unwrap_err(), Rejected::GroupClosed(id));
    }
    hall.report("w", &held, Report::Cancelled).unwrap();
    assert_eq!(hall.submit(attached(id)).unwrap_err(), Rejected::NoSuchGroup(id), "it has ended");
}

#[test]
fn ground_3_a_group_that_retries_another_takes_attached_jobs_and_copies() {
    let mut hall = Hall::new();
    let (id, _) = create(&mut hall, true, 1);
    let held = hall.take_one("w");
    hall.report("w", &held, failed("no")).unwrap();
    let Answer::GroupCreated(GroupCreated { id: again, .. }) =
        hall.ask(Request::RetryGroup { id, name: None }).unwrap()
    else {
        panic!("a group")
    };
    let held = hall.take_one("v");
    assert_eq!(hall.submit(member(again)).unwrap_err(), Rejected::GroupClosed(again));
    hall.submit(attached(again)).unwrap();
    hall.submit(copy(again, held.attempt.job)).unwrap();
}

#[test]
fn ground_3_a_cancel_that_is_stored_first_wins_against_a_helper_and_a_member_in_flight() {
    for closes in [true, false] {
        let mut hall = Hall::new();
        let (id, _) = create(&mut hall, false, 1);
        hall.hold = true;
        let change = match closes {
            true => Request::CloseGroup { id },
            false => Request::CancelGroup { id, failure: Failure::new("cancelled", ""), fails: false },
        };
        hall.ask_later(change);
        // The helper's check comes first; the member's must not be taken for a repetition of it.
        let jobs = vec![attached(id), member(id)];
        let both = hall.ask_later(Request::Submit { submit: Submit { jobs, ..Submit::default() } });
        let helper = hall
            .ask_later(Request::Submit { submit: Submit { jobs: vec![attached(id)], ..Submit::default() } });
        hall.let_through();
        assert_eq!(hall.answers[&both], Err(Rejected::GroupClosed(id)));
        assert_eq!(hall.answers[&helper].is_ok(), closes, "a helper asks only for an uncancelled group");
    }
}

#[test]
fn ground_3_a_group_that_is_stopped_as_failed_has_failed_and_says_so_once() {
    for restart in [false, true] {
        let mut hall = Hall::new();
        let (id, members) = create(&mut hall, false, 2);
        let held = hall.take_one("w");
        let shown = cancel(&mut hall, id, true);
        assert!(shown.group.fails && shown.group.closed && shown.group.end.is_none());
        assert!(hall.store.group_now(id).unwrap().0.fails, "the mark is stored first");
        assert_eq!(cancel(&mut hall, id, true).group, shown.group, "it can be repeated");
        assert!(cancel(&mut hall, id, false).group.fails, "it stays so");
        assert_eq!(told(&hall), []);
        let mut hall = if restart { hall.restart(Config::default()) } else { hall };
        if restart {
            hall.come_back("w", &[&held]);
        }
        hall.report("w", &held, Report::Cancelled).unwrap();
        let (group, _) = hall.store.group_now(id).unwrap();
        assert_eq!(group.state(&group.end.unwrap().counts), GroupState::Failed, "restart: {restart}");
        assert_eq!(group.end.unwrap().counts.cancelled, 2);
        assert_eq!(told(&hall), [(id, GroupState::Failed)]);
        let error = hall.show(members[1]).job.status.state.error().cloned().unwrap();
        assert_eq!(error.reason, "too_many_failures");
    }
}

#[test]
fn ground_3_a_cancelled_group_can_still_be_stopped_as_failed() {
    let mut hall = Hall::new();
    let (id, _) = create(&mut hall, true, 1);
    let held = hall.take_one("w");
    let first = cancel(&mut hall, id, false);
    assert!(!first.group.fails);
    let shown = cancel(&mut hall, id, true);
    assert_eq!(
        (shown.group.fails, &shown.group.cancel),
        (true, &first.group.cancel),
        "the first word counts"
    );
    hall.report("w", &held, passed()).unwrap();
    assert_eq!(told(&hall), [(id, GroupState::Failed)], "whatever became of its members");
    let (other, _) = create(&mut hall, true, 0);
    assert_eq!(told(&hall).last(), Some(&(other, GroupState::Succeeded)), "every end is told");
}
