//! Groups with their members, and links between jobs.

use jobhall_core::{
    Failure, Group, GroupCounts, GroupEnd, GroupId, GroupVerdict, Job, JobSpec, Key, Owner, StateName, Tag,
};
use jobhall_store::{Check, Conflict, GroupFilter, GroupWrite, JobFilter, Link, Member, Prune, Store, Unit};

use crate::client::Client;
use crate::fixture::wait;
use crate::samples::{inserting, passed};

fn group(client: &Client<'_>) -> Group {
    Group {
        id: GroupId::of(client.fresh(None).id),
        rev: 1,
        name: Some(Key::new("nightly ☃").expect("a valid name")),
        owner: Some(Owner::new("Ada").expect("a valid owner")),
        tags: [Tag::new("eu").expect("a valid tag")].into(),
        retry_of: None,
        created_at: client.now(),
        closed: false,
        cancel: None,
        fails: false,
        end: None,
    }
}

fn write(store: &dyn Store, expected: u32, group: &Group) -> Result<(), Vec<Conflict>> {
    let groups = vec![GroupWrite { expected, group: group.clone() }];
    let committed = wait(store.commit(vec![Unit { groups, ..Unit::default() }])).expect("a commit");
    committed.results.into_iter().next().expect("a result").map(|_| ())
}

fn stored(store: &dyn Store, id: GroupId) -> Option<Group> {
    wait(store.groups(vec![id])).expect("groups can be read").pop().flatten()
}

/// A group is written only if its rev is the expected one, and is read with every field.
pub fn l21_a_group_comes_back_with_every_field_and_is_guarded_by_its_rev(store: &dyn Store) {
    let client = Client::new(store);
    let first = group(&client);
    assert_eq!(stored(store, first.id), None);
    assert_eq!(write(store, 0, &first), Ok(()));
    assert_eq!(stored(store, first.id), Some(first.clone()));
    let conflict = || vec![Conflict::Group { write: 0, stored: Some(Box::new(first.clone())) }];
    assert_eq!(write(store, 0, &first), Err(conflict()), "it is there");
    let counts = GroupCounts { succeeded: 4, failed: 1, ..GroupCounts::default() };
    let ended = Group {
        rev: 2,
        closed: true,
        cancel: Some(Failure::new("cancelled", "by hand")),
        fails: true,
        end: Some(GroupEnd { at: client.now(), verdict: GroupVerdict::Failed, counts }),
        ..first.clone()
    };
    assert_eq!(write(store, 7, &ended), Err(conflict()), "another rev was meant");
    assert_eq!(write(store, 1, &ended), Ok(()));
    assert_eq!(stored(store, first.id), Some(ended.clone()));
    let second = Group { retry_of: Some(first.id), name: None, owner: None, ..group(&client) };
    assert_eq!(write(store, 1, &second), Err(vec![Conflict::Group { write: 0, stored: None }]));
    assert_eq!(write(store, 0, &second), Ok(()));
    let page = |before, limit, open| {
        wait(store.group_page(GroupFilter::all(open), before, limit)).expect("a page").groups
    };
    assert_eq!(page(None, 9, false), [second.clone(), ended.clone()]);
    assert_eq!(page(None, 1, false), std::slice::from_ref(&second));
    assert_eq!(page(Some(second.id), 9, false), [ended]);
    assert_eq!(page(None, 9, true), std::slice::from_ref(&second));
    let prune = Prune { groups: vec![first.id, second.id], ..Prune::default() };
    wait(store.prune(prune)).expect("a prune");
    assert_eq!((stored(store, first.id), stored(store, second.id)), (None, Some(second)));
}

/// A unit that requires a group to accept members is refused if it does not, and nothing of the unit is written.
pub fn a_closed_group_refuses_members(store: &dyn Store) {
    let client = Client::new(store);
    let open = group(&client);
    write(store, 0, &open).expect("a group");
    let unit = |id: GroupId| {
        let job = client.fresh(None);
        (job.id, Unit { checks: vec![Check::Joinable(id)], ..inserting(job) })
    };
    let commit = |unit| wait(store.commit(vec![unit])).expect("a commit").results.remove(0).map(|_| ());
    let (job, taken) = unit(open.id);
    assert_eq!(commit(taken), Ok(()));
    assert!(client.get(job).is_some());
    write(store, 1, &Group { rev: 2, closed: true, ..open.clone() }).expect("closed");
    for id in [open.id, GroupId::of(job)] {
        let (job, refused) = unit(id);
        assert_eq!(commit(refused), Err(vec![Conflict::NotJoinable(id)]));
        assert_eq!(client.get(job), None);
    }
}

/// A unit that requires an open group is refused if the group is being cancelled, has ended or does not exist. A group
/// that is only closed to members is open.
pub fn ground_3_a_cancelled_or_ended_group_refuses_helpers(store: &dyn Store) {
    let client = Client::new(store);
    let unit = |id: GroupId| {
        let job = client.fresh(None);
        (job.id, Unit { checks: vec![Check::GroupOpen(id)], ..inserting(job) })
    };
    let commit = |unit| wait(store.commit(vec![unit])).expect("a commit").results.remove(0).map(|_| ());
    let closed = Group { closed: true, ..group(&client) };
    write(store, 0, &closed).expect("a group");
    let (job, taken) = unit(closed.id);
    assert_eq!(commit(taken), Ok(()), "it is closed to members only");
    assert!(client.get(job).is_some());
    let (verdict, counts) = (GroupVerdict::Succeeded, GroupCounts::default());
    let end = Some(GroupEnd { at: client.now(), verdict, counts });
    let ended = Group { closed: true, end, ..group(&client) };
    let cancel = Some(Failure::new("cancelled", "by hand"));
    let cancelled = Group { rev: 2, cancel, ..closed };
    write(store, 0, &ended).expect("an ended group");
    write(store, 1, &cancelled).expect("a cancel");
    for id in [cancelled.id, ended.id, GroupId::of(job)] {
        let (job, refused) = unit(id);
        assert_eq!(commit(refused), Err(vec![Conflict::NotJoinable(id)]));
        assert_eq!(client.get(job), None);
    }
}

/// Lists of groups can be filtered by tag and owner, and are read in pages.
pub fn ground_13_groups_are_found_by_tag_and_owner(store: &dyn Store) {
    let client = Client::new(store);
    let tag = |tag: &str| Tag::new(tag).expect("a valid tag");
    let owner = |owner: &str| Some(Owner::new(owner).expect("a valid owner"));
    let make = |tags: &[&str], name: &str| {
        let tags = tags.iter().map(|name| tag(name)).collect();
        let made = Group { tags, owner: owner(name), ..group(&client) };
        write(store, 0, &made).expect("a group");
        made.id
    };
    let [a, b, c] = [make(&["eu", "x"], "Ada"), make(&["eux"], "Ada"), make(&["x"], "Bob")];
    // All pages of the list, one group at a time.
    let listed = |filter: GroupFilter| {
        let (mut ids, mut before) = (Vec::new(), None);
        loop {
            let page = wait(store.group_page(filter.clone(), before, 1)).expect("a page");
            ids.extend(page.groups.iter().map(|group| group.id));
            before = page.next;
            if before.is_none() {
                return ids;
            }
        }
    };
    assert_eq!(listed(GroupFilter::default()), [c, b, a]);
    assert_eq!(listed(GroupFilter { tag: Some(tag("eu")), ..GroupFilter::default() }), [a]);
    assert_eq!(listed(GroupFilter { tag: Some(tag("x")), ..GroupFilter::default() }), [c, a]);
    assert_eq!(listed(GroupFilter { owner: owner("Ada"), ..GroupFilter::default() }), [b, a]);
    let both = GroupFilter { tag: Some(tag("x")), owner: owner("Ada"), open: true };
    assert_eq!(listed(both), [a]);
    assert_eq!(listed(GroupFilter { owner: owner("Eve"), ..GroupFilter::default() }), []);
}

/// The jobs of a group are returned in order, with the fields needed for counting; lists can be filtered by group,
/// owner and tag.
pub fn l21_the_jobs_of_a_group_are_found(store: &dyn Store) {
    let client = Client::new(store);
    let group = GroupId::of(client.fresh(None).id);
    let of_group = |change: &dyn Fn(&mut JobSpec)| -> Job {
        let mut job = client.fresh(None);
        let mut spec = (*job.spec).clone();
        spec.group = Some(group);
        change(&mut spec);
        job.spec = spec.into();
        client.put(job)
    };
    let first = of_group(&|spec| spec.owner = Some(Owner::new("Ada").expect("a valid owner")));
    client.put(client.fresh(None));
    let copy = of_group(&|spec| spec.copy_of = Some(first.id));
    let tags = ["eu", "x"].map(|tag| Tag::new(tag).expect("a valid tag"));
    let host = of_group(&|spec| (spec.attached, spec.tags) = (true, tags.clone().into()));
    let held = client.apply(client.claim(&first, "w"));
    client.apply(client.report(&held, &passed("1")));
    let member = |job: &Job, copy_of, attached, state| Member { id: job.id, copy_of, attached, state };
    let expected = [
        member(&first, None, false, StateName::Succeeded),
        member(&copy, Some(first.id), false, StateName::Queued),
        member(&host, None, true, StateName::Queued),
    ];
    let members = |after, limit| wait(store.members(group, after, limit)).expect("members");
    assert_eq!(members(None, 9), expected);
    assert_eq!(members(Some(first.id), 1), expected[1..2]);
    assert_eq!(wait(store.members(GroupId::of(first.id), None, 9)), Ok(Vec::new()));
    let listed = |filter: JobFilter| -> Vec<u64> {
        let page = wait(store.list(filter, None, 9)).expect("a list");
        page.jobs.iter().map(|job| job.id.get()).collect()
    };
    let ids = |jobs: &[&Job]| jobs.iter().map(|job| job.id.get()).collect::<Vec<_>>();
    let of = JobFilter { group: Some(group), ..JobFilter::default() };
    assert_eq!(listed(of), ids(&[&host, &copy, &first]));
    let owner = Some(Owner::new("Ada").expect("a valid owner"));
    assert_eq!(listed(JobFilter { owner, ..JobFilter::default() }), ids(&[&first]));
    assert_eq!(listed(JobFilter { tag: Some(tags[1].clone()), ..JobFilter::default() }), ids(&[&host]));
    let none = Some(Tag::new("e").expect("a valid tag"));
    assert_eq!(listed(JobFilter { tag: none, ..JobFilter::default() }), [0u64; 0]);
    let ended = wait(store.completed(None, 9)).expect("completed jobs");
    assert_eq!(
        ended.jobs.iter().map(|job| (job.id, job.group)).collect::<Vec<_>>(),
        [(first.id, Some(group))]
    );
}

/// Links are returned in order, are replaced by later ones of the same name, and are removed with their parent.
pub fn links_are_kept_until_their_parent_has_ended(store: &dyn Store) {
    let client = Client::new(store);
    let jobs: Vec<Job> = (0..3).map(|_| client.put(client.fresh(None))).collect();
    let link = |parent: usize, call: &str, job: usize| Link {
        parent: jobs[parent].id,
        call: call.to_owned(),
        job: jobs[job].id,
    };
    let commit = |links: Vec<Link>, unlinked| {
        let unit = Unit { links, unlinked, ..Unit::default() };
        assert!(wait(store.commit(vec![unit])).expect("a commit").results[0].is_ok());
    };
    let links = |after, limit| wait(store.links(after, limit)).expect("links");
    commit(vec![link(1, "b", 2), link(0, "é", 1), link(1, "a", 0)], Vec::new());
    assert_eq!(links(None, 9), [link(0, "é", 1), link(1, "a", 0), link(1, "b", 2)]);
    assert_eq!(links(Some((jobs[0].id, "é".to_owned())), 1), [link(1, "a", 0)]);
    commit(vec![link(1, "a", 2)], Vec::new());
    assert_eq!(links(Some((jobs[0].id, "é".to_owned())), 1), [link(1, "a", 2)]);
    commit(Vec::new(), vec![jobs[1].id]);
    assert_eq!(links(None, 9), [link(0, "é", 1)]);
    client.apply(client.cancel(&jobs[0]));
    wait(store.prune(Prune { jobs: vec![jobs[0].id], ..Prune::default() })).expect("a prune");
    assert_eq!(links(None, 9), []);
}

/// Only a group that has ended can be removed.
pub fn an_open_group_is_not_removed(store: &dyn Store) {
    let client = Client::new(store);
    let open = group(&client);
    assert_eq!(write(store, 0, &open), Ok(()));
    let remove = || {
        let prune = Prune { groups: vec![open.id], ..Prune::default() };
        wait(store.prune(prune)).expect("a prune");
    };
    remove();
    assert_eq!(stored(store, open.id), Some(open.clone()));
    let (verdict, counts) = (GroupVerdict::Succeeded, GroupCounts::default());
    let end = Some(GroupEnd { at: client.now(), verdict, counts });
    let ended = Group { rev: 2, closed: true, end, ..open.clone() };
    assert_eq!(write(store, 1, &ended), Ok(()));
    remove();
    assert_eq!(stored(store, open.id), None);
}
